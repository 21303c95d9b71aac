"""The store's values: a record is one state of one key, a change is the step from one state to the next.

Both are shared by everyone who reads them, so they are read-only by agreement. They are plain slotted classes and not
frozen dataclasses because one of each is made per write.
"""

from __future__ import annotations

import sys
import threading
import zlib
from collections import deque
from typing import Final, NewType, Protocol, cast

import orjson

from steelyard.kube.objects import Object

Revision = NewType("Revision", int)
_WORTH_KEEPING: Final = 8 * 1024
"""Bytes of JSON whose object stays in memory after a list has looked at it."""
_KEPT_BYTES: Final = 512 * 1024
"""Of the JSON of those whose objects stay for the next who asks. An object takes up to thirty times as much as its
JSON, and records live as long as somebody may still ask what has changed."""
_TOO_LARGE: Final = 128 * 1024
"""Bytes of JSON whose object stays for a moment only: of those that large there is one."""


class _Asked:
    """The records whose objects were asked for last."""

    __slots__ = ("_bytes", "_large", "_lock", "_records")

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._large: Record | None = None
        self._lock = threading.Lock()

    def note(self, record: Record) -> None:
        with self._lock:
            if record.size > _TOO_LARGE:
                self._keep(record)
                return
            records = self._records
            records.append(record)
            self._bytes += record.size
            while self._bytes > _KEPT_BYTES:
                oldest = records.popleft()
                self._bytes -= oldest.size
                oldest.forget_object()

    def forget_large(self) -> None:
        with self._lock:
            self._keep(None)

    def _keep(self, record: Record | None) -> None:
        if self._large is not None and self._large is not record:
            self._large.forget_object()
        self._large = record


_ASKED: Final = _Asked()


def forget_large() -> None:
    """Called from time to time: whoever asks for a large object asks for it many times in a row, and then no more."""
    _ASKED.forget_large()


class Source(Protocol):
    """Where the value of a record is that is without it."""

    def fetch(self, record: Record) -> bytes: ...


class Record:
    """One state of a key: the JSON as written, and the object parsed from it on first use."""

    __slots__ = ("_object", "_value", "fitted", "key", "revision", "size", "source")

    def __init__(self, key: str, revision: int, value: bytes, obj: Object | None = None) -> None:
        self.key = key
        self.revision = revision
        self._value: bytes | None = value
        self.size = len(value)
        """Bytes of the value, which need not be read for that."""
        self.source: Source | None = None
        """Of the store that has the value on its shelf, or may have."""
        self._object = obj
        self.fitted: object = None
        """For whoever reads it otherwise than it was written, to remember how."""

    @property
    def value(self) -> bytes:
        value = self._value
        if value is None:
            source = self.source
            # Without one it has just been brought back.
            value = source.fetch(self) if source is not None else cast(bytes, self._value)
        return value

    @property
    def value_at_hand(self) -> bytes | None:
        return self._value

    def is_value_in_use(self) -> bool:
        """Whether anybody but the record has the value that is at hand."""
        return sys.getrefcount(self._value) > _ALONE

    def let_go(self) -> None:
        """For the source alone, which gives the value to whoever asks."""
        self._value = None

    def bring_back(self, value: bytes) -> None:
        self._value = value

    @property
    def object(self) -> Object:
        obj = self._object
        if obj is None:
            obj = cast(Object, orjson.loads(self.value))
            # Another thread may forget it at any moment.
            self._object = obj
            _ASKED.note(self)
        return obj

    def read(self) -> Object:
        """The object for one who looks at many: a large one is not kept for the next time."""
        if self._object is not None or self.size <= _WORTH_KEEPING:
            return self.object
        return cast(Object, orjson.loads(self.value))

    def forget_object(self) -> None:
        """Keeps the JSON alone; whoever asks for the object again gets an equal one."""
        self._object = None

    def __repr__(self) -> str:
        return f"Record({self.key!r}, revision={self.revision})"


def _alone() -> int:
    record = Record("", 0, bytes(_WORTH_KEEPING))
    return sys.getrefcount(record._value)  # pyright: ignore[reportPrivateUsage] - its own


_ALONE: Final = _alone()
"""As many references as Python counts to a value that the record alone has, with the one that asks."""


class Change:
    """What one revision did to a key.

    `record` is the new state, or None if the key was deleted; `previous` is the state it replaced, or None if the key
    was new. A deletion carries in `final` the last state as the deleting caller stamped it: what a DELETED event shows.
    """

    __slots__ = ("final", "key", "previous", "record", "revision")

    def __init__(
        self, revision: int, key: str, record: Record | None, previous: Record | None, final: Record | None = None
    ) -> None:
        self.revision = revision
        self.key = key
        self.record = record
        self.previous = previous
        self.final = final

    def __repr__(self) -> str:
        what = "deleted" if self.record is None else "put"
        return f"Change({self.revision}, {self.key!r}, {what})"


def checksum(revision: int, key: str, previous: int, deleted: int, value: bytes) -> int:
    """Covers every column of a row, so that a flipped bit anywhere in it is seen."""
    return zlib.crc32(value, zlib.crc32(f"{revision}\0{key}\0{previous}\0{deleted}\0".encode()))


def upper_bound(prefix: str) -> str:
    """A string after every key that starts with the prefix."""
    return prefix + "\U0010ffff"
