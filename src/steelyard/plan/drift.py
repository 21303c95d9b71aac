"""What was changed by hand and is not simply put back: where that would replace machines, a person decides.

An update is a correction if, without what others have set in the object, it is exactly what was applied last; anything
else is the claim's own change, and was asked for. Whoever agrees to a correction says so on the claim, with the
generation that the changed object has: the next change by hand is another one, and is asked for anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.compose.effects import Disruption, Effect, Effects, worst
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import marks, ownership

AGREED: Final = "steelyard.dev/correct-drift"
"""Annotation of a claim: the corrections that are agreed to, `workers.7`, with commas between them."""


def agreed(claim: Object) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in objects.annotations(claim).get(AGREED, "").split(","))))


def token(resource_name: str, observed: Object) -> str:
    """What a person agrees to."""
    return f"{resource_name}.{objects.generation(observed)}"


def to_hold(
    there: Mapping[str, tuple[Object, Object]], changed: Sequence[str], effects: Effects, agreed: frozenset[str]
) -> dict[str, tuple[Effect, ...]]:
    """Those of the changed parts that stay as they are, each with what putting it back would do. `there` has the
    observed and the desired object of each part."""
    if not changed:
        return {}
    after = {name: desired for name, (_, desired) in there.items()}
    before = {name: ownership.covered(observed, desired) for name, (observed, desired) in there.items()}
    total = effects(before, after, {})
    suspects = {each.part for each in total if each.disruption is not Disruption.NONE} & set(changed)
    suspects = {name for name in suspects if is_correction(*there[name]) and token(name, there[name][0]) not in agreed}
    if not suspects:
        return {}
    asked = effects({**before, **{name: _as_applied(*there[name]) for name in suspects}}, after, {})
    held: dict[str, tuple[Effect, ...]] = {}
    for name in suspects:
        of_part = tuple(each for each in total if each.part == name)
        if worst(of_part) > worst([each for each in asked if each.part == name]):
            held[name] = of_part
    return held


def is_correction(observed: Object, desired: Object) -> bool:
    """Whether what differs was set by others. Where no mark says what was applied, nobody asked for the change."""
    if marks.DIGEST not in objects.annotations(observed):
        return True
    return marks.is_of(_as_applied(observed, desired), observed)


def _as_applied(observed: Object, desired: Object) -> Object:
    """The object as it was applied last, if others have only changed fields that are desired as they were."""
    if marks.DIGEST not in objects.annotations(observed):
        return desired
    return ownership.covered(ownership.put_back(observed, desired), desired)
