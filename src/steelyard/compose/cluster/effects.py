"""What becomes of a cluster's machines when it is composed otherwise than before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import clusterapi
from steelyard.compose.composed import Composed
from steelyard.kube import objects
from steelyard.kube.objects import Object

_WITHOUT_EFFECT_ON_MACHINES: Final = frozenset({"replicas", "rollout", "selector", "clusterName"})
_SHOWN: Final = 8


def of(before: Composed, after: Composed, machines: Sequence[Object]) -> list[str]:
    """`replaces 3 machines: a, b, c`, `removes 2 machines`"""
    return [*_replaced(before, after, machines), *_removed(before, after)]


def _replaced(before: Composed, after: Composed, machines: Sequence[Object]) -> Iterator[str]:
    changed = [name for name in _makers(after) if _spec_of_machines(before, name) != _spec_of_machines(after, name)]
    deployments = {objects.name(after.desired[name].object) for name in changed}
    replaces_control_plane = clusterapi.CONTROL_PLANE in changed
    replaced = [
        objects.name(machine)
        for machine in machines
        if (
            replaces_control_plane
            if wellknown.CONTROL_PLANE_LABEL in objects.labels(machine)
            else objects.labels(machine).get(wellknown.MACHINE_DEPLOYMENT_LABEL) in deployments
        )
    ]
    if replaced:
        more = f" and {len(replaced) - _SHOWN} more" if len(replaced) > _SHOWN else ""
        yield f"replaces {len(replaced)} machines: {', '.join(replaced[:_SHOWN])}{more}"


def _removed(before: Composed, after: Composed) -> Iterator[str]:
    fewer = sum(max(0, _replicas(before, name) - _replicas(after, name)) for name in _makers(before))
    if fewer:
        yield f"removes {fewer} machines"


def _makers(composed: Composed) -> list[str]:
    """Resource names of what makes machines."""
    kinds = (resources.KUBEADM_CONTROL_PLANES, resources.MACHINE_DEPLOYMENTS)
    return [name for name, part in composed.desired.items() if part.resource in kinds]


def _spec(composed: Composed, name: str) -> Object:
    part = composed.desired.get(name)
    return objects.mapping(objects.at(part.object, "spec")) if part is not None else {}


def _spec_of_machines(composed: Composed, name: str) -> Mapping[str, object]:
    """What, if it differs, replaces the machines."""
    return {key: value for key, value in _spec(composed, name).items() if key not in _WITHOUT_EFFECT_ON_MACHINES}


def _replicas(composed: Composed, name: str) -> int:
    return int(_spec(composed, name).get("replicas") or 0)
