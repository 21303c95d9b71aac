"""The queue between events and reconcilers: each key at most once, in order of arrival, never twice at the same time.

A key added while it is being processed is processed again afterwards, so no event is lost and none is handled in
parallel with another of the same object. Delayed keys share one timer, set for the earliest of them; a queue without
delayed keys has no timer. Taking a key drops its delay: whoever processes it now sees the newest state and says
itself when to come back.
"""

from __future__ import annotations

import asyncio
import collections
import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.metrics import QueueMetrics

K = TypeVar("K", bound=Hashable)

BASE_DELAY = 0.05
MAX_DELAY = 60.0
_STALE_ENTRIES_KEPT = 64


class ShutDown(Exception):
    """The queue has been shut down and hands out nothing any more."""


class WorkQueue(Generic[K]):
    def __init__(
        self,
        *,
        clock: clocks.Clock = clocks.SYSTEM,
        base_delay: float = BASE_DELAY,
        max_delay: float = MAX_DELAY,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._clock = clock
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._metrics = metrics
        self._ready: collections.deque[K] = collections.deque()
        self._dirty: dict[K, float] = {}
        self._processing: set[K] = set()
        self._waiters: collections.deque[asyncio.Future[None]] = collections.deque()
        self._deadlines: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = itertools.count()
        self._timer: clocks.Timer | None = None
        self._timer_due = 0.0
        self._failures: dict[K, int] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_shut_down = False
        self.adds = 0
        self.retries = 0

    def __len__(self) -> int:
        """Keys that are ready and wait for a worker."""
        return len(self._ready)

    @property
    def in_flight(self) -> int:
        return len(self._processing)

    @property
    def delayed(self) -> int:
        return len(self._deadlines)

    @property
    def is_quiet(self) -> bool:
        """Nothing is ready and nothing is being processed; delayed keys may be left."""
        return self._quiet.is_set()

    async def wait_quiet(self) -> None:
        await self._quiet.wait()

    def next_due_in(self) -> float | None:
        """Seconds until the earliest delayed key becomes ready."""
        self._drop_stale()
        return max(self._heap[0][0] - self._clock.monotonic(), 0.0) if self._heap else None

    def add(self, key: K) -> None:
        if self._is_shut_down or key in self._dirty:
            return
        self._dirty[key] = self._clock.monotonic()
        self.adds += 1
        if self._metrics:
            self._metrics.adds.inc()
        self._quiet.clear()
        if key not in self._processing:
            self._make_ready(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Of several delays of one key the earliest counts."""
        if self._is_shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due >= self._deadlines.get(key, float("inf")):
            return
        self._deadlines[key] = due
        heapq.heappush(self._heap, (due, next(self._sequence), key))
        if len(self._heap) > 2 * len(self._deadlines) + _STALE_ENTRIES_KEPT:
            self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        self._set_timer()

    def retry(self, key: K, *, ceiling: float | None = None) -> float:
        """Adds the key after its back-off, which doubles with every failure since `forget`; returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.retries += 1
        if self._metrics:
            self._metrics.retries.inc()
        delay = min(self._base_delay * 2.0 ** min(failures, 64), self._max_delay if ceiling is None else ceiling)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts from the shortest back-off again."""
        self._failures.pop(key, None)

    def hurry(self) -> None:
        """What delayed keys wait for may have come: all are added at once, and back-offs start from the shortest."""
        self._failures.clear()
        for key in list(self._deadlines):
            self.add(key)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, which stays taken until `done`. Raises `ShutDown`."""
        while not self._ready or self._is_shut_down:
            if self._is_shut_down:
                raise ShutDown
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise
        key = self._ready.popleft()
        self._processing.add(key)
        added = self._dirty.pop(key)
        if self._deadlines.pop(key, None) is not None and not self._deadlines:
            self._cancel_timer()
        if self._metrics:
            self._metrics.depth.set(len(self._ready))
            self._metrics.latency.observe(self._clock.monotonic() - added)
        return key

    def done(self, key: K) -> None:
        self._processing.discard(key)
        if key in self._dirty and not self._is_shut_down:
            self._make_ready(key)
        elif not self._processing and not self._ready:
            self._quiet.set()

    def shut_down(self) -> None:
        """Waiting and later `get`s raise `ShutDown`; keys that are taken may still be finished."""
        self._is_shut_down = True
        self._cancel_timer()
        self._ready.clear()
        self._dirty.clear()
        self._deadlines.clear()
        self._heap.clear()
        self._failures.clear()
        if not self._processing:
            self._quiet.set()
        while self._waiters:
            self._wake_one()

    def _make_ready(self, key: K) -> None:
        self._ready.append(key)
        if self._metrics:
            self._metrics.depth.set(len(self._ready))
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _drop_stale(self) -> None:
        while self._heap and self._deadlines.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _set_timer(self) -> None:
        self._drop_stale()
        if not self._heap:
            return
        due = self._heap[0][0]
        if self._timer:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.call_later(due - self._clock.monotonic(), self._ring)

    def _cancel_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        self._drop_stale()
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._deadlines[key]
            self.add(key)
            self._drop_stale()
        self._set_timer()
