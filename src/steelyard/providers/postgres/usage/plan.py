"""When how full a database is gets reported. Pure.

Most databases grow slowly, and a look every minute at each would be a write every minute for each. So a report is
written when it says something new: a level was crossed, in either direction, or the figure has moved by five percent
of the limit.
"""

from __future__ import annotations

import bisect
from typing import Final

from steelyard.frozen import frozen

LEVELS: Final = (80, 95, 100, 110)
_STEP: Final = 5


@frozen
class Reported:
    """What the status says; None where nothing was reported yet."""

    size_bytes: int | None = None
    percent: int | None = None


def percent(size_bytes: int, limit_bytes: int) -> int:
    """Rounded down: 100 is reached when the limit is."""
    return size_bytes * 100 // limit_bytes


def level(of_percent: int) -> int:
    """How many of the levels it has reached."""
    return bisect.bisect_right(LEVELS, of_percent)


def is_news(seen: Reported, size_bytes: int, limit_bytes: int) -> bool:
    now = percent(size_bytes, limit_bytes)
    if seen.percent is None or seen.size_bytes is None:
        return True
    limit_has_changed = percent(seen.size_bytes, limit_bytes) != seen.percent
    return limit_has_changed or level(now) != level(seen.percent) or abs(now - seen.percent) >= _STEP
