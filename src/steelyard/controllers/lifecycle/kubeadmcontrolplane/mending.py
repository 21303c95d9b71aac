"""Replaces a control-plane machine that a MachineHealthCheck found unhealthy, as `remediation.py` says.

It is written down on the control plane before the machine is deleted, so that after a crash in between the same try
goes on, and the machine that takes the place remembers how many tries there were. What keeps it from being done is told
on the machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.controllers.lifecycle.kubeadmcontrolplane import blueprint, remediation
from steelyard.controllers.lifecycle.kubeadmcontrolplane.remediation import Limits
from steelyard.controllers.lifecycle.members.service import Members
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import logs, verdicts
from steelyard.kube.runtime.clock import Clock

_RETRY = 15.0
_QUORUM = "KubeadmControlPlane can't remediate this Machine because this could result in etcd loosing quorum"
"""Upstream's words, spelling included."""

_log = logs.get(__name__)


@frozen
class Outcome:
    has_begun: bool = False
    """Whether a machine was deleted just now: everything else waits for that."""
    retry_after: float | None = None


class Mending:
    def __init__(self, client: Client, members: Members, clock: Clock) -> None:
        self._client = client
        self._members = members
        self._clock = clock

    async def advance(self, control_plane: Object, cluster: Object, machines: Sequence[Object]) -> Outcome:
        for machine in machines:
            if remediation.has_recovered(machine):
                await marks.put(self._client, machine, [], self._clock.now(), without=[marks.OWNER_REMEDIATED])
            elif marks.is_to_be_remediated(machine) and objects.is_being_deleted(machine):
                await self._tell(machine, "MachineDeleting", "Machine is deleting")
        current = remediation.in_progress(control_plane)
        if current is not None and remediation.is_over(current, machines):
            await self.finish(control_plane)
            current = None
        is_initialized = bool(objects.at(control_plane, "status", "initialization", "controlPlaneInitialized"))
        decision = remediation.decide(
            machines, Limits.of(control_plane), current, is_initialized=is_initialized, now=self._clock.now()
        )
        machine = next((each for each in machines if objects.name(each) == decision.machine), None)
        if machine is None:
            return Outcome()
        if decision.record is None:
            await self._tell(machine, decision.reason, decision.message)
            return Outcome(retry_after=decision.retry_after)
        if is_initialized and blueprint.manages_etcd(control_plane):
            objection = await self._members.objection(cluster, machine, machines)
            if objection:
                await self._tell(machine, remediation.CANNOT, f"{_QUORUM}: {objection}")
                return Outcome(retry_after=_RETRY)
        await self._note(control_plane, decision.record.to_json())
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(
                capi.MACHINES, decision.machine, objects.namespace(machine), uid=objects.uid(machine)
            )
        _log.info("unhealthy machine is to go", machine=decision.machine, retries=decision.record.retries)
        return Outcome(has_begun=True)

    async def finish(self, control_plane: Object) -> None:
        """The machine that takes the place remembers it from now on."""
        await self._note(control_plane, None)

    async def _note(self, control_plane: Object, record: str | None) -> None:
        name = wellknown.REMEDIATION_IN_PROGRESS_ANNOTATION
        if objects.annotations(control_plane).get(name) == record:
            return
        patch = {"metadata": {"uid": objects.uid(control_plane), "annotations": {name: record}}}
        await self._client.patch(
            capi.KUBEADM_CONTROL_PLANES, objects.name(control_plane), patch, objects.namespace(control_plane)
        )
        # What is done next looks at it.
        annotations = control_plane["metadata"].setdefault("annotations", {})
        annotations.pop(name, None)
        if record is not None:
            annotations[name] = record

    async def _tell(self, machine: Object, reason: str, message: str) -> None:
        verdict = verdicts.false(marks.OWNER_REMEDIATED, reason, message)
        await marks.put(self._client, machine, [verdict], self._clock.now())
