"""One turn of the event loop is not for one purpose alone: what concerns many at once is spread over several.

A change that a thousand watchers are told of, or a list that is sent in pieces, would each keep the loop from everybody
else until the last one has it. Whoever has such work asks for room first, in bytes; a turn has room for a megabyte, and
what does not fit waits in line for the next ones. Where nobody waits, it costs a subtraction.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

PER_TURN: Final = 1024 * 1024
"""Bytes: to encrypt and send them takes one or two milliseconds."""
TELLING: Final = 3 * 1024
"""What it takes to tell one watcher of anything, however small, in terms of bytes."""


class _Turns:
    __slots__ = ("_is_counting", "_left", "_loop", "_waiting")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left = PER_TURN
        self._waiting: deque[tuple[Callable[[], None], int]] = deque()
        self._is_counting = False

    def run(self, callback: Callable[[], None], size: int) -> None:
        """Now, or in one of the next turns, after those that wait already."""
        if self._has_room(size):
            callback()
        else:
            self._waiting.append((callback, size))

    async def take(self, size: int) -> None:
        """Returns when there is room."""
        if not self._has_room(size):
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((lambda: _resolve(room), size))
            await room

    def _has_room(self, size: int) -> bool:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What waited in a loop that has ended waits no more.
            self._loop = loop
            self._waiting.clear()
            self._is_counting = False
        if not self._is_counting:
            self._is_counting = True
            self._left = PER_TURN
            loop.call_soon(self._next)
        if self._left <= 0 or self._waiting:
            return False
        self._left -= size
        return True

    def _next(self) -> None:
        self._left = PER_TURN
        waiting = self._waiting
        while waiting and self._left > 0:
            callback, size = waiting.popleft()
            self._left -= size
            callback()
        self._is_counting = bool(waiting)
        if waiting:
            assert self._loop is not None
            self._loop.call_soon(self._next)


def _resolve(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


_TURNS: Final = _Turns()
run: Final = _TURNS.run
take: Final = _TURNS.take
