"""Caches of what users' texts come to, bounded by bytes: whoever writes long texts must not fill the memory with them.

`briefly` is for a function of a text: short texts are remembered, so many of them, and long ones worked out each time.
`Kept` is for results whose size is known.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Generic, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def briefly(most: int, longest: int = 256) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Remembers the results of the last `most` calls none of whose texts is longer than `longest` characters."""

    def remembering(function: Callable[_P, _R]) -> Callable[_P, _R]:
        cached = cast("Callable[..., _R]", functools.lru_cache(maxsize=most, typed=True)(function))

        @functools.wraps(function)
        def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
            for given in arguments:
                if given.__class__ is str and len(cast(str, given)) > longest:
                    return function(*arguments, **named)
            return cached(*arguments, **named)

        return call

    return remembering


class Kept(Generic[_K, _V]):
    """A dictionary whose values take no more than `most` bytes; those that came first make room."""

    __slots__ = ("_found", "_lock", "_most", "bytes")

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[_K, tuple[_V, int]] = {}
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: _K) -> _V | None:
        known = self._found.get(key)
        return known[0] if known is not None else None

    def put(self, key: _K, value: _V, size: int) -> _V:
        """The value again. One that is larger than a quarter of what all may take is not kept."""
        if size * 4 <= self._most:
            with self._lock:
                if key not in self._found:
                    self._found[key] = (value, size)
                    self.bytes += size
                while self.bytes > self._most:
                    _, freed = self._found.pop(next(iter(self._found)))
                    self.bytes -= freed
        return value

    def clear(self) -> None:
        self._found.clear()
        self.bytes = 0


def by_bytes(
    most: int, size: Callable[[_R], int], key: Callable[..., Hashable]
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Remembers results of up to so many bytes. The key stands for the arguments, which are not kept with it."""

    def remembering(function: Callable[_P, _R]) -> Callable[_P, _R]:
        kept: Kept[Hashable, _R] = Kept(most)

        @functools.wraps(function)
        def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
            asked = key(*arguments, **named)
            found = kept.get(asked)
            if found is None:
                found = function(*arguments, **named)
                kept.put(asked, found, size(found))
            return found

        return call

    return remembering
