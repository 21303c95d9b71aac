"""Composing and looking up take turns; a composition that never comes to rest is refused, with the reason."""

from __future__ import annotations

from typing import cast

from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.controllers.claims import lookup
from steelyard.controllers.claims.lookup import Lookup
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS
from tests.kube.runtime.memory import MemoryClient, config_map

CLAIM: Object = {"metadata": {"name": "dev", "namespace": "team"}}


async def test_a_composition_that_asks_in_a_chain_gets_every_answer() -> None:
    client = MemoryClient()
    for name, then in (("a", "b"), ("b", "c"), ("c", "")):
        await client.create(CONFIG_MAPS, config_map(name, "team", then=then))

    def compose(claim: Object, observed: Observed) -> Composed:
        names = ["a"]
        while (found := observed.one(names[-1])) and found["data"]["then"]:
            names.append(found["data"]["then"])
        return Composed(requirements={name: Requirement(CONFIG_MAPS, "team", name) for name in names})

    found = await lookup.compose(Lookup(cast(Client, client)), compose, CLAIM)
    assert found.composed.refusal is None
    assert list(found.observed.required) == ["a", "b", "c"]


async def test_a_composition_that_never_comes_to_rest_is_refused_and_says_what_it_asked_for_last() -> None:
    turns = 0

    def compose(claim: Object, observed: Observed) -> Composed:
        nonlocal turns
        turns += 1
        return Composed(requirements={"next": Requirement(CONFIG_MAPS, "team", f"number-{turns}")})

    found = await lookup.compose(Lookup(cast(Client, MemoryClient())), compose, CLAIM)
    assert turns < 10
    assert found.composed.refusal is not None
    assert found.composed.refusal.reason == "CompositionUnsettled"
    assert "ConfigMap team/number-6" in found.composed.refusal.message
