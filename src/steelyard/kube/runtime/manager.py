"""Runs informers and controllers together: starts, waits for the caches, reconciles, stops cleanly.

Each controller waits for the caches that it watches and for no others: a kind that cannot be read holds up those who
need it, and nobody else.
"""

from __future__ import annotations

import asyncio
import time

from steelyard.kube.client.interface import Client
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs
from steelyard.kube.runtime import metrics as metrics_module
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.controller import Controller
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.pace import Pace

STOP_DEADLINE = 10.0
_RESTS = 20
_LATE_SECONDS = 0.02

_log = logs.get(__name__)


class Manager:
    """`manager.client` is what reconcilers are given: reads from the informers' caches, writes observed by them."""

    def __init__(
        self,
        client: Client,
        *,
        clock: clocks.Clock = clocks.SYSTEM,
        metrics: metrics_module.Metrics | None = None,
        stop_deadline: float = STOP_DEADLINE,
    ) -> None:
        self.clock = clock
        self.informers = Informers(client, clock=clock)
        self.client = CachedClient(client, self.informers)
        self.ready = asyncio.Event()
        """Set once all caches have the whole state, as far as their kinds are served, and reconciling has begun."""
        self._metrics = metrics or metrics_module.default()
        self._stop_deadline = stop_deadline
        self._stopping = asyncio.Event()
        self._controllers: list[Controller] = []
        self._group: asyncio.TaskGroup | None = None
        self._working: list[asyncio.Task[None]] = []
        self._pace = Pace(clock, self._waiting)
        self._needed: list[Informer] = []
        self.informers.on_recovery = self._hurry

    @property
    def controllers(self) -> list[Controller]:
        return list(self._controllers)

    def add(self, controller: Controller) -> None:
        """Before `run`, or while it runs."""
        recorder = Recorder(self.client, controller.name, clock=self.clock)
        controller.attach(
            self.informers, self.client, recorder, clock=self.clock, metrics=self._metrics, pace=self._pace
        )
        self._controllers.append(controller)
        if self._group is not None and not self._stopping.is_set():
            self._start(self._group, controller)

    def _waiting(self) -> int:
        return sum(len(each.queue) for each in self._controllers)

    async def run(self) -> None:
        """Returns after `stop`. Cancelling it ends everything at once, in the middle of reconciles."""
        self._needed = self.informers.all
        async with asyncio.TaskGroup() as group:
            informing = group.create_task(self.informers.run(), name="informers")
            stopping = group.create_task(self._stopping.wait(), name="stop")
            synced = group.create_task(self.informers.wait_synced(), name="sync")
            synced.add_done_callback(self._is_ready)
            self._group = group
            for each in self._controllers:
                self._start(group, each)
            await stopping
            await self._finish()
            synced.cancel()
            informing.cancel()

    def _start(self, group: asyncio.TaskGroup, controller: Controller) -> None:
        self._working.append(group.create_task(self._work(controller), name=controller.name))

    async def _work(self, controller: Controller) -> None:
        for informer in controller.informers:
            if not await self._is_there(informer.synced):
                return
        await controller.run()

    async def _is_there(self, event: asyncio.Event) -> bool:
        """Once the event is set; False if all is to stop before that."""
        if event.is_set():
            return True
        waiting = [asyncio.create_task(each.wait()) for each in (event, self._stopping)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        return event.is_set()

    def _is_ready(self, synced: asyncio.Task[None]) -> None:
        if not synced.cancelled() and synced.exception() is None:
            self.ready.set()
            _log.debug("reconciling", controllers=len(self._controllers))

    def _hurry(self) -> None:
        """A kind is there again: whoever waits for it, or failed for want of it, need not wait for a delay to end."""
        for controller in self._controllers:
            controller.queue.hurry()

    def problem(self) -> str | None:
        """What keeps the controllers from their work, if anything: kinds that are not served or cannot be read."""
        watched = (informer for controller in self._controllers for informer in controller.informers)
        needed = (
            each for each in dict.fromkeys((*self._needed, *watched)) if not (each.is_optional and each.is_missing)
        )
        troubles = "; ".join(informer.problem for informer in needed if informer.problem)
        if self.ready.is_set():
            return troubles or None
        return f"the controllers are starting{': ' if troubles else ''}{troubles}"

    def stop(self) -> None:
        """Nothing new is begun; reconciles under way may finish within the deadline, then they are cancelled."""
        self._stopping.set()

    async def idle(self, *, within: float = 0.0, settle: float = 0.02) -> None:
        """Returns when there is nothing to do: queues empty, nothing in flight, no delayed key due in `within` seconds.

        It must stay so for `settle` seconds of real time, in which events of other people's writes can arrive.
        """
        await self.ready.wait()
        while True:
            for controller in self._controllers:
                await controller.queue.wait_quiet()
            before = self._activity()
            due = [each.queue.next_due_in() for each in self._controllers]
            soonest = min((seconds for seconds in due if seconds is not None), default=None)
            if soonest is not None and soonest <= within:
                await self.clock.sleep(soonest + 0.001)
                continue
            await _rest(settle)
            if self._activity() == before and all(each.queue.is_quiet for each in self._controllers):
                return

    def _activity(self) -> tuple[int, int]:
        return (
            sum(each.queue.adds for each in self._controllers),
            sum(informer.revision for informer in self.informers.all),
        )

    async def _finish(self) -> None:
        for controller in self._controllers:
            controller.queue.shut_down()
        if not self._working:
            return
        _, late = await asyncio.wait(self._working, timeout=self._stop_deadline)
        if late:
            _log.warning("reconciles cancelled at shutdown", controllers=",".join(task.get_name() for task in late))
        for task in late:
            task.cancel()


async def _rest(seconds: float) -> None:
    """So long, in one piece: while others have the processor nothing happens here, and a sleep proves nothing."""
    for _ in range(_RESTS):
        started = time.monotonic()
        await asyncio.sleep(seconds)
        if time.monotonic() - started < 2 * seconds + _LATE_SECONDS:
            return
