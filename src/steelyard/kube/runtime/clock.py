"""Time as an argument: the wall clock, the monotonic clock and timers behind one interface.

Nothing in the runtime or in a controller reads the time otherwise, so a test drives hours of back-off and time-outs in
milliseconds with a `VirtualClock`.
"""

from __future__ import annotations

import asyncio
import datetime
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime.datetime:
        """The wall clock, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point, never going backwards."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer: ...


class SystemClock:
    def now(self) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


SYSTEM: Clock = SystemClock()

_EPOCH = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)
_TURNS_BETWEEN_TIMERS = 20


class _VirtualTimer:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """Stands still until told to advance; then runs what has become due, in order, each at its own time."""

    def __init__(self, start: datetime.datetime = _EPOCH) -> None:
        self._start = start
        self._elapsed = 0.0
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._sequence = itertools.count()

    def now(self) -> datetime.datetime:
        return self._start + datetime.timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(seconds, 0.0), next(self._sequence), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Tasks get several turns of the event loop after each timer, so that timers they set in answer count too."""
        end = self._elapsed + seconds
        await _turns()
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            if timer.callback is None:
                continue
            self._elapsed = max(self._elapsed, due)
            timer.callback()
            await _turns()
        self._elapsed = end
        await _turns()

    @property
    def pending(self) -> int:
        """How many timers are set: 0 is what an idle component must leave behind."""
        return sum(timer.callback is not None for _, _, timer in self._timers)


async def _turns() -> None:
    for _ in range(_TURNS_BETWEEN_TIMERS):
        await asyncio.sleep(0)


def rfc3339(moment: datetime.datetime) -> str:
    """How Kubernetes writes a metav1.Time: UTC, whole seconds, `2025-01-01T00:00:00Z`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime.datetime) -> str:
    """How Kubernetes writes a metav1.MicroTime: `2025-01-01T00:00:00.000000Z`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
