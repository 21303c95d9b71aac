"""What stands against a move, found before anything is written: each with what to do. Pure.

What is being made or deleted would be cut off in the middle; what runs as a process or a virtual machine of one place
does not come along; what belongs to something that stays would lose its owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from steelyard.api import state
from steelyard.api.clusterapi import resources as capi
from steelyard.api.crossplane import PROVIDER_CONFIGS
from steelyard.compose import names
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.moving import kinds, rewriting
from steelyard.moving.belongings import Belongings, Thing

BLOCK: Final = "clusterctl.cluster.x-k8s.io/block-move"
"""Annotation by which a provider of Cluster API asks for a moment."""
_SETTLED: Final = (state.READY, state.DEGRADED, state.PAUSED, state.DRIFTED)
_COUNTED: Final = (capi.KUBEADM_CONTROL_PLANES, capi.MACHINE_DEPLOYMENTS, capi.MACHINE_SETS)
_WAIT: Final = "wait until it is done"


def immovable(belongings: Belongings) -> list[tuple[Thing, list[str]]]:
    """Claims that have to stay, each with why; under what is nobody's claim, its own reason."""
    found: dict[str, tuple[Thing, list[str]]] = {}
    claims = {
        (each.resource.kind, objects.namespace(each.object), objects.name(each.object)): each
        for each in belongings.claims
    }
    for each in belongings.moving:
        reason = kinds.why_it_stays(each.resource)
        if reason:
            holder = claims.get(_claim_of(each.object), each)
            found.setdefault(objects.uid(holder.object), (holder, []))[1].append(f"{each}: {reason}")
    return list(found.values())


def _claim_of(obj: Object) -> tuple[str, str, str]:
    labels = objects.labels(obj)
    return (
        labels.get(names.CLAIM_KIND, ""),
        labels.get(names.CLAIM_NAMESPACE, ""),
        labels.get(names.CLAIM_NAME, ""),
    )


def unsettled(belongings: Belongings) -> list[str]:
    """Whatever is being made, changed or deleted."""
    return [f"{each} {problem}" for each in belongings.moving for problem in _problems(each)]


def _problems(thing: Thing) -> Iterator[str]:
    obj = thing.object
    if objects.is_being_deleted(obj):
        yield "is being deleted: wait until it is gone"
        return
    if BLOCK in objects.annotations(obj):
        yield f"has the annotation {BLOCK}: {_WAIT} what it asks for"
    if thing.is_claim:
        found = state.of(obj)
        if found.word not in _SETTLED:
            yield f"is {found.word}{f' ({found.text})' if found.text else ''}: {_WAIT}, or mend it"
        elif found.word == state.PAUSED and rewriting.acts_for_somebody(obj):
            yield (
                "is paused, and reaches into another namespace with its author's rights, which nobody has judged "
                "since: it would with the mover's. Let it go on until it is ready, or take the reference out"
            )
    elif kinds.is_of_cluster_api(thing.resource):
        yield from _of_cluster_api(thing.resource, obj)


def _of_cluster_api(resource: Resource, obj: Object) -> Iterator[str]:
    done = objects.mapping(objects.at(obj, "status", "initialization"))
    if resource.kind == capi.CLUSTERS.kind:
        for field, what in (
            ("infrastructureProvisioned", "infrastructure"),
            ("controlPlaneInitialized", "control plane"),
        ):
            if done.get(field) is not True:
                yield f"has no {what} yet: {_WAIT}"
    elif resource.kind == capi.MACHINES.kind and not objects.at(obj, "status", "nodeRef", "name"):
        yield f"has no Node yet: {_WAIT}"
    elif resource.kind in [each.kind for each in _COUNTED]:
        yield from _of_counts(obj)


def _of_counts(obj: Object) -> Iterator[str]:
    status = objects.mapping(obj.get("status"))
    wanted, there = objects.at(obj, "spec", "replicas"), status.get("replicas") or 0
    current = status.get("upToDateReplicas")
    if (status.get("observedGeneration") or 0) < objects.generation(obj):
        yield f"has been changed, and nobody has looked at it since: {_WAIT}, or start its controllers"
    elif wanted is not None and int(wanted) != int(there):
        yield f"has {there} of {wanted} machines: {_WAIT}"
    elif current is not None and int(current) < int(there):
        yield f"is replacing machines, {current} of {there} are new: {_WAIT}"


def orphaned(belongings: Belongings, by_uid: Mapping[str, Thing]) -> list[str]:
    """What belongs to something that is there and stays. A reference that leads nowhere is left out of the copy."""
    moving = {objects.uid(each.object) for each in belongings.moving}
    return [
        f"{each} belongs to {by_uid[uid]}, which does not move: move that as well, or take the owner reference off"
        for each in belongings.moving
        for uid in (str(reference.get("uid")) for reference in objects.owner_references(each.object))
        if uid not in moving and uid in by_uid
    ]


def provider_configs(belongings: Belongings) -> list[str]:
    """Names of those by which moving databases are reached: the same server must be behind them at the target."""
    return sorted(
        {
            str(objects.at(each.object, "spec", "providerConfigRef", "name") or "default")
            for each in belongings.moving
            if each.resource.group == PROVIDER_CONFIGS.group
        }
    )
