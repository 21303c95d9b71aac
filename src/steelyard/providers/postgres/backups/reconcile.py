"""DatabaseBackup, one reconcile: takes in what a dump that was under way has become, starts the next that is due, lets
go of those that are too many, and reports.

Making a dump is a job of its own (`jobs.py`), of which two run at once on this platform: reconciles stay short, and
deleting the object ends its pg_dump at once.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Final

from steelyard.api.databases import BACKUPS, DatabaseBackupSpec, DatabaseBackupStatus
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers, logs
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.verdicts import Verdict
from steelyard.providers.postgres import reports
from steelyard.providers.postgres.backups import plan
from steelyard.providers.postgres.backups.plan import Decision
from steelyard.providers.postgres.dumps import making
from steelyard.providers.postgres.dumps.folder import DumpFolder, Side
from steelyard.providers.postgres.jobs import Jobs
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Full, Problem

KEEP: Final = "steelyard.dev/keep-dumps"
"""Annotation: with "true", the dumps stay when the object is deleted."""
AT_ONCE: Final = 2
_SOON: Final = 0.1
_LATEST: Final = 5.0

_log = logs.get(__name__)


def reconciler(tools: Tools) -> DatabaseBackupReconciler:
    return DatabaseBackupReconciler(tools)


@frozen
class Trouble:
    """Dumps that failed, one after the other."""

    problem: Problem
    failures: int
    not_before: float
    """By the monotonic clock."""


class DatabaseBackupReconciler:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._client = tools.client
        self._clock = tools.clock
        self.jobs: Jobs[Side] = Jobs(AT_ONCE)
        self._begun: dict[str, float] = {}
        self._troubles: dict[str, Trouble] = {}
        tools.at_end(self.jobs.close)

    async def close(self) -> None:
        await self.jobs.close()

    async def reconcile(self, key: Key) -> Result:
        obj = await reports.fetch(self._client, BACKUPS, key)
        if obj is None or reports.is_paused(obj):
            return Result()
        try:
            if objects.is_being_deleted(obj):
                return await self._delete(obj)
            obj = await finalizers.ensure(self._client, BACKUPS, obj, reports.FINALIZER)
            return await self._bring_about(obj)
        except OSError as error:
            problem = Full(f"the folder of the dumps cannot be used: {error.strerror or error}")
            await reports.failed(self._client, BACKUPS, key, self._clock, problem, _failed(problem))
            return Result(requeue_after=problem.retry_after)

    async def _bring_about(self, obj: Object) -> Result:
        uid = objects.uid(obj)
        spec = DatabaseBackupSpec.model_validate(obj["spec"])
        folder = DumpFolder(self._tools.folder, objects.name(obj))
        self._take_in(uid)
        status = DatabaseBackupStatus.model_validate(obj.get("status") or {})
        dumps = await asyncio.to_thread(folder.listed)
        decision = plan.decide(spec, status, dumps, uid, self._clock.now())
        for name in decision.surplus:
            await asyncio.to_thread(folder.remove, name)
        dumps = [each for each in dumps if each.name not in decision.surplus]
        obj = await self._report(obj, decision, dumps)
        self._start(uid, spec, folder, decision)
        return Result(requeue_after=self._look_again(uid, decision))

    def _take_in(self, uid: str) -> None:
        job = self.jobs.take(uid)
        if job is None:
            return
        self._begun.pop(uid, None)
        try:
            side = job.result()
        except Problem as problem:
            failures = self._troubles[uid].failures + 1 if uid in self._troubles else 1
            wait = plan.retry_after(failures)
            self._troubles[uid] = Trouble(problem, failures, self._clock.monotonic() + wait)
            _log.warning("dump failed", problem=str(problem), failures=failures, retry_in=f"{wait:g}s")
        else:
            self._troubles.pop(uid, None)
            _log.info("dump made", dump=side.name, bytes=side.size_bytes)

    def _start(self, uid: str, spec: DatabaseBackupSpec, folder: DumpFolder, decision: Decision) -> None:
        trouble = self._troubles.get(uid)
        is_too_early = trouble is not None and self._clock.monotonic() < trouble.not_before
        if decision.make is None or is_too_early or self.jobs.find(uid) is not None:
            return
        self._begun[uid] = self._clock.monotonic()
        self.jobs.start(
            uid,
            functools.partial(
                self._make, spec, folder, decision, spec.trigger if decision.make == "asked for" else None
            ),
        )

    async def _make(
        self, spec: DatabaseBackupSpec, folder: DumpFolder, decision: Decision, trigger: str | None
    ) -> Side:
        assert decision.make is not None
        return await making.make(
            self._tools.servers,
            spec.provider_config_ref.name,
            spec.database,
            folder,
            at=self._clock.now(),
            reason=decision.make,
            trigger=trigger,
        )

    def _look_again(self, uid: str, decision: Decision) -> float | None:
        if self.jobs.find(uid) is not None:
            return min(max((self._clock.monotonic() - self._begun[uid]) / 10, _SOON), _LATEST)
        waits: list[float] = []
        if uid in self._troubles:
            waits.append(self._troubles[uid].not_before - self._clock.monotonic())
        elif decision.due_at is not None:
            waits.append((decision.due_at - self._clock.now()).total_seconds())
        return max(min(waits), 0.0) if waits else None

    async def _report(self, obj: Object, decision: Decision, dumps: list[Side]) -> Object:
        trouble = self._troubles.get(objects.uid(obj))
        said = [reports.AVAILABLE, reports.SYNCED]
        if trouble is not None:
            said = [_failed(trouble.problem), reports.not_synced(str(trouble.problem))]
        more: Object = {
            "dumps": [each.to_status().to_json() for each in dumps] or None,
            "trigger": decision.trigger,
            "dueAt": clocks.rfc3339(decision.due_at) if decision.due_at else None,
        }
        return await reports.report(self._client, BACKUPS, obj, self._clock, said, more)

    async def _delete(self, obj: Object) -> Result:
        if not finalizers.has(obj, reports.FINALIZER):
            return Result()
        uid = objects.uid(obj)
        await self.jobs.cancel(uid)
        self._begun.pop(uid, None)
        self._troubles.pop(uid, None)
        spec = DatabaseBackupSpec.model_validate(obj["spec"])
        folder = DumpFolder(self._tools.folder, objects.name(obj))
        if objects.annotations(obj).get(KEEP) == "true":
            kept = await asyncio.to_thread(folder.keep, uid, spec.database, spec.provider_config_ref.name)
            _log.info("dumps are kept", folder=str(kept) if kept else "none")
        else:
            await asyncio.to_thread(folder.remove_all)
        await finalizers.remove(self._client, BACKUPS, obj, reports.FINALIZER)
        return Result()


def _failed(problem: Problem) -> Verdict:
    return reports.unavailable(f"The last dump failed, and is tried again: {problem}", "DumpFailed")
