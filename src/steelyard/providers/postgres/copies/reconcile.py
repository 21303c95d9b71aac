"""DatabaseCopy, one reconcile: records that filling begins, has it done by a job of its own, takes in what became of
it.

`status.completedAt` is written once; from then on the database is its owner's and is left alone. What is refused stays
refused until the spec changes; what fails is tried again from the beginning.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Final

from steelyard.api.databases import COPIES, DatabaseCopySpec, DatabaseCopyStatus
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers, logs
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.postgres import ours, reports
from steelyard.providers.postgres.copies import plan
from steelyard.providers.postgres.copies.carrying import NotAllowed
from steelyard.providers.postgres.copies.filling import Filled, Filling, Progress
from steelyard.providers.postgres.jobs import Job, Jobs
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Invalid, Missing, Problem

AT_ONCE: Final = 2
_SOON: Final = 0.1
_LATEST: Final = 3.0
_LEAST_KEY: Final = 32
_SCANNING: Final = ("keys", "scan")
_WAITS: Final = "Others are being copied; this one is next in line."

_log = logs.get(__name__)


def reconciler(tools: Tools) -> DatabaseCopyReconciler:
    return DatabaseCopyReconciler(tools)


@frozen
class Trouble:
    """Attempts that failed, one after the other."""

    failures: int
    not_before: float
    """By the monotonic clock."""


class DatabaseCopyReconciler:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._client = tools.client
        self._clock = tools.clock
        self.jobs: Jobs[Filled] = Jobs(AT_ONCE)
        self._progress: dict[str, Progress] = {}
        self._begun: dict[str, float] = {}
        self._troubles: dict[str, Trouble] = {}
        tools.at_end(self.jobs.close)

    async def close(self) -> None:
        await self.jobs.close()

    async def reconcile(self, key: Key) -> Result:
        obj = await reports.fetch(self._client, COPIES, key)
        if obj is None or reports.is_paused(obj):
            return Result()
        try:
            if objects.is_being_deleted(obj):
                return await self._delete(obj)
            if ours.is_on_its_way(self._client, obj):
                return Result()
            return await self._bring_about(obj)
        except Problem as problem:
            await reports.failed(self._client, COPIES, key, self._clock, problem)
            return Result(requeue_after=problem.retry_after)

    async def _bring_about(self, obj: Object) -> Result:
        uid = objects.uid(obj)
        status = DatabaseCopyStatus.model_validate(obj.get("status") or {})
        ended = self.jobs.take(uid)
        if ended is not None:
            obj = await self._take_in(obj, ended)
            status = DatabaseCopyStatus.model_validate(obj["status"])
        step = plan.next_step(
            status,
            objects.generation(obj),
            is_running=self.jobs.find(uid) is not None,
            retry_in=self._retry_in(uid),
        )
        if step == "nothing":
            return Result()
        if step == "begin":
            await self._begin(obj)
        elif self.jobs.find(uid) is not None:
            await self._tell_progress(obj, uid)
        return Result(requeue_after=self._look_again(uid))

    async def _begin(self, obj: Object) -> None:
        uid = objects.uid(obj)
        spec = DatabaseCopySpec.model_validate(obj["spec"])
        filling = Filling(self._tools, spec, uid, await self._key(spec))
        obj = await finalizers.ensure(self._client, COPIES, obj, reports.FINALIZER)
        more: Object = {
            "phase": "Copying",
            "startedAt": clocks.rfc3339(self._clock.now()),
            "problems": None,
            "tables": None,
            "rows": None,
        }
        said = [reports.creating("The database is being filled."), reports.SYNCED]
        await reports.report(self._client, COPIES, obj, self._clock, said, more)
        self._progress[uid] = filling.progress
        self._begun[uid] = self._clock.monotonic()
        self.jobs.start(uid, filling.run)

    async def _tell_progress(self, obj: Object, uid: str) -> None:
        job, progress = self.jobs.find(uid), self._progress[uid]
        if job is None or not job.has_begun:
            await reports.report(self._client, COPIES, obj, self._clock, [reports.creating(_WAITS)], {})
            return
        more: Object = {"phase": "Scanning" if progress.stage in _SCANNING else "Copying"}
        if progress.rows:
            more["rows"] = progress.rows
        said = [reports.creating("The database is being filled.")]
        await reports.report(self._client, COPIES, obj, self._clock, said, more)

    async def _take_in(self, obj: Object, job: Job[Filled]) -> Object:
        uid = objects.uid(obj)
        self._progress.pop(uid, None)
        self._begun.pop(uid, None)
        try:
            filled = job.result()
        except NotAllowed as refusal:
            return await self._refused(obj, str(refusal), list(refusal.reasons))
        except Invalid as problem:
            return await self._refused(obj, str(problem), [str(problem)])
        except Problem as problem:
            return await self._failed(obj, problem)
        self._troubles.pop(uid, None)
        _log.info("database filled", tables=filled.counts.tables, rows=filled.counts.rows)
        more: Object = {
            "phase": "Done",
            "completedAt": clocks.rfc3339(self._clock.now()),
            "tables": filled.counts.tables,
            "rows": filled.counts.rows,
            "problems": None,
        }
        if filled.snapshot_at:
            more["snapshotAt"] = filled.snapshot_at
        said = [reports.AVAILABLE, reports.SYNCED]
        return await reports.report(self._client, COPIES, obj, self._clock, said, more)

    async def _refused(self, obj: Object, message: str, reasons: list[str]) -> Object:
        """Nothing of the source is in the target. It is for somebody to change what was asked for."""
        self._troubles.pop(objects.uid(obj), None)
        told = [each[:1000] for each in reasons[: plan.PROBLEMS_TOLD]]
        text = (
            f"{message}. Nothing was copied; status.problems lists every reason. Change the spec, and it is tried again"
        )
        said = [reports.unavailable(text, "Refused"), reports.SYNCED]
        more: Object = {"phase": "Refused", "problems": told, "rows": None, "tables": None}
        return await reports.report(self._client, COPIES, obj, self._clock, said, more)

    async def _failed(self, obj: Object, problem: Problem) -> Object:
        uid = objects.uid(obj)
        failures = self._troubles[uid].failures + 1 if uid in self._troubles else 1
        wait = max(plan.retry_after(failures), problem.retry_after)
        self._troubles[uid] = Trouble(failures, self._clock.monotonic() + wait)
        _log.warning("copy failed", problem=str(problem), failures=failures, retry_in=f"{wait:g}s")
        said = [
            reports.unavailable(f"It could not be filled, and is tried again from the beginning: {problem}", "Failed"),
            reports.not_synced(str(problem)),
        ]
        more: Object = {"phase": "Failed", "rows": None, "tables": None}
        return await reports.report(self._client, COPIES, obj, self._clock, said, more)

    def _retry_in(self, uid: str) -> float:
        trouble = self._troubles.get(uid)
        return max(trouble.not_before - self._clock.monotonic(), 0.0) if trouble else 0.0

    def _look_again(self, uid: str) -> float:
        if self.jobs.find(uid) is not None:
            return min(max((self._clock.monotonic() - self._begun[uid]) / 10, _SOON), _LATEST)
        return max(self._retry_in(uid), _SOON)

    async def _key(self, spec: DatabaseCopySpec) -> str:
        reference = spec.key_secret_ref
        if reference is None:
            return secrets.token_hex(32)
        place = f"Secret {reference.namespace}/{reference.name}"
        try:
            secret = await self._client.get(SECRETS, reference.name, reference.namespace)
        except errors.NotFound:
            raise Missing(f"there is no {place}, which has the key to mask by") from None
        try:
            key = base64.b64decode(str(objects.at(secret, "data", reference.key) or ""), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise Missing(f"{place}: data.{reference.key} is no text") from None
        if len(key) < _LEAST_KEY:
            raise Missing(f"{place}: data.{reference.key} must have at least {_LEAST_KEY} characters")
        return key

    async def _delete(self, obj: Object) -> Result:
        uid = objects.uid(obj)
        await self.jobs.cancel(uid)
        for known in (self._progress, self._begun, self._troubles):
            known.pop(uid, None)
        if not finalizers.has(obj, reports.FINALIZER):
            return Result()
        await Filling(self._tools, DatabaseCopySpec.model_validate(obj["spec"]), uid, "").abandon()
        await finalizers.remove(self._client, COPIES, obj, reports.FINALIZER)
        return Result()
