"""Runs one reconciler: events of its resource and of what it watches become keys, workers reconcile them.

One object is never reconciled twice at the same time. A conflict means that somebody else wrote first: the key comes
back quickly and without noise. Any other failure is counted, logged (ever more rarely), comes back after its back-off,
and is told on the object when it goes on. What has
no event, as a thing outside that changed, is found by looking at every object again after some hours, each at a time of
its own.

What a reconcile writes comes back to it as a change. Looked at at once that would mostly be for nothing, and where a
status sums up many objects it would be summed up anew with every step of each. So what it wrote itself is looked at
again only after a while (`SECOND_LOOK`), which any other change cuts short: nothing is missed, and bursts become one.
What alters only a report waits a moment as well (`Watch.after`), and longer while there is much to do.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import complaints, logs, ownwrites, triggers
from steelyard.kube.runtime.complaints import Complaints
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.mapping import Mapper
from steelyard.kube.runtime.metrics import Metrics
from steelyard.kube.runtime.pace import Pace
from steelyard.kube.runtime.workqueue import ShutDown, WorkQueue

DEADLINE = 300.0
RESYNC = 6 * 3600.0
SECOND_LOOK = 0.2
"""Seconds after which an object is looked at again on which nothing has changed but what its reconcile has written."""
SECOND_LOOK_WHILE_BUSY = 1.0
"""The same, while others wait for their first."""
_CONFLICT_DELAY = 0.4
_SOONEST = 0.05
"""Seconds after which a reconciler that asks to be called again is, even if it asks for an earlier moment: one whose
moment has passed and who does nothing about it would otherwise be called without end."""

_log = logs.get(__name__)
_process = secrets.token_hex(3)
_sequence = itertools.count(1)


@frozen
class Result:
    """Done for now; with `requeue_after`, look again after that many seconds even if nothing changes."""

    requeue_after: float | None = None


class Reconciler(Protocol):
    async def reconcile(self, key: Key) -> Result: ...


@frozen
class Watch:
    """A change of such an object reconciles the objects that `mapper` names."""

    resource: Resource
    mapper: Mapper
    matters: Callable[[Object | None, Object | None], bool] | None = None
    """Given the old and the new object, whether the change is worth a reconcile; by default each is."""
    optional: bool = False
    """Whether the kind may be missing: that is then no problem of the controller's."""
    label: str = ""
    """Only objects with this label are watched, and kept in memory; empty for all."""
    after: float = 0.0
    """Seconds in which further changes are collected before the reconcile, more where much is waiting: for those that
    only sum up many objects. What has gone does not wait."""
    when_needed: bool = False
    """Whether nothing is watched, and kept in memory, before the controller has an object of its own: for kinds of
    which people have many that concern nobody here."""


class Controller:
    def __init__(
        self,
        name: str,
        resource: Resource,
        reconciler: Reconciler,
        watches: Sequence[Watch] = (),
        *,
        workers: int = 1,
        deadline: float = DEADLINE,
        resync: float = RESYNC,
        failure_condition: str = complaints.CONDITION,
    ) -> None:
        """`deadline` bounds one reconcile, in seconds: one that hangs is cancelled and counts as failed.

        `resync` is after how many seconds, give or take half, an object is looked at again though nothing happened.
        `failure_condition` is the type of the condition that tells of a reconcile that keeps failing.
        """
        self.name = name
        self.resource = resource
        self.reconciler = reconciler
        self.watches = tuple(watches)
        self.workers = workers
        self.deadline = deadline
        self.resync = resync
        self.failure_condition = failure_condition
        self.queue: WorkQueue[Key] = WorkQueue()
        self._meanwhile: dict[Key, list[tuple[str, float]]] = {}
        """Of each key that is being reconciled, the versions that have come meanwhile, with how long each may wait."""

    def attach(
        self,
        informers: Informers,
        client: Client,
        recorder: Recorder,
        *,
        clock: clocks.Clock,
        metrics: Metrics,
        pace: Pace | None = None,
    ) -> None:
        """Subscribes to everything that is watched; called once, before the informers run. `pace` is that of all
        controllers together."""
        self._pace = pace or Pace(clock, lambda: len(self.queue))
        self.queue = WorkQueue(clock=clock, metrics=metrics.for_queue(self.name))
        self._clock = clock
        self._metrics = metrics.for_controller(self.name, self.resource.kind)
        self._complaints = Complaints(client, self.resource, clock, recorder, self.failure_condition)
        self._own = informers.of(self.resource)
        self._own.on_change(self._enqueue_self)
        self.informers = [self._own]
        for watch in self.watches:
            if watch.when_needed:
                self._own.on_change(self._begin_when_needed(watch, informers))
            else:
                self._begin(watch, informers)

    def _begin(self, watch: Watch, informers: Informers) -> None:
        informer = informers.of(watch.resource, label=watch.label, optional=watch.optional)
        informer.on_change(self._enqueue_mapped(watch))
        self.informers.append(informer)

    def _begin_when_needed(self, watch: Watch, informers: Informers) -> Callable[[Object | None, Object | None], None]:
        """What the first object reads before the watch has begun it gets from the server."""
        has_begun = False

        def handler(_: Object | None, __: Object | None) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                self._begin(watch, informers)

        return handler

    def enqueue(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.queue.add(key)

    async def run(self) -> None:
        """Works until the queue is shut down and what was taken is finished."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{self.name}-{number}")

    def _enqueue_self(self, old: Object | None, new: Object | None) -> None:
        if new is None or old is None or objects.is_being_deleted(old) != objects.is_being_deleted(new):
            self.queue.add(Key.of(new or old or {}))
        else:
            self._changed(Key.of(new), new, triggers.REPORT_AFTER if triggers.is_report(old, new) else 0.0)

    def _enqueue_mapped(self, watch: Watch) -> Callable[[Object | None, Object | None], None]:
        mapper, matters, after = watch.mapper, watch.matters, watch.after

        def handler(old: Object | None, new: Object | None) -> None:
            if matters is not None and not matters(old, new):
                return
            for obj in (new, old):
                if obj is not None:
                    for key in mapper(obj):
                        self.tell(key, new, after)

        return handler

    def tell(self, key: Key, changed: Object | None, after: float = 0.0) -> None:
        """That `changed` has changed, which concerns the object of the key; None for what has gone."""
        if changed is None:
            self.queue.add(key)
        else:
            self._changed(key, changed, after)

    def _changed(self, key: Key, changed: Object, after: float) -> None:
        wait = self._pace.collected(after) if after else 0.0
        meanwhile = self._meanwhile.get(key)
        if meanwhile is None:
            self.queue.add_after(key, wait)
        else:
            meanwhile.append((objects.resource_version(changed), wait))

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except ShutDown:
                return
            self._meanwhile[key] = []
            try:
                with ownwrites.noted() as written:
                    await self._reconcile(key)
                    for version, wait in self._meanwhile.pop(key):
                        self.queue.add_after(key, self._second_look() if version in written else wait)
            finally:
                self._meanwhile.pop(key, None)
                self.queue.done(key)
                self._pace.step()

    def _second_look(self) -> float:
        return SECOND_LOOK_WHILE_BUSY if self._pace.is_busy() else SECOND_LOOK

    async def _reconcile(self, key: Key) -> None:
        started = self._clock.monotonic()
        reconcile_id = f"{_process}-{next(_sequence)}"
        with logs.bind(
            controller=self.name,
            kind=self.resource.kind,
            namespace=key.namespace,
            name=key.name,
            reconcile=reconcile_id,
        ):
            deadline = asyncio.timeout(self.deadline)
            try:
                async with deadline:
                    result = await self.reconciler.reconcile(key)
            except errors.Conflict:
                self._metrics.conflicts.inc()
                self.queue.retry(key, ceiling=_CONFLICT_DELAY)
            except Exception as error:
                # A reconciler that fails, in whatever way, is tried again; the other keys go on.
                await self._failed(key, error, has_run_out=deadline.expired())
            else:
                await self._succeeded(key, result)
        self._metrics.duration.observe(self._clock.monotonic() - started)

    async def _failed(self, key: Key, error: Exception, *, has_run_out: bool) -> None:
        self._metrics.failures.inc()
        self._metrics.errors.inc()
        delay = self.queue.retry(key)
        count = self.queue.failures(key)
        if has_run_out:
            error = TimeoutError(f"not finished after {self.deadline:g} seconds")
        if logs.is_worth_repeating(count):
            message = "reconcile exceeded its deadline" if has_run_out else "reconcile failed"
            tell = _log.error if isinstance(error, errors.ApiError) else _log.exception
            tell(message, error=complaints.cause_of(error), failures=count, retry_in=f"{delay:g}s")
        obj = self._own.get(*key)
        if obj is not None:
            await self._complaints.failed(obj, error, count)

    async def _succeeded(self, key: Key, result: Result) -> None:
        self._metrics.successes.inc()
        self._metrics.last_reconciled.set(self._clock.now().timestamp())
        self.queue.forget(key)
        self._schedule(key, result)
        obj = self._own.get(*key)
        if obj is not None:
            await self._complaints.succeeded(obj)

    def _schedule(self, key: Key, result: Result) -> None:
        if result.requeue_after is not None:
            self.queue.add_after(key, max(result.requeue_after, _SOONEST))
        if self._own.get(*key) is not None:
            self.queue.add_after(key, self.resync * random.uniform(0.5, 1.5))  # noqa: S311 (jitter, not a secret)
