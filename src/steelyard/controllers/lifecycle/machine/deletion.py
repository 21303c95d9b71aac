"""Takes a machine away in order: drain, wait for volumes and hooks, delete infrastructure, bootstrap config and Node.

Each step waits for the one before to be complete, and each call goes as far as it can, so that a machine without
Node is gone after its infrastructure. When the whole cluster goes, its Nodes go with it and are left alone. Nothing is
waited for that can no longer come: a Cluster, a control plane or a kind that does not exist any more.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Awaitable, Callable

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.contract import Externals, Reference, UnknownKind
from steelyard.controllers.lifecycle.machine import drain, volumes
from steelyard.controllers.lifecycle.machine.status import Observed
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine
from steelyard.controllers.lifecycle.workload import Connection, Workloads
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key

_RETRY = 20.0
_CONNECTION_RETRY = 5.0
_NODE_DELETION_SECONDS = 10.0
"""Unless the machine says otherwise: what upstream's webhook would have put there."""
_DRAINED = "WaitingForPreTerminateHook"


@frozen
class Outcome:
    is_finished: bool = False
    retry_after: float | None = None


@frozen
class Step:
    """Something that a Node is waited for with."""

    reason: str
    said: str
    left: float | None
    """Seconds that are left for it."""
    look: Callable[[Connection, Object, datetime.datetime], Awaitable[str]]
    """Does what there is to do, and says what holds it up; empty where it is done."""

    def within(self, seconds: float) -> float:
        return seconds if self.left is None else max(min(seconds, self.left), 0.1)


@frozen
class Pace:
    reason: str
    message: str
    due: float


class Deletion:
    def __init__(self, client: Client, view: View, externals: Externals, workloads: Workloads, clock: Clock) -> None:
        self._client = client
        self._view = view
        self._externals = externals
        self._workloads = workloads
        self._clock = clock
        self._paces: dict[str, Pace] = {}

    async def advance(self, draft: Draft, observed: Observed, connection: Connection | None) -> Outcome:
        machine = draft.object
        cluster = observed.cluster
        touches_node = cluster is not None and await self._may_touch_node(machine, cluster)
        if touches_node:
            hooks = _hooks(machine, wellknown.PRE_DRAIN_HOOK_PREFIX)
            if hooks:
                return _wait(
                    observed,
                    "WaitingForPreDrainHook",
                    f"Waiting for pre-drain hooks to succeed (hooks: {','.join(hooks)})",
                )
            for step in (self._drain, self._detach):
                outcome = await step(draft, observed, connection)
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
                _DRAINED,
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
        self._paces.pop(objects.uid(machine), None)
        return Outcome(is_finished=True)

    async def _may_touch_node(self, machine: Object, cluster: Object) -> bool:
        if objects.is_being_deleted(cluster) or not objects.at(machine, "status", "nodeRef", "name"):
            return False
        control_plane = self._view.control_plane_of(cluster)
        if control_plane is not None and objects.is_being_deleted(control_plane):
            return False
        if await self._has_control_plane_elsewhere(cluster):
            return True
        return any(
            is_control_plane_machine(each) and not objects.is_being_deleted(each)
            for each in self._view.machines_of_cluster(cluster)
        )

    def _can_be_taken_off(self, hook: str, machine: Object) -> bool:
        """The control plane's own hook is waited for only while there is a control plane to take it off."""
        if hook != wellknown.CONTROL_PLANE_HOOK_ANNOTATION:
            return True
        return self._view.owner_of(machine, capi.KUBEADM_CONTROL_PLANES) is not None

    async def _has_control_plane_elsewhere(self, cluster: Object) -> bool:
        """Managed by others, without machines here."""
        reference = Reference.of(objects.at(cluster, "spec", "controlPlaneRef"))
        if reference is None or reference.kind == capi.KUBEADM_CONTROL_PLANES.kind:
            return False
        try:
            found = await self._externals.find(reference, objects.namespace(cluster))
        except UnknownKind:
            return False
        is_there = found is not None and not objects.is_being_deleted(found)
        return is_there and bool(objects.at(found, "status", "externalManagedControlPlane"))

    async def _drain(self, draft: Draft, observed: Observed, connection: Connection | None) -> Outcome | None:
        """None once the Node is empty, or need not be."""
        if wellknown.EXCLUDE_DRAIN_ANNOTATION in objects.annotations(draft.object):
            return None
        started, left = self._since(draft, "nodeDrainStartTime", "nodeDrainTimeoutSeconds")
        said = f"Drain not completed yet (started at {started}):"
        return await self._round(draft, observed, connection, Step("DrainingNode", said, left, _pods))

    async def _detach(self, draft: Draft, observed: Observed, connection: Connection | None) -> Outcome | None:
        """None once no volume is attached to the Node, or none need be waited for."""
        is_excluded = wellknown.EXCLUDE_DETACH_ANNOTATION in objects.annotations(draft.object)
        if is_excluded or observed.node is None or drain.is_unreachable(observed.node):
            return None
        started, left = self._since(draft, "waitForNodeVolumeDetachStartTime", "nodeVolumeDetachTimeoutSeconds")
        said = f"Waiting for Node volumes to be detached (started at {started})"
        return await self._round(draft, observed, connection, Step("WaitingForVolumeDetach", said, left, _volumes))

    def _since(self, draft: Draft, field: str, limit: str) -> tuple[str, float | None]:
        """When it began, written down with this, and the seconds that it may still take; None without limit."""
        deletion = draft.status.setdefault("deletion", {})
        started = str(deletion.setdefault(field, clocks.rfc3339(self._clock.now())))
        seconds = float(objects.at(draft.object, "spec", "deletion", limit) or 0)
        has_waited = (self._clock.now() - clocks.parse_rfc3339(started)).total_seconds()
        return started, seconds - has_waited if seconds else None

    async def _round(
        self, draft: Draft, observed: Observed, connection: Connection | None, step: Step
    ) -> Outcome | None:
        """Does the step once, and not again before its time, however often somebody looks at the machine."""
        machine = draft.object
        has_time_out = step.left is not None and step.left <= 0
        if has_time_out or self._hook_has_been_removed(machine):
            return None
        if connection is None or not connection.is_synced:
            if conditions.reason_of(machine, "Deleting") == _DRAINED:
                # It was empty before the platform was started again; nothing new has come onto it.
                return None
            cause = observed.connection_problem or "the cluster's API cannot be reached"
            return _wait(observed, step.reason, f"{step.said} {cause}", step.within(_CONNECTION_RETRY))
        if observed.node is None:
            return None
        pace = self._paces.get(objects.uid(machine))
        if pace is not None and pace.reason == step.reason and self._clock.monotonic() < pace.due:
            return _wait(observed, pace.reason, pace.message, pace.due - self._clock.monotonic())
        try:
            held_by = await step.look(connection, observed.node, self._clock.now())
        except errors.ServiceUnavailable as error:
            return _wait(observed, step.reason, f"{step.said} {error.message}", step.within(_CONNECTION_RETRY))
        if not held_by:
            return None
        after = step.within(_RETRY)
        message = step.said + held_by
        self._paces[objects.uid(machine)] = Pace(step.reason, message, self._clock.monotonic() + after)
        return _wait(observed, step.reason, message, after)

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
            node = observed.node if observed.is_connected else await self._named_node(machine, connection)
            if node is not None:
                await connection.delete_node(node)
        except errors.ApiError as error:
            limit = objects.at(machine, "spec", "deletion", "nodeDeletionTimeoutSeconds")
            seconds = _NODE_DELETION_SECONDS if limit is None else float(limit)
            since = clocks.parse_rfc3339(str(objects.metadata(machine)["deletionTimestamp"]))
            has_timed_out = bool(seconds) and (self._clock.now() - since).total_seconds() >= seconds
            if has_timed_out:
                return None
            return _wait(observed, "DeletingNode", f"Error deleting Node: {error.message}", _CONNECTION_RETRY)
        return None

    @staticmethod
    async def _named_node(machine: Object, connection: Connection) -> Object | None:
        """Where the Nodes are not known: the one of the name, if it is the machine's and not a later one's."""
        try:
            found = await connection.client.get(NODES, str(objects.at(machine, "status", "nodeRef", "name")))
        except errors.NotFound:
            return None
        is_its_own = objects.at(found, "spec", "providerID") == objects.at(machine, "spec", "providerID")
        return found if is_its_own else None


async def _pods(connection: Connection, node: Object, now: datetime.datetime) -> str:
    return (await drain.drain(connection, node, now)).message


async def _volumes(connection: Connection, node: Object, now: datetime.datetime) -> str:
    return await volumes.attached(connection, node, now)


def _hooks(machine: Object, prefix: str) -> list[str]:
    return sorted(name for name in objects.annotations(machine) if name.startswith(prefix))


def _wait(observed: Observed, reason: str, message: str, retry_after: float | None = None) -> Outcome:
    observed.deleting_reason, observed.deleting_message = reason, message
    return Outcome(retry_after=retry_after)
