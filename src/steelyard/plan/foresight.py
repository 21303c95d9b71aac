"""What other settings of the platform would change for a claim: composes it with both, and tells the difference.

environments.dev.memoryGi 32 -> 64   ->   memoryGi 32 -> 64; a new machine template, all machines replaced
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import NOTHING, Composed, Requirement
from steelyard.compose.effects import Effect
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

LookUp: TypeAlias = Callable[[Requirement], Sequence[Object]]


@frozen
class Foreseen:
    """What becomes of one claim."""

    claim: Object
    parameters: Sequence[str]
    """`memoryGi 32 -> 64`"""
    parts: Sequence[str]
    """The composed objects that come, go or change: `MachineDeployment shop-md-0`."""
    effects: Sequence[Effect]
    """The worst first."""
    refusal: str = ""
    """Why the claim could not be composed any more; what exists then stays as it is."""


def of(kind: ClaimKind, claim: Object, old: Platform, new: Platform, look_up: LookUp) -> Foreseen | None:
    """None if the claim gets the same with both."""
    before, after = (kind.compose(claim, NOTHING, platform) for platform in (old, new))
    refusal = after.refusal.message if after.refusal is not None and after.refusal != before.refusal else ""
    if refusal:
        return Foreseen(claim, (), (), (), refusal)
    names = [name for name in {**before.desired, **after.desired} if _object(before, name) != _object(after, name)]
    if not names:
        return None
    required: Mapping[str, Sequence[Object]] = {name: look_up(each) for name, each in after.requirements.items()}
    return Foreseen(
        claim,
        parameters=_parameters(before, after),
        parts=[_described(before, after, name) for name in names],
        effects=sorted(kind.effects(_objects(before), _objects(after), required), key=lambda each: -each.disruption),
    )


def _objects(composed: Composed) -> dict[str, Object]:
    return {name: part.object for name, part in composed.desired.items()}


def _object(composed: Composed, name: str) -> Object | None:
    part = composed.desired.get(name)
    return part.object if part is not None else None


def _described(before: Composed, after: Composed, name: str) -> str:
    obj = _object(after, name) or _object(before, name) or {}
    return f"{obj.get('kind')} {objects.name(obj)}"


def _parameters(before: Composed, after: Composed) -> list[str]:
    one, other = (objects.mapping(composed.status.get("parameters")) for composed in (before, after))
    return [f"{key} {one.get(key)} -> {other.get(key)}" for key in {**one, **other} if one.get(key) != other.get(key)]
