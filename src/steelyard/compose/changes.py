"""What other settings of the platform would change for a claim: composes it with both, and tells the difference.

environments.dev.memoryGi 32 -> 64   ->   memoryGi 32 -> 64; a new machine template, all machines replaced
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steelyard.compose import workloadcluster
from steelyard.compose.composed import NOTHING, Composed
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

_WITHOUT_EFFECT_ON_MACHINES = frozenset({"replicas", "rollout", "selector", "clusterName"})


@frozen
class Change:
    """What becomes of one claim."""

    claim: Object
    parameters: Sequence[str]
    """`memoryGi 32 -> 64`"""
    parts: Sequence[str]
    """The composed objects that come, go or change: `MachineDeployment shop-md-0`."""
    replaces_control_plane: bool
    replaces_workers: bool
    removed_control_plane: int
    removed_workers: int
    """So many machines fewer."""
    refusal: str = ""
    """Why the claim could not be composed any more; what exists then stays as it is."""


def of(claim: Object, old: Platform, new: Platform) -> Change | None:
    """None if the claim gets the same with both."""
    before, after = (workloadcluster.compose(claim, NOTHING, platform) for platform in (old, new))
    refusal = after.refusal.message if after.refusal is not None and after.refusal != before.refusal else ""
    names = [name for name in {**before.desired, **after.desired} if _object(before, name) != _object(after, name)]
    if not refusal and not names:
        return None
    if refusal:
        return Change(claim, (), (), False, False, 0, 0, refusal)
    return Change(
        claim,
        parameters=_parameters(before, after),
        parts=[_described(before, after, name) for name in names],
        replaces_control_plane=_makes_machines_of(before, "control-plane")
        != _makes_machines_of(after, "control-plane"),
        replaces_workers=_makes_machines_of(before, "workers") != _makes_machines_of(after, "workers"),
        removed_control_plane=max(0, _replicas(before, "control-plane") - _replicas(after, "control-plane")),
        removed_workers=max(0, _replicas(before, "workers") - _replicas(after, "workers")),
    )


def _object(composed: Composed, name: str) -> Object | None:
    part = composed.desired.get(name)
    return part.object if part is not None else None


def _described(before: Composed, after: Composed, name: str) -> str:
    obj = _object(after, name) or _object(before, name) or {}
    return f"{obj.get('kind')} {objects.name(obj)}"


def _makes_machines_of(composed: Composed, name: str) -> Mapping[str, object]:
    """What, if it differs, replaces the machines."""
    spec = objects.mapping(objects.at(_object(composed, name), "spec"))
    return {key: value for key, value in spec.items() if key not in _WITHOUT_EFFECT_ON_MACHINES}


def _replicas(composed: Composed, name: str) -> int:
    return int(objects.at(_object(composed, name), "spec", "replicas") or 0)


def _parameters(before: Composed, after: Composed) -> list[str]:
    one, other = (objects.mapping(composed.status.get("parameters")) for composed in (before, after))
    return [f"{key} {one.get(key)} -> {other.get(key)}" for key in {**one, **other} if one.get(key) != other.get(key)]
