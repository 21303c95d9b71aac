"""Looking up what a claim's composition names: its objects, and what it requires besides.

Composing needs what was observed, and what to observe follows from composing. So the two take turns until nothing new
is asked for, as in Crossplane's function protocol; with caches behind the client this costs no request. A composition
that never comes to rest is refused after a few turns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from steelyard.compose.composed import NOTHING, Composed, Desired, Observed, Refusal, Requirement
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.informers import Informers
from steelyard.plan import inventory

Compose: TypeAlias = Callable[[Object, Observed], Composed]

_TURNS = 5
_SHOWN = 3


class Lookup:
    """Reads one object, or those with a label; by index where there are informers."""

    def __init__(self, client: Client, informers: Informers | None = None) -> None:
        self._client = client
        self._informers = informers

    def index(self, resource: Resource, label: str) -> None:
        """Prepares finding this resource by the value of a label; to be called before the informers run."""
        if self._informers is not None and not self._informers.of(resource).has_index(_index(label)):
            self._informers.of(resource).add_index(_index(label), functools.partial(_labelled, label=label))

    async def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except errors.NotFound:
            return None

    async def require(self, requirement: Requirement) -> Sequence[Object]:
        if requirement.name:
            found = await self.find(requirement.resource, requirement.namespace, requirement.name)
            return () if found is None else (found,)
        label, value = requirement.label
        informer = self._informers.find(requirement.resource) if self._informers is not None else None
        if informer is not None and informer.has_index(_index(label)):
            return objects.by_name(informer.by_index(_index(label), f"{requirement.namespace}/{value}"))
        try:
            page = await self._client.list(
                requirement.resource, requirement.namespace, label_selector=f"{label}={value}"
            )
        except errors.NotFound:
            # Nobody serves the kind, so there is none.
            return ()
        return objects.by_name(page.items)


@frozen
class Found:
    composed: Composed
    observed: Observed
    foreign: Mapping[str, Object]
    """Objects that stand where composed ones should, by resource name, and were not made for the claim."""


async def compose(lookup: Lookup, function: Compose, claim: Object) -> Found:
    observed = NOTHING
    foreign: dict[str, Object] = {}
    asked: set[object] = set()
    composed = function(claim, observed)
    for _ in range(_TURNS):
        identities = {name: _identity(part) for name, part in composed.desired.items()}
        asking: set[object] = {*identities.values(), *composed.requirements.values()}
        if asking <= asked:
            break
        asked |= asking
        found = {name: await lookup.find(*identity) for name, identity in identities.items()}
        existing = {name: obj for name, obj in found.items() if obj is not None}
        foreign = {
            name: obj
            for name, obj in existing.items()
            if not composed.desired[name].is_shared and not inventory.is_the_claims(obj, claim)
        }
        observed = Observed(
            resources={name: obj for name, obj in existing.items() if name not in foreign},
            required={name: await lookup.require(each) for name, each in composed.requirements.items()},
        )
        composed = function(claim, observed)
    else:
        composed = replace(composed, refusal=_unsettled(composed, asked))
    return Found(composed, observed, foreign)


def _unsettled(composed: Composed, asked: set[object]) -> Refusal | None:
    """Why nothing is done about a composition that goes on asking; its own where the last question was answered."""
    new = [each for each in composed.requirements.values() if each not in asked]
    made = [part for part in composed.desired.values() if _identity(part) not in asked]
    if not new and not made:
        return composed.refusal
    named = [f"{each.resource.kind} {each.namespace}/{each.name}".rstrip("/") for each in new]
    named += [f"{part.resource.kind} {objects.qualified_name(part.object)}" for part in made]
    return Refusal(
        "CompositionUnsettled",
        f"after {_TURNS} looks at what there is, the composition still asks for something else "
        f"({', '.join(named[:_SHOWN])}), so nothing was changed; this is a fault of the composition",
    )


def _identity(part: Desired) -> tuple[Resource, str, str]:
    return part.resource, objects.namespace(part.object), objects.name(part.object)


def _index(label: str) -> str:
    return f"claims-{label}"


def _labelled(obj: Object, *, label: str) -> Iterable[str]:
    value = objects.labels(obj).get(label)
    return (f"{objects.namespace(obj)}/{value}",) if value else ()
