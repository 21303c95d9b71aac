"""How much the process holds of bodies that are not answered and of answers that are not read. A body of up to
`FREE_BYTES` is not worth counting.

When all together hold too much, the flow that holds most gives up what has been on its way the longest: a body is
answered with 429, a connection that does not read is cut. So whoever is slow stands in his own way only. No flow has
more than half of it: one who attacks alone is not to take what is meant for all.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

from steelyard.kube.server.fairness import memory
from steelyard.kube.server.fairness.shares import Flow

FREE_BYTES: Final = 64 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
_WORTHWHILE: Final = 1024 * 1024
"""Bytes that have gone until it is worth looking for memory that is free."""
_RELIEF_SECONDS: Final = 0.5
_CONNECTION_BYTES: Final = 16 * 1024
"""What the end of a TLS connection leaves free, about, in many pieces."""


class Holder(Protocol):
    """An exchange whose body is being received, or a connection whose client does not read."""

    @property
    def flow(self) -> Flow | None: ...
    @property
    def is_complete(self) -> bool: ...
    def give_up(self) -> None: ...


class _Relief:
    """Gives back the memory that is free after large things have gone; for one event loop at a time."""

    __slots__ = ("_gone", "_loop")

    def __init__(self) -> None:
        self._gone = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one in which that is due."""

    def after(self, size: int) -> None:
        """So many bytes have gone, and maybe many more that were made of them."""
        self._gone += size
        if self._gone < _WORTHWHILE:
            return
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()
            if self._loop is not loop:
                self._loop = loop
                loop.call_later(_RELIEF_SECONDS, self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        self._gone = 0
        loop.run_in_executor(None, memory.trim)


class Intake:
    """Of all servers of a process."""

    __slots__ = ("_each", "_holders", "_max_bytes", "_relief", "held")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._each = max_bytes // 2
        """How much a flow may hold."""
        self._holders: dict[Holder, int] = {}
        """How much each holds, in the order in which they began to."""
        self.held = 0
        self._relief = _Relief()

    def hold(self, holder: Holder, size: int) -> None:
        """So much more. Somebody may have to give up, be it this one."""
        self._holders[holder] = self._holders.get(holder, 0) + size
        self.held += size
        before = self.held + 1
        while self._each < self.held < before:
            before = self.held
            self._make_room(holder)

    def release(self, holder: Holder, size: int) -> None:
        left = self._holders.pop(holder, 0) - size
        if left > 0:
            self._holders[holder] = left
        self.held -= size
        self._relief.after(size)

    def left(self) -> None:
        """A connection has ended: many of them leave as much behind as a large body."""
        self._relief.after(_CONNECTION_BYTES)

    def _make_room(self, newest: Holder) -> None:
        by_flow: dict[Flow | None, int] = {}
        for holder, held in self._holders.items():
            by_flow[holder.flow] = by_flow.get(holder.flow, 0) + held
        flow = newest.flow
        is_bounded = flow is None or not flow.is_unbounded
        if self.held > self._max_bytes:
            self._give_up(max(by_flow, key=lambda flow: by_flow[flow]), newest)
        elif is_bounded and by_flow.get(flow, 0) > self._each:
            self._give_up(flow, newest)

    def _give_up(self, flow: Flow | None, newest: Holder) -> None:
        """What is complete is not taken away; where all of the flow is, the newest goes."""
        unfinished = (each for each in self._holders if each.flow is flow and not each.is_complete)
        next(unfinished, newest).give_up()
