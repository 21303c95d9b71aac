"""What comes next for a DatabaseCopy, from its status and the time. Pure.

(nothing) -> Copying -> Scanning -> Done          left alone from then on
                ^  \\-> Failed                     tried again, from the beginning, with growing pauses
                |   \\-> Refused                   until the spec says something else
                +---- killed in the middle: from the beginning
"""

from __future__ import annotations

from typing import Final, Literal

from steelyard.api.databases import DatabaseCopyStatus

Phase = Literal["Pending", "Copying", "Scanning", "Done", "Refused", "Failed"]
Next = Literal["nothing", "begin", "wait"]

_SHORTEST_RETRY: Final = 5.0
_LONGEST_RETRY: Final = 1800.0
PROBLEMS_TOLD: Final = 200


def next_step(status: DatabaseCopyStatus, generation: int, *, is_running: bool, retry_in: float) -> Next:
    """`retry_in` are the seconds that a failed one still has to wait."""
    if status.completed_at is not None:
        return "nothing"
    if is_running:
        return "wait"
    if status.phase == "Refused" and _judged(status) >= generation:
        return "nothing"
    return "wait" if retry_in > 0 else "begin"


def retry_after(failures: int) -> float:
    """Seconds after so many failures in a row."""
    return min(_SHORTEST_RETRY * 2.0 ** min(failures - 1, 16), _LONGEST_RETRY)


def _judged(status: DatabaseCopyStatus) -> int:
    """The generation of the spec that was refused."""
    ready = next((each for each in status.conditions or () if each.type == "Ready"), None)
    return (ready.observed_generation or 0) if ready is not None else 0
