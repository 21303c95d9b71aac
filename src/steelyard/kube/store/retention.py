"""How many bytes of history a store holds: rows that newer ones have replaced, and rows of deletions.

Revisions alone are no measure: five thousand states of a ConfigMap can be five megabytes or five gigabytes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from steelyard.kube.store.record import Change

MOST_BYTES: Final = 256 << 20
"""History beyond this is compacted, however few revisions it has."""
LEFT_BYTES: Final = 64 << 20
"""What such a compaction leaves of it: it is not to begin again with the next write."""


class Retention:
    def __init__(self, revision: int, found: int) -> None:
        """`found` is how many bytes of history up to the revision there were when the store was opened, about."""
        self._sizes: deque[tuple[int, int]] = deque([(revision, found)] if found else [])
        self._bytes = found

    @property
    def is_too_much(self) -> bool:
        return self._bytes > MOST_BYTES

    def note(self, change: Change) -> None:
        """What the change made history: the state before, and if nothing is left of the object, the last one."""
        size = change.previous.size if change.previous is not None else 0
        if change.record is None and change.final is not None:
            size += change.final.size
        if size:
            self._sizes.append((change.revision, size))
            self._bytes += size

    def end(self) -> int:
        """The revision up to which history must go, so that little enough is left."""
        left, end = self._bytes, 0
        for revision, size in self._sizes:
            if left <= LEFT_BYTES:
                break
            left, end = left - size, revision
        return end

    def forget(self, end: int) -> None:
        """History up to the revision is being dropped."""
        while self._sizes and self._sizes[0][0] <= end:
            self._bytes -= self._sizes.popleft()[1]
