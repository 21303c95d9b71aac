"""The last thing before a control-plane machine goes: its etcd member leaves, then the hook is taken off that held it.

Machines go one at a time, the one first that was deleted first, and only after everybody else who holds it: once its
member has left, its API server and kubelet are cut off. A member that is already gone, because the platform died
between the two writes, is no obstacle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle.kubeadmcontrolplane import blueprint
from steelyard.controllers.lifecycle.members import health, leaving
from steelyard.controllers.lifecycle.members.exchange import Unreachable
from steelyard.controllers.lifecycle.members.service import Members, StillLooking
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions


def next_to_go(machines: Sequence[Object]) -> Object | None:
    """The one whose hook is to be taken off now; None while there is none, or another is still on its way. Pure."""
    going = [each for each in machines if objects.is_being_deleted(each)]
    if not going or any(not _is_held(each) for each in going):
        return None
    first = min(going, key=lambda each: (str(objects.metadata(each)["deletionTimestamp"]), objects.name(each)))
    hooks = [each for each in objects.annotations(first) if each.startswith(wellknown.PRE_TERMINATE_HOOK_PREFIX)]
    is_waiting = conditions.reason_of(first, "Deleting") == "WaitingForPreTerminateHook"
    return first if is_waiting and hooks == [wellknown.CONTROL_PLANE_HOOK_ANNOTATION] else None


class Departure:
    def __init__(self, client: Client, members: Members) -> None:
        self._client = client
        self._members = members

    async def advance(self, control_plane: Object, cluster: Object, machines: Sequence[Object]) -> None:
        """Raises CannotLeave."""
        machine = next_to_go(machines)
        if machine is None:
            return
        if len(machines) > 1 and blueprint.manages_etcd(control_plane):
            await self._members.leave(cluster, machine, machines)
        await self.release(machine)

    async def release(self, machine: Object) -> None:
        if _is_held(machine):
            patch = {"metadata": {"annotations": {wellknown.CONTROL_PLANE_HOOK_ANNOTATION: None}}}
            with contextlib.suppress(errors.NotFound):
                await self._client.patch(capi.MACHINES, objects.name(machine), patch, objects.namespace(machine))

    async def clean_up(self, control_plane: Object, cluster: Object, machines: Sequence[Object]) -> tuple[str, ...]:
        """Members that no machine has any more leave as well; returns what is still wrong about etcd as a whole.

        Raises CannotLeave.
        """
        if len(machines) < 2 or not blueprint.manages_etcd(control_plane):
            return ()
        hosts = [leaving.host_of(each) for each in machines]
        try:
            etcd = await self._members.look(cluster, objects.by_name(machines))
        except (Unreachable, StillLooking):
            etcd = self._members.last_seen(cluster)
        problems = health.of_cluster(hosts, etcd) if etcd is not None else ()
        if problems and all(host.node for host in hosts):
            await self._members.sweep(cluster, machines)
            return ()
        return problems


def _is_held(machine: Object) -> bool:
    return wellknown.CONTROL_PLANE_HOOK_ANNOTATION in objects.annotations(machine)
