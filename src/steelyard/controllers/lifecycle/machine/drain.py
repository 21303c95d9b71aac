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
_GOING = "deletionTimestamp set, but still not removed from the Node"


@frozen
class Drained:
    left: int
    message: str
    """What holds the pods that are left, a line for each cause."""


async def drain(connection: Connection, node: Object) -> Drained:
    """One round: cordons, asks for eviction of every pod that must move, and says which are still there, and why."""
    if not objects.at(node, "spec", "unschedulable"):
        await connection.patch_node(node, {"spec": {"unschedulable": True}})
    held: dict[str, str] = {}
    for pod in await _pods(connection, node):
        if objects.is_being_deleted(pod):
            continue
        try:
            await _evict(connection, pod)
        except errors.NotFound:
            continue
        except errors.ServiceUnavailable:
            raise
        except errors.ApiError as error:
            held[objects.qualified_name(pod)] = _cause(error)
    left = [objects.qualified_name(pod) for pod in await _pods(connection, node)]
    causes: dict[str, list[str]] = {}
    for name in left:
        causes.setdefault(held.get(name, _GOING), []).append(name)
    return Drained(len(left), "".join(f"\n* {_listed(names)}: {cause}" for cause, names in causes.items()))


async def _pods(connection: Connection, node: Object) -> list[Object]:
    try:
        listed = await connection.client.list(PODS, field_selector=f"spec.nodeName={objects.name(node)}")
    except errors.NotFound:
        return []
    return [pod for pod in listed.items if must_move(pod)]


def _cause(error: errors.ApiError) -> str:
    """`cannot evict pod as it would violate the pod's disruption budget. The disruption budget a needs 2 healthy …`"""
    said = " ".join((error.message, *(cause.message for cause in error.causes)))
    return said[:1].lower() + said[1:]


def _listed(names: list[str]) -> str:
    more = f", ... ({len(names) - _NAMES_SHOWN} more)" if len(names) > _NAMES_SHOWN else ""
    return f"{'Pod' if len(names) == 1 else 'Pods'} {', '.join(names[:_NAMES_SHOWN])}{more}"


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
