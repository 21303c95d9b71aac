"""Emptying a Node before its machine goes: no new pods, then eviction of those that are there."""

from __future__ import annotations

from steelyard.controllers.lifecycle.workload import Connection
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

PODS = Resource("", "v1", "pods", "Pod")
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_NAMES_SHOWN = 3


@frozen
class Drained:
    left: int
    message: str


async def drain(connection: Connection, node: Object) -> Drained:
    """One round: cordons, asks for eviction of every pod that must move, and says how many are still there."""
    if not objects.at(node, "spec", "unschedulable"):
        await connection.patch_node(node, {"spec": {"unschedulable": True}})
    try:
        listed = await connection.client.list(PODS, field_selector=f"spec.nodeName={objects.name(node)}")
    except errors.NotFound:
        return Drained(0, "")
    pods = [pod for pod in listed.items if must_move(pod)]
    refused: list[str] = []
    for pod in pods:
        if not objects.is_being_deleted(pod):
            try:
                await _evict(connection, pod)
            except errors.NotFound:
                continue
            except errors.TooManyRequests:
                refused.append(objects.qualified_name(pod))
    if not pods:
        return Drained(0, "")
    message = f"{len(pods)} Pods are still on the Node"
    if refused:
        shown = ", ".join(refused[:_NAMES_SHOWN])
        message += f"; cannot evict pod as it would violate the pod's disruption budget: {shown}"
    return Drained(len(pods), message)


def must_move(pod: Object) -> bool:
    """Not those of DaemonSets, which come back, nor static ones, nor finished ones."""
    owner = objects.controller_of(pod)
    belongs_to_daemon_set = owner is not None and owner.get("kind") == "DaemonSet"
    is_static = _MIRROR_ANNOTATION in objects.annotations(pod)
    is_finished = objects.at(pod, "status", "phase") in ("Succeeded", "Failed")
    return not (belongs_to_daemon_set or is_static or is_finished)


async def _evict(connection: Connection, pod: Object) -> None:
    eviction: Object = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": objects.name(pod), "namespace": objects.namespace(pod)},
    }
    path = PODS.path(objects.namespace(pod), objects.name(pod), "eviction")
    await connection.client.request("POST", path, body=eviction)
