"""The newest changes, in memory: for watches that resume, for lists of a moment ago, and for those who are told.

Both are bounded in number and in bytes. A change keeps the state that it replaced; an object takes several times the
memory of its JSON, and every full garbage collection would walk through all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from steelyard.kube.store.record import Change, Record

_CHANGES: Final = 2_048
_CHANGES_BYTES: Final = 2 * 1024 * 1024
_PARSED: Final = 256
"""So many of the newest states stay parsed, for those who are told of the change."""
_PARSED_BYTES: Final = 512 * 1024
"""Of their JSON."""


class Recent:
    __slots__ = ("_bytes", "_changes", "_parsed", "_parsed_bytes")

    def __init__(self) -> None:
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._parsed: deque[Record] = deque()
        self._parsed_bytes = 0

    def note(self, change: Change) -> None:
        """The next one; too many stay until `trim` is called."""
        self._changes.append(change)
        self._bytes += _size(change)
        if change.record is not None:
            self._parsed.append(change.record)
            self._parsed_bytes += change.record.size

    def trim(self) -> None:
        changes, parsed = self._changes, self._parsed
        while self._bytes > _CHANGES_BYTES or len(changes) > _CHANGES:
            self._bytes -= _size(changes.popleft())
        while len(parsed) > _PARSED or self._parsed_bytes > _PARSED_BYTES:
            oldest = parsed.popleft()
            self._parsed_bytes -= oldest.size
            oldest.forget_object()

    def after(self, revision: int) -> Iterable[Change] | None:
        """The changes after the revision, or None if they are not all here any more."""
        changes = self._changes
        if not changes or changes[0].revision > revision + 1:
            return None
        return islice(changes, revision + 1 - changes[0].revision, None)


def _size(change: Change) -> int:
    """What it keeps in memory besides the current state, about."""
    return sum(state.size for state in (change.previous, change.final) if state is not None)
