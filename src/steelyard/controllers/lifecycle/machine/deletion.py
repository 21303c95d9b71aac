"""Takes a machine away in order: drain, wait for hooks, delete infrastructure, bootstrap config and Node.

Each step waits for the one before to be complete, and each call goes as far as it can, so that a machine without
Node is gone after its infrastructure. When the whole cluster goes, its Nodes go with it and are left alone. Nothing is
waited for that can no longer come: a Cluster, a control plane or a kind that does not exist any more.
"""

from __future__ import annotations

import contextlib

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.contract import Externals, Reference, UnknownKind
from steelyard.controllers.lifecycle.machine.drain import drain
from steelyard.controllers.lifecycle.machine.status import Observed
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine
from steelyard.controllers.lifecycle.workload import Connection, Workloads
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key

_DRAIN_RETRY = 20.0
_CONNECTION_RETRY = 5.0


@frozen
class Outcome:
    is_finished: bool = False
    retry_after: float | None = None


class Deletion:
    def __init__(self, client: Client, view: View, externals: Externals, workloads: Workloads, clock: Clock) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._workloads = workloads
        self._clock = clock

    async def advance(self, draft: Draft, observed: Observed, connection: Connection | None) -> Outcome:
        machine = draft.object
        cluster = observed.cluster
        touches_node = cluster is not None and self._may_touch_node(machine, cluster)
        if touches_node:
            hooks = _hooks(machine, wellknown.PRE_DRAIN_HOOK_PREFIX)
            if hooks:
                return _wait(
                    observed,
                    "WaitingForPreDrainHook",
                    f"Waiting for pre-drain hooks to succeed (hooks: {','.join(hooks)})",
                )
            outcome = await self._drain(draft, observed, connection)
            if outcome is not None:
                return outcome
        hooks = [
            hook
            for hook in _hooks(machine, wellknown.PRE_TERMINATE_HOOK_PREFIX)
            if self._can_be_taken_off(hook, machine)
        ]
        if hooks:
            return _wait(
                observed,
                "WaitingForPreTerminateHook",
                f"Waiting for pre-terminate hooks to succeed (hooks: {','.join(hooks)})",
            )
        for path, reason in (
            (("spec", "infrastructureRef"), "WaitingForInfrastructureDeletion"),
            (("spec", "bootstrap", "configRef"), "WaitingForBootstrapDeletion"),
        ):
            reference = Reference.of(objects.at(machine, *path))
            if reference is not None and not await self._is_gone(machine, reference):
                return _wait(observed, reason, f"Waiting for {reference.kind} to be deleted")
        if cluster is not None and touches_node:
            outcome = await self._delete_node(machine, cluster, observed, connection)
            if outcome is not None:
                return outcome
        return Outcome(is_finished=True)

    def _may_touch_node(self, machine: Object, cluster: Object) -> bool:
        if objects.is_being_deleted(cluster) or not objects.at(machine, "status", "nodeRef", "name"):
            return False
        control_plane = self._view.control_plane_of(cluster)
        if control_plane is not None and objects.is_being_deleted(control_plane):
            return False
        return any(
            is_control_plane_machine(each) and not objects.is_being_deleted(each)
            for each in self._view.machines_of_cluster(cluster)
        )

    def _can_be_taken_off(self, hook: str, machine: Object) -> bool:
        """The control plane's own hook is waited for only while there is a control plane to take it off."""
        if hook != wellknown.CONTROL_PLANE_HOOK_ANNOTATION:
            return True
        return self._view.owner_of(machine, capi.KUBEADM_CONTROL_PLANES) is not None

    async def _drain(self, draft: Draft, observed: Observed, connection: Connection | None) -> Outcome | None:
        machine = draft.object
        if wellknown.EXCLUDE_DRAIN_ANNOTATION in objects.annotations(machine) or self._hook_has_been_removed(machine):
            return None
        deletion = draft.status.setdefault("deletion", {})
        started = str(deletion.setdefault("nodeDrainStartTime", clocks.rfc3339(self._clock.now())))
        limit = float(objects.at(machine, "spec", "deletion", "nodeDrainTimeoutSeconds") or 0)
        has_waited = (self._clock.now() - clocks.parse_rfc3339(started)).total_seconds()
        if limit and has_waited >= limit:
            return None
        if connection is None or not connection.is_synced:
            cause = observed.connection_problem or "the cluster's API cannot be reached"
            message = f"Drain not completed yet (started at {started}): {cause}"
            return _wait(observed, "DrainingNode", message, _CONNECTION_RETRY)
        if observed.node is None:
            return None
        try:
            drained = await drain(connection, observed.node)
        except errors.ServiceUnavailable as error:
            message = f"Drain not completed yet (started at {started}): {error.message}"
            return _wait(observed, "DrainingNode", message, _CONNECTION_RETRY)
        if drained.left:
            message = f"Drain not completed yet (started at {started}):{drained.message}"
            return _wait(observed, "DrainingNode", message, _DRAIN_RETRY)
        return None

    @staticmethod
    def _hook_has_been_removed(machine: Object) -> bool:
        """The control plane takes its hook off after the drain: from then on the API on this machine may be gone."""
        owner = objects.controller_of(machine)
        is_managed = owner is not None and owner.get("kind") == "KubeadmControlPlane"
        return is_managed and wellknown.CONTROL_PLANE_HOOK_ANNOTATION not in objects.annotations(machine)

    async def _is_gone(self, machine: Object, reference: Reference) -> bool:
        namespace = objects.namespace(machine)
        try:
            resource = await self._externals.resource(reference.group, reference.kind)
        except UnknownKind:
            return True
        found = await self._externals.find(reference, namespace)
        if found is None:
            return True
        if objects.is_being_deleted(found):
            return False
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(resource, reference.name, namespace, uid=objects.uid(found))
        return await self._externals.find(reference, namespace) is None

    async def _delete_node(
        self, machine: Object, cluster: Object, observed: Observed, connection: Connection | None
    ) -> Outcome | None:
        connection = connection or await self._workloads.connection(Key.of(cluster))
        if connection is None:
            return None
        try:
            await connection.delete_node(str(objects.at(machine, "status", "nodeRef", "name")))
        except errors.ServiceUnavailable as error:
            limit = objects.at(machine, "spec", "deletion", "nodeDeletionTimeoutSeconds")
            since = clocks.parse_rfc3339(str(objects.metadata(machine)["deletionTimestamp"]))
            has_timed_out = bool(limit) and (self._clock.now() - since).total_seconds() >= float(limit)
            if has_timed_out:
                return None
            return _wait(observed, "DeletingNode", f"Error deleting Node: {error.message}", _CONNECTION_RETRY)
        return None


def _hooks(machine: Object, prefix: str) -> list[str]:
    return sorted(name for name in objects.annotations(machine) if name.startswith(prefix))


def _wait(observed: Observed, reason: str, message: str, retry_after: float | None = None) -> Outcome:
    observed.deleting_reason, observed.deleting_message = reason, message
    return Outcome(retry_after=retry_after)
