"""How many bytes the current state of each space has, counted as writes are queued.

Counted from the newest states, durable or not: whoever limits a space by it must see what is on its way to the disk, or
many writes at once would pass together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from steelyard.kube.store.record import Change, Record


class Usage:
    def __init__(self, records: Iterable[Record]) -> None:
        self._bytes: dict[str, int] = defaultdict(int)
        for record in records:
            self._bytes[_space(record.key)] += record.size

    def of(self, space: str) -> int:
        return self._bytes.get(space, 0)

    def add(self, change: Change) -> None:
        self._count(change, 1)

    def undo(self, change: Change) -> None:
        self._count(change, -1)

    def _count(self, change: Change, sign: int) -> None:
        grown = _size(change.record) - _size(change.previous)
        space = _space(change.key)
        self._bytes[space] += sign * grown
        if not self._bytes[space]:
            del self._bytes[space]


def _space(key: str) -> str:
    return key.partition("/")[0]


def _size(record: Record | None) -> int:
    return record.size if record is not None else 0
