"""One turn of the event loop is not for one purpose alone: what concerns many at once is spread over several.

A change that a thousand watchers are told of, or a list that is sent in pieces, would each keep the loop from everybody
else until the last one has it. Whoever has such work asks for room first, in bytes; a turn has room for a megabyte, and
what does not fit waits for the next ones: in lines by whose it is, which take turns in their turn. Where nobody waits,
it costs a subtraction. Work that is not measured in bytes looks at the clock, and has a line of its own (`Pause`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")

PER_TURN: Final = 1024 * 1024
"""Bytes: to encrypt and send them takes one or two milliseconds."""
_SECONDS: Final = 0.005
_FEW: Final = 50
TELLING: Final = 3 * 1024
"""What it takes to tell one watcher of anything, however small, in terms of bytes."""


class _Turns:
    __slots__ = ("_is_renewed", "_left", "_loop", "_per_turn", "_waiting")

    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._left = per_turn
        self._waiting: dict[Hashable, deque[tuple[Callable[[], None], int]]] = {}
        """By whose it is, in the order of their next turn; no line is empty."""
        self._is_renewed = False
        """In the next turn there will be all the room again. Seen to when half of it has been taken, in however many
        turns: to be called in each of them would take longer than what little is told in most."""

    def run(self, callback: Callable[[], None], size: int, flow: Hashable = None) -> None:
        """Now, or in one of the next turns, after those that wait already."""
        self.run_each((callback,), size, flow)

    def run_each(self, callbacks: Iterable[Callable[[], None]], size: int, flow: Hashable = None) -> None:
        """The same for several, each of this size."""
        self._enter_loop()
        for callback in callbacks:
            if self._left > 0 and not self._waiting:
                self._left -= size
                callback()
            else:
                self._line_up(flow, callback, size)
        self._renew_if_due()

    async def take(self, size: int, flow: Hashable = None) -> None:
        """Returns when there is room."""
        self._enter_loop()
        if not self._has_room(size):
            await self._in_line(size, flow)

    async def next(self, size: int) -> None:
        """Returns when there is room in another turn than this one."""
        self._enter_loop()
        self._has_room(size)
        await self._in_line(size, None)

    async def _in_line(self, size: int, flow: Hashable) -> None:
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line_up(flow, lambda: _resolve(room), size)
        await room

    def _line_up(self, flow: Hashable, callback: Callable[[], None], size: int) -> None:
        self._waiting.setdefault(flow, deque()).append((callback, size))
        self._renew()

    def _has_room(self, size: int) -> bool:
        if self._left <= 0 or self._waiting:
            return False
        self._left -= size
        self._renew_if_due()
        return True

    def _enter_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What waited in a loop that has ended waits no more.
            self._loop = loop
            self._waiting.clear()
            self._left = self._per_turn
            self._is_renewed = False

    def _renew_if_due(self) -> None:
        if self._left <= self._per_turn // 2:
            self._renew()

    def _renew(self) -> None:
        if not self._is_renewed:
            self._is_renewed = True
            assert self._loop is not None
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._left = self._per_turn
        waiting = self._waiting
        while waiting and self._left > 0:
            flow, line = next(iter(waiting.items()))
            callback, size = line.popleft()
            del waiting[flow]
            if line:
                waiting[flow] = line
            self._left -= size
            callback()
        self._is_renewed = False
        if waiting:
            self._renew()


def _resolve(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


_TURNS: Final = _Turns(PER_TURN)
_PAUSES: Final = _Turns(1)
run: Final = _TURNS.run
run_each: Final = _TURNS.run_each
take: Final = _TURNS.take


class Pause:
    """For work that nobody can send away: lets others have the loop whenever it has had it for a few milliseconds.

    However many do such work, one of them goes on in each turn.
    """

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def if_due(self) -> bool:
        """Whether there was a pause."""
        if time.perf_counter() - self._since < _SECONDS:
            return False
        await _PAUSES.next(1)
        self._since = time.perf_counter()
        return True


async def paced(make: Callable[[_T], _R], values: Sequence[_T]) -> list[_R]:
    """What is made of each, with pauses where they are many."""
    if len(values) <= _FEW:
        return [make(value) for value in values]
    made: list[_R] = []
    pause = Pause()
    for first in range(0, len(values), _FEW):
        made += [make(value) for value in values[first : first + _FEW]]
        await pause.if_due()
    return made
