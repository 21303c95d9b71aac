"""Composing needs what was observed, and what to observe follows from composing: the two take turns until nothing new
is asked for, as in Crossplane's function protocol.

Here are the turns; who has a client (the claims controller, the command line) looks up what each asks for. One that
never comes to rest is refused after a few.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, TypeAlias

from steelyard.compose.composed import NOTHING, Composed, Desired, Observed, Refusal, Requirement
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.plan import inventory

Compose: TypeAlias = Callable[[Object, Observed], Composed]
Identity: TypeAlias = tuple[Resource, str, str]
"""Kind, namespace and name."""

_TURNS: Final = 5
_SHOWN: Final = 3


@frozen
class Question:
    parts: Mapping[str, Identity]
    """By resource name."""
    requirements: Mapping[str, Requirement]


@frozen
class Answer:
    parts: Mapping[str, Object]
    """Those that are there."""
    required: Mapping[str, Sequence[Object]]


@frozen
class Found:
    composed: Composed
    observed: Observed
    foreign: Mapping[str, Object]
    """Objects that stand where composed ones should, by resource name, and were not made for the claim."""


Turns: TypeAlias = Generator[Question, Answer, Found]


def turns(function: Compose, claim: Object) -> Turns:
    observed = NOTHING
    foreign: dict[str, Object] = {}
    asked: set[object] = set()
    composed = function(claim, observed)
    for _ in range(_TURNS):
        identities = {name: identity_of(part) for name, part in composed.desired.items()}
        asking: set[object] = {*identities.values(), *composed.requirements.values()}
        if asking <= asked:
            break
        asked |= asking
        answer = yield Question(identities, composed.requirements)
        foreign = {
            name: obj
            for name, obj in answer.parts.items()
            if not composed.desired[name].is_shared and not inventory.is_the_claims(obj, claim)
        }
        observed = Observed(
            resources={name: obj for name, obj in answer.parts.items() if name not in foreign},
            required=answer.required,
        )
        composed = function(claim, observed)
    else:
        composed = dataclasses.replace(composed, refusal=_unsettled(composed, asked))
    return Found(composed, observed, foreign)


def identity_of(part: Desired) -> Identity:
    return part.resource, objects.namespace(part.object), objects.name(part.object)


def _unsettled(composed: Composed, asked: set[object]) -> Refusal | None:
    """Why nothing is done about a composition that goes on asking; its own where the last question was answered."""
    new = [each for each in composed.requirements.values() if each not in asked]
    made = [part for part in composed.desired.values() if identity_of(part) not in asked]
    if not new and not made:
        return composed.refusal
    named = [f"{each.resource.kind} {each.namespace}/{each.name}".rstrip("/") for each in new]
    named += [f"{part.resource.kind} {objects.qualified_name(part.object)}" for part in made]
    return Refusal(
        "CompositionUnsettled",
        f"after {_TURNS} looks at what there is, the composition still asks for something else "
        f"({', '.join(named[:_SHOWN])}), so nothing was changed; this is a fault of the composition",
    )
