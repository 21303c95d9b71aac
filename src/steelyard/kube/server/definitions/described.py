"""What is made of a definition's schema, and for how long.

A schema of half a megabyte may become thirty megabytes of checks, and whoever may define kinds may define many. So what
is made of large ones is counted. Where it is too much, it goes for those that were used longest ago, and of their text
a packed copy stays, of which everything is made again for the next who uses the kind. What was used just now stays,
since one request asks for it many times; small ones always stay.
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
_PARSED, _MADE = 400, 2200
"""Bytes that each object of the text takes, about: parsed, and in what is made of that."""
_KEPT_BYTES: Final = 32 * 1024 * 1024
_JUST_NOW: Final = 5.0
"""Seconds."""
_WEIGHED_AT_ONCE: Final = 4


class Described:
    """The schema of one version, as text and as what is made of it."""

    __slots__ = ("__weakref__", "_document", "_is_prepared", "_packed", "_schema", "_used", "_weight")

    def __init__(self, document: Object) -> None:
        self._document: Object | None = document
        self._packed = b""
        self._schema: Schema | None = None
        self._is_prepared = False
        self._weight = 0
        """Objects in the text of a large one."""
        self._used = time.monotonic()
        _NEW.add(self)

    @property
    def document(self) -> Object:
        """As the definition has it; read-only."""
        # Another thread may let go of it at any moment.
        document = self._document
        return document if document is not None else cast(Object, orjson.loads(zlib.decompress(self._packed)))

    @property
    def schema(self) -> Schema:
        """Made when first needed: a server that starts with many definitions is soon asked for few of them."""
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
        """Whether there is more of it than the packed copy."""
        return self._schema is not None or self._document is not None

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
        parsed = self._weight * _PARSED if self._document is not None else len(self._packed)
        return parsed + (self._weight * _MADE if self._schema is not None else 0)

    def weigh(self) -> bool:
        """Whether it is large."""
        text = orjson.dumps(self.document)
        self._weight = text.count(b"{") if len(text) > _LARGE else 0
        return self._weight > 0

    def let_go(self) -> None:
        self._packed = self._packed or zlib.compress(orjson.dumps(self.document), 1)
        self._is_prepared = False
        self._document = self._schema = None


_NEW: Final[WeakSet[Described]] = WeakSet()
"""Those of which it is not known whether they are large."""
_COUNTED: Final[WeakSet[Described]] = WeakSet()


def held() -> int:
    """Bytes that large schemas take, about."""
    return sum(each.held for each in _COUNTED)


def tidy() -> None:
    """Called from time to time. Of one is let go at a time, which takes some ten milliseconds."""
    for _ in range(min(len(_NEW), _WEIGHED_AT_ONCE)):
        new = _NEW.pop()
        if new.weigh():
            _COUNTED.add(new)
    if held() <= _KEPT_BYTES:
        return
    whole = [each for each in _COUNTED if each.is_whole]
    oldest = min(whole, key=lambda each: each.used, default=None)
    if oldest is not None and oldest.used < time.monotonic() - _JUST_NOW:
        oldest.let_go()
