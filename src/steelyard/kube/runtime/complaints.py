"""A reconciler that keeps failing tells on the object itself, where its owner looks: an event and a condition.

The first failures may pass by themselves and are told in the log alone. After that there is an event, and the condition
says what the error is until a reconcile succeeds. Both are written once; an error that is another one at every attempt
is told as rarely as in the log, so that telling it is not what keeps a controller busy.
"""

from __future__ import annotations

import datetime

from steelyard.kube import errors
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions, logs, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.events import Recorder

CONDITION = "Reconciled"
REASON = "ReconcileError"
EVENT = "ReconcileFailed"
AFTER = 5
_LONGEST = 1000

_log = logs.get(__name__)


def cause_of(error: Exception) -> str:
    """`Forbidden: no such right`, `KeyError: 'spec'`."""
    if isinstance(error, errors.ApiError):
        return f"{error.reason}: {error.message}"
    return f"{type(error).__name__}: {error}"


class Complaints:
    """Of one controller, about objects of its kind. `condition` is the type to write; a kind of its own by default."""

    def __init__(
        self, client: Client, resource: Resource, clock: Clock, recorder: Recorder, condition: str = CONDITION
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._recorder = recorder
        self._condition = condition

    async def failed(self, obj: Object, error: Exception, count: int) -> None:
        """The object as it is after the failure, the n-th in a row."""
        if count < AFTER:
            return
        cause = cause_of(error)[:_LONGEST]
        current = conditions.find(obj, self._condition) or {}
        has_said_so_itself = self._condition != CONDITION and current.get("reason") == REASON
        is_old = current.get("message") == cause or not logs.is_worth_repeating(count)
        if has_said_so_itself or (current.get("status") == "False" and is_old):
            return
        self._recorder.warning(obj, EVENT, cause)
        await self._write(obj, conditions.set_(obj, self._condition, False, REASON, cause, now=self._now))

    async def succeeded(self, obj: Object) -> None:
        """Takes back what was said. A condition that the reconciler writes as well is its own to set right."""
        if self._condition == CONDITION and conditions.find(obj, CONDITION) is not None:
            await self._write(obj, conditions.remove(obj, CONDITION))

    @property
    def _now(self) -> datetime.datetime:
        return self._clock.now()

    async def _write(self, obj: Object, wanted: list[Object]) -> None:
        if not self._resource.group:
            return
        try:
            await patching.patch_status(
                self._client, self._resource, obj, {**(obj.get("status") or {}), "conditions": wanted}
            )
        except errors.ApiError as error:
            _log.debug("condition not written", error=cause_of(error))
