"""Garbage collection where owners are odd: elsewhere, unknown, each other's, or no longer in the way."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NAMESPACES, Resource
from steelyard.kube.store import record as records
from tests.kube.server.bench import CLUSTER_PARTS, PARTS, WIDGETS, Bench, eventually, make, simple_definition, widget

HOLD = "example.com/hold"


def owned(owner: Object, **more: object) -> Object:
    return {**objects.owner_reference(owner), **more}


async def gone(bench: Bench, resource: Resource, name: str, namespace: str = "default") -> None:
    async def is_gone() -> bool:
        return not await bench.exists(resource, name, namespace=namespace)

    await eventually(is_gone)


async def at_rest(bench: Bench) -> None:
    """Long enough for the server to have done what it would do."""
    for _ in range(10):
        await asyncio.sleep(0.01)


async def test_an_owner_in_another_namespace_is_none_and_an_event_says_so(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "other"))
    owner = await bench.create(WIDGETS, widget("o"), namespace="other")
    dependent = await bench.create(PARTS, make(PARTS, "d", ownerReferences=[owned(owner)]))
    await gone(bench, PARTS, "d")

    async def is_told() -> bool:
        return bool(await bench.names(EVENTS))

    await eventually(is_told)
    [event] = (await bench.list(EVENTS))["items"]
    assert (event["reason"], event["type"]) == ("OwnerRefInvalidNamespace", "Warning")
    assert event["involvedObject"]["uid"] == objects.uid(dependent)
    assert event["message"] == (
        f"ownerRef [example.com/v1/Widget, namespace: default, name: o, uid: {objects.uid(owner)}] does not exist in "
        'namespace "default"'
    )
    assert await bench.exists(WIDGETS, "o", namespace="other")


async def test_a_dependent_of_a_kind_that_is_not_served_waits_for_its_definition(bench: Bench) -> None:
    gears = Resource("example.com", "v1", "gears", "Gear")
    missing: Object = {"apiVersion": "example.com/v1", "kind": "Gear", "name": "o", "uid": "1"}
    await bench.create(PARTS, make(PARTS, "d", ownerReferences=[missing]))
    await bench.create(PARTS, make(PARTS, "e", ownerReferences=[{**missing, "apiVersion": "example.com/v9"}]))
    await at_rest(bench)
    assert await bench.names(PARTS) == ["d", "e"]
    await bench.create(CUSTOM_RESOURCE_DEFINITIONS, simple_definition(gears))
    await gone(bench, PARTS, "d")
    assert await bench.names(PARTS) == ["e"], "no such version is served"


async def test_a_cluster_scoped_object_with_a_namespaced_owner_stays(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("o"))
    await bench.create(CLUSTER_PARTS, make(CLUSTER_PARTS, "d", ownerReferences=[owned(owner)]))
    await bench.delete(WIDGETS, "o")
    await at_rest(bench)
    assert await bench.names(CLUSTER_PARTS) == ["d"]


async def test_owners_that_wait_for_each_other_both_go(bench: Bench) -> None:
    first = await bench.create(PARTS, make(PARTS, "a"))
    second = await bench.create(PARTS, make(PARTS, "b", ownerReferences=[owned(first, blockOwnerDeletion=True)]))
    circle = {"metadata": {"ownerReferences": [owned(second, blockOwnerDeletion=True)]}}
    await bench.patch(PARTS, "a", circle)
    await bench.delete(PARTS, "a", propagationPolicy="Foreground")
    await gone(bench, PARTS, "a")
    await gone(bench, PARTS, "b")


async def test_an_owner_goes_when_its_dependent_ceases_to_block(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("o"))
    blocking = owned(owner, blockOwnerDeletion=True)
    await bench.create(PARTS, make(PARTS, "d", finalizers=[HOLD], ownerReferences=[blocking]))
    await bench.delete(WIDGETS, "o", propagationPolicy="Foreground")
    await at_rest(bench)
    assert await bench.exists(WIDGETS, "o")
    await bench.patch(PARTS, "d", {"metadata": {"ownerReferences": [owned(owner, blockOwnerDeletion=False)]}})
    await gone(bench, WIDGETS, "o")


async def test_a_dependent_with_dependents_of_its_own_is_deleted_in_the_foreground_too(bench: Bench) -> None:
    owner = await bench.create(WIDGETS, widget("o"))
    middle = await bench.create(PARTS, make(PARTS, "m", ownerReferences=[owned(owner, blockOwnerDeletion=True)]))
    held = make(CONFIG_MAPS, "d", finalizers=[HOLD], ownerReferences=[owned(middle, blockOwnerDeletion=True)])
    await bench.create(CONFIG_MAPS, held)
    await bench.delete(WIDGETS, "o", propagationPolicy="Foreground")

    async def is_waiting() -> bool:
        return objects.finalizers(await bench.get(PARTS, "m")) == ["foregroundDeletion"]

    await eventually(is_waiting)
    await bench.patch(CONFIG_MAPS, "d", {"metadata": {"finalizers": None}})
    await gone(bench, WIDGETS, "o")
    assert await bench.names(PARTS) == []


async def test_an_object_of_many_absent_owners_is_not_parsed_for_each_of_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = [
        {"apiVersion": "example.com/v1", "kind": "Widget", "name": f"absent-{number}", "uid": f"{number:036}"}
        for number in range(5000)
    ]
    parsed: list[int] = []

    class Counting:
        @staticmethod
        def loads(data: bytes) -> object:
            parsed.append(len(data))
            return orjson.loads(data)

    monkeypatch.setattr(records, "orjson", Counting)
    await bench.create(PARTS, make(PARTS, "d", ownerReferences=absent))
    await gone(bench, PARTS, "d")
    assert len([size for size in parsed if size > 128 * 1024]) < 50
