"""A list on its way out: what stands before its items, the records they are made of, and the text of some at a time.

The records are the store's own and are there anyway; the text of all of them is not. So a list is held as references,
and a slice of it is made when the client has read what came before. Nobody holds megabytes by not reading.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from steelyard.kube import turns
from steelyard.kube.objects import Object
from steelyard.kube.store.record import Record

SLICE_BYTES: Final = 60 * 1024
"""Of stored JSON that become text at once: what an exchange writes at once, with room for what stands around it."""
_AT_MOST: Final = 500
"""Records of a slice, however small."""

Piece = bytes | memoryview
Encode = Callable[[Sequence[Record]], Sequence[Piece]]
"""The records as JSON, with a comma between two; in pieces, so that a large one need not be copied."""


@dataclass(slots=True)
class Listing:
    head: Object
    """The list without its items."""
    field: str
    """Where they are: `items`, or the `rows` of a Table."""
    records: Sequence[Record]
    encode: Encode
    weight: int = 1
    """How much longer than to send it as it is stored it takes to make an item."""
    has_own_records: bool = False
    """Whether nobody else has them: they were read from the disk, or converted."""

    def opening(self) -> bytes:
        return orjson.dumps({**self.head, self.field: []})[: -len(CLOSING)]

    @property
    def is_short(self) -> bool:
        """Whether it goes out whole."""
        records = self.records
        return len(records) <= _AT_MOST and sum(record.size for record in records) <= SLICE_BYTES

    def own_bytes(self) -> int:
        """What is in memory for this list alone."""
        return sum(record.size for record in self.records) if self.has_own_records else 0

    def largest(self) -> int:
        """Bytes of a record."""
        return max(record.size for record in self.records)

    def cuts(self, size: int = SLICE_BYTES) -> Iterator[tuple[Sequence[Record], int]]:
        """So many stored bytes at a time, or one record, and how much room in a turn it takes to encode and send it."""
        records = self.records
        first = total = 0
        for last, record in enumerate(records):
            length = record.size
            if last > first and (total + length > size or last - first >= _AT_MOST):
                yield records[first:last], total * self.weight
                first, total = last, 0
            total += length
        if records:
            yield records[first:], total * self.weight

    async def slices(self, flow: Hashable, size: int = SLICE_BYTES) -> AsyncGenerator[Sequence[Piece]]:
        """The items as JSON, without what stands between two slices. Each takes its turn before it is made."""
        for records, room in self.cuts(size):
            await turns.take(room, flow)
            yield self.encode(records)

    def text(self) -> bytes:
        """All of it, at once."""
        return b"".join((self.opening(), *(self.encode(self.records) if self.records else ()), CLOSING))


CLOSING: Final = b"]}"
