"""Looking up what a claim's composition names: its objects, and what it requires besides."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import cast

from steelyard.compose.composed import Requirement
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.informers import Informers
from steelyard.plan import settling
from steelyard.plan.settling import Answer, Compose, Found


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


async def compose(lookup: Lookup, function: Compose, claim: Object) -> Found:
    """With caches behind the client this costs no request."""
    turns = settling.turns(function, claim)
    try:
        question = next(turns)
        while True:
            found = {name: await lookup.find(*identity) for name, identity in question.parts.items()}
            answer = Answer(
                parts={name: obj for name, obj in found.items() if obj is not None},
                required={name: await lookup.require(each) for name, each in question.requirements.items()},
            )
            question = turns.send(answer)
    except StopIteration as end:
        return cast(Found, end.value)


def _index(label: str) -> str:
    return f"claims-{label}"


def _labelled(obj: Object, *, label: str) -> Iterable[str]:
    value = objects.labels(obj).get(label)
    return (f"{objects.namespace(obj)}/{value}",) if value else ()
