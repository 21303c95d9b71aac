"""The step before a control-plane machine goes: its etcd member leaves the cluster first.

Which etcd a cluster has is up to its infrastructure. The step is an argument of the control plane's reconciler; this
one serves clusters whose API shows no etcd pods, where there is no member to remove.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from steelyard.controllers.lifecycle.machine.drain import PODS
from steelyard.controllers.lifecycle.workload import Connection
from steelyard.kube import errors
from steelyard.kube.objects import Object

RemoveMember: TypeAlias = Callable[[Connection, Object], Awaitable[None]]
"""Given the cluster and the Machine that goes. Raises `CannotRemove` when it must not go yet."""


class CannotRemove(Exception):
    """The member is still part of the etcd cluster; the message says why and what to do."""


async def without_members(connection: Connection, machine: Object) -> None:
    try:
        pods = await connection.client.list(PODS, "kube-system", label_selector="component=etcd,tier=control-plane")
    except errors.NotFound:
        return
    if pods.items:
        raise CannotRemove(
            "the cluster runs etcd on its control-plane machines, and this platform cannot remove a member of it: "
            "remove the member with etcdctl, then the annotation pre-terminate.delete.hook.machine.cluster.x-k8s.io/"
            "kcp-cleanup from the Machine"
        )
