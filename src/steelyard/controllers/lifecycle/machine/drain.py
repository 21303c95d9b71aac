"""Emptying a Node before its machine goes: no new pods, then eviction of those that are there.

Who must go is decided as upstream does it: neither pods of DaemonSets, which come back, nor static ones, nor those that
a label exempts. On a Node that nobody hears of, a pod that was told to go counts as gone: nobody is there to end it.
MachineDrainRules are not read.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from typing import Literal, TypeAlias

from steelyard.controllers.lifecycle.workload import Connection
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks

PODS = Resource("", "v1", "pods", "Pod")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DRAIN_LABEL = "cluster.x-k8s.io/drain"
_MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_NAMES_SHOWN = 3
_CAUSES_SHOWN = 5
_SECONDS = 10.0
"""Evictions are asked for in one round."""
_LOST_AFTER = 1.0
"""Seconds after which a pod of an unreachable Node that should be gone counts as gone; and its grace period there."""
_GOING = "deletionTimestamp set, but still not removed from the Node"
_WAITING = "waiting for completion"
_LATER = f"eviction timeout of {_SECONDS:g}s reached, eviction will be retried"
_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."

Behaviour: TypeAlias = Literal["move", "wait", "stay"]


@frozen
class Drained:
    left: int
    message: str = ""
    """What holds the pods that are left, a line for each cause."""


async def drain(connection: Connection, node: Object, now: datetime.datetime) -> Drained:
    """One round: cordons, asks for eviction of every pod that must move, and says which are still there, and why."""
    if not objects.at(node, "spec", "unschedulable"):
        await connection.patch_node(node, {"spec": {"unschedulable": True}})
    found = [(pod, how) for pod, how in await pods_of(connection, node, now) if how != "stay"]
    if not found:
        return Drained(0)
    held = {objects.qualified_name(pod): _WAITING for pod, how in found if how == "wait"}
    grace_seconds = _LOST_AFTER if is_unreachable(node) else None
    loop = asyncio.get_running_loop()
    until = loop.time() + _SECONDS
    for pod in [pod for pod, how in found if how == "move" and not objects.is_being_deleted(pod)]:
        name = objects.qualified_name(pod)
        try:
            if loop.time() < until:
                await _evict(connection, pod, grace_seconds)
            else:
                held[name] = _LATER
        except errors.NotFound:
            continue
        except errors.ServiceUnavailable:
            raise
        except errors.ApiError as error:
            held[name] = _cause(error)
    left = [objects.qualified_name(pod) for pod, how in await pods_of(connection, node, now) if how != "stay"]
    return Drained(len(left), _told(left, held))


async def pods_of(connection: Connection, node: Object, now: datetime.datetime) -> Sequence[tuple[Object, Behaviour]]:
    """All pods of the Node, in order, and what is to become of each."""
    try:
        listed = await connection.client.list(PODS, field_selector=f"spec.nodeName={objects.name(node)}")
    except errors.NotFound:
        return []
    is_lost = is_unreachable(node)
    known: dict[tuple[str, str], bool] = {}
    found: list[tuple[Object, Behaviour]] = []
    for pod in objects.by_name(listed.items):
        owner = objects.controller_of(pod) or {}
        key = (objects.namespace(pod), str(owner.get("name") or ""))
        if owner.get("kind") == DAEMON_SETS.kind and key not in known:
            known[key] = await _exists(connection, *key)
        found.append((pod, behaviour(pod, has_daemon_set=known.get(key, False), is_lost=is_lost, now=now)))
    return found


def behaviour(pod: Object, *, has_daemon_set: bool, is_lost: bool, now: datetime.datetime) -> Behaviour:
    """`has_daemon_set`: the one that made it exists. `is_lost`: its Node is unreachable."""
    since = objects.metadata(pod).get("deletionTimestamp")
    if is_lost and since and (now - clocks.parse_rfc3339(str(since))).total_seconds() > _LOST_AFTER:
        return "stay"
    is_finished = objects.at(pod, "status", "phase") in ("Succeeded", "Failed")
    if (has_daemon_set and not is_finished) or _MIRROR_ANNOTATION in objects.annotations(pod):
        return "stay"
    wish = objects.labels(pod).get(DRAIN_LABEL, "").lower().replace("-", "")
    if wish == "skip":
        return "stay"
    if wish == "waitcompleted":
        return "stay" if is_finished else "wait"
    return "move"


def is_unreachable(node: Object) -> bool:
    """Nothing is heard of its kubelet."""
    conditions = map(objects.mapping, objects.sequence(objects.at(node, "status", "conditions")))
    return any(each.get("type") == "Ready" and each.get("status") == "Unknown" for each in conditions)


async def _exists(connection: Connection, namespace: str, name: str) -> bool:
    try:
        await connection.client.get(DAEMON_SETS, name, namespace)
    except errors.NotFound:
        return False
    return True


def _cause(error: errors.ApiError) -> str:
    """`cannot evict pod as it would violate the pod's disruption budget. The disruption budget a needs 2 healthy …`"""
    said = " ".join((error.message, *(cause.message for cause in error.causes)))
    return said[:1].lower() + said[1:] if said.startswith(_BUDGET) else f"failed to evict Pod, {said}"


def _told(left: Sequence[str], held: dict[str, str]) -> str:
    causes: dict[str, list[str]] = {}
    for name in left:
        causes.setdefault(held.get(name, _GOING), []).append(name)
    lines = [f"\n* {_listed(names)}: {cause}" for cause, names in causes.items()]
    others = sum(len(names) for names in list(causes.values())[_CAUSES_SHOWN:])
    if others:
        lines[_CAUSES_SHOWN:] = [f"\n* {others} {'Pod' if others == 1 else 'Pods'} with other issues"]
    return "".join(lines)


def _listed(names: list[str]) -> str:
    more = f", ... ({len(names) - _NAMES_SHOWN} more)" if len(names) > _NAMES_SHOWN else ""
    return f"{'Pod' if len(names) == 1 else 'Pods'} {', '.join(names[:_NAMES_SHOWN])}{more}"


async def _evict(connection: Connection, pod: Object, grace_seconds: float | None) -> None:
    eviction: Object = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": objects.name(pod), "namespace": objects.namespace(pod)},
    }
    if grace_seconds is not None:
        eviction["deleteOptions"] = {"gracePeriodSeconds": int(grace_seconds)}
    path = PODS.path(objects.namespace(pod), objects.name(pod), "eviction")
    await connection.client.request("POST", path, body=eviction)
