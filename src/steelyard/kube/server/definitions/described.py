"""What is made of a definition's schema, and for how long.

A schema is kept as its text. Parsed, it would take twenty times as much, and a server that starts with many definitions
is soon asked for few of them. A schema of half a megabyte may become thirty megabytes of checks, and whoever may define
kinds may define many. So what is made of large ones is counted. Where it is too much, it goes for those that were used
longest ago, and their text is packed; everything is made again for the next who uses the kind. What was used just now
stays, since one request asks for it many times; small ones always stay.
"""

from __future__ import annotations

import time
import zlib
from typing import Final, cast
from weakref import WeakSet

import orjson

from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, validate
from steelyard.kube.schema.model import Schema

_LARGE: Final = 32 * 1024
"""Bytes of JSON."""
_MADE: Final = 2200
"""Bytes that each object of the text takes in what is made of it, about."""
_UNPACKED: Final = b"{"
_KEPT_BYTES: Final = 32 * 1024 * 1024
_JUST_NOW: Final = 5.0
"""Seconds."""


class Described:
    """The schema of one version, as text and as what is made of it."""

    __slots__ = ("__weakref__", "_is_prepared", "_schema", "_text", "_used", "_weight")

    def __init__(self, document: Object) -> None:
        text = orjson.dumps(document)
        # A copy that takes the memory it needs.
        self._text = bytes(memoryview(text))
        """Its first byte tells whether it is packed: it is exchanged while other threads read it."""
        self._schema: Schema | None = None
        self._is_prepared = False
        self._weight = text.count(b"{") if len(text) > _LARGE else 0
        """Objects in the text of a large one."""
        self._used = time.monotonic()
        if self._weight:
            _COUNTED.add(self)

    @property
    def document(self) -> Object:
        """As the definition has it; the caller's own."""
        text = self._text
        return cast(Object, orjson.loads(text if text.startswith(_UNPACKED) else zlib.decompress(text)))

    @property
    def schema(self) -> Schema:
        """Made when first needed."""
        # Without a lock, which would make the event loop wait for the thread that prepares another one.
        schema = self._schema
        if schema is None:
            schema = self._schema = parse.from_openapi(self.document)
        if self._weight:
            self._used = time.monotonic()
        return schema

    @property
    def is_prepared(self) -> bool:
        """Whether an object of the kind can be checked at once."""
        return self._is_prepared

    @property
    def is_whole(self) -> bool:
        """Whether there is more of it than the packed text."""
        return self._schema is not None or self._text.startswith(_UNPACKED)

    def prepare(self) -> None:
        """Does what the first object of the kind would otherwise wait for."""
        validate.prepare(self.schema)
        self._is_prepared = True

    @property
    def used(self) -> float:
        """When, on the clock of the process."""
        return self._used

    @property
    def held(self) -> int:
        """Bytes, about."""
        return len(self._text) + (self._weight * _MADE if self._schema is not None else 0)

    def let_go(self) -> None:
        self._is_prepared = False
        self._schema = None
        if self._text.startswith(_UNPACKED):
            self._text = zlib.compress(self._text, 1)


_COUNTED: Final[WeakSet[Described]] = WeakSet()
"""The large ones."""


def held() -> int:
    """Bytes that large schemas take, about."""
    return sum(each.held for each in _COUNTED)


def tidy() -> None:
    """Called from time to time. Of one is let go at a time, which takes some ten milliseconds."""
    if held() <= _KEPT_BYTES:
        return
    whole = [each for each in _COUNTED if each.is_whole]
    oldest = min(whole, key=lambda each: each.used, default=None)
    if oldest is not None and oldest.used < time.monotonic() - _JUST_NOW:
        oldest.let_go()
