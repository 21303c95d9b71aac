"""Turns at something scarce, taken by flow: whoever asks for little waits little, however much another asks for.

A flow is whose a request is: a user of a cluster. Each has a queue of its own with a bounded length; turns go round
the flows that wait, first by cluster if a flow is a pair.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Hashable
from typing import Final

from steelyard.kube import errors

RETRY_SECONDS: Final = 1


class Rotation:
    """So many turns at once. For one event loop at a time."""

    __slots__ = ("_at_once", "_per_flow", "_taken", "_waiting")

    def __init__(self, at_once: int, per_flow: int) -> None:
        self._at_once = at_once
        self._per_flow = per_flow
        self._taken = 0
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """In the order of their next turn; no queue is empty."""

    @contextlib.asynccontextmanager
    async def turn(self, flow: Hashable, *, patient: bool = False) -> AsyncGenerator[None]:
        """Waits for a turn and has it. Raises Overloaded if too many of the flow wait already, unless this one would
        rather wait: it has had turns before, and could not use them without this one."""
        if self._taken >= self._at_once:
            await self._wait(flow, patient=patient)
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
            self._next()

    async def _wait(self, flow: Hashable, *, patient: bool) -> None:
        queue = self._waiting.setdefault(flow, deque())
        if len(queue) >= self._per_flow and not patient:
            raise too_many()
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(ready)
        try:
            await ready
        except BaseException:
            if ready.done() and not ready.cancelled():
                # The turn came in the same moment; somebody else can have it.
                self._taken -= 1
                self._next()
            elif flow in self._waiting:
                self._forget(flow, ready)
            raise
        # It was taken on behalf of this one when the turn was given.
        self._taken -= 1

    def _next(self) -> None:
        while self._waiting and self._taken < self._at_once:
            flow, queue = next(iter(self._waiting.items()))
            ready = queue.popleft()
            del self._waiting[flow]
            if queue:
                self._waiting[flow] = queue
            if not ready.done():
                self._taken += 1
                ready.set_result(None)

    def _forget(self, flow: Hashable, ready: asyncio.Future[None]) -> None:
        queue = self._waiting[flow]
        with contextlib.suppress(ValueError):
            queue.remove(ready)
        if not queue:
            del self._waiting[flow]


def too_many() -> errors.Overloaded:
    return errors.Overloaded("Too many requests, please try again later.", retry_after=RETRY_SECONDS)
