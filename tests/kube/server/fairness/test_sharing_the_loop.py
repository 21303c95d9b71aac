"""What one client asks for may take a while; others are served meanwhile."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
import pytest

from steelyard.kube import errors, jsonpath, objects, turns
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from tests.kube.server import serving
from tests.kube.server.bench import PARTS, WIDGETS, Bench, eventually, make, simple_definition, widget

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
MANY = 1_500
LONGEST = 0.6
"""Seconds of processor time in one turn: several times what any takes, a small part of what all take together."""
_T = TypeVar("_T")


@dataclass
class Loop:
    longest: float = 0.0
    """Processor time that others had to wait for."""


@asynccontextmanager
async def observed() -> AsyncGenerator[Loop]:
    loop = Loop()

    async def tick() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            loop.longest = max(loop.longest, time.thread_time() - before)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    try:
        yield loop
    finally:
        ticking.cancel()


async def shared(awaitable: Awaitable[_T]) -> _T:
    async with observed() as loop:
        result = await awaitable
    assert loop.longest < LONGEST
    return result


def config_map(name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


async def fill(bench: Bench, count: int = MANY, namespace: str = "default", **metadata: Any) -> None:
    await asyncio.gather(
        *(bench.create(CONFIG_MAPS, config_map(f"c{n}", **metadata), namespace=namespace) for n in range(count))
    )


async def test_lists_selections_tables_and_deletions_of_many_leave_the_loop_to_others(bench: Bench) -> None:
    await fill(bench, labels={"app": "web"})
    selector = ",".join(f"!absent-{number}" for number in range(900))
    assert len((await shared(bench.list(CONFIG_MAPS, labelSelector=selector)))["items"]) == MANY
    assert len((await shared(bench.list(CONFIG_MAPS, labelSelector="app!=web")))["items"]) == 0
    assert len((await shared(bench.list(CONFIG_MAPS, representation="table")))["rows"]) == MANY
    assert len((await shared(bench.list(CONFIG_MAPS, representation="metadata")))["items"]) == MANY
    stream = await shared(bench.watch(CONFIG_MAPS, labelSelector="app=web"))
    assert len(await shared(stream.batch())) == MANY
    stream.close()
    await shared(bench.call("deletecollection", CONFIG_MAPS, labelSelector="app=web"))
    assert await bench.names(CONFIG_MAPS) == []


@pytest.mark.parametrize("parameter", ["fieldSelector", "labelSelector"])
async def test_a_selector_of_absurd_length_is_refused(bench: Bench, parameter: str) -> None:
    text = ",".join(["metadata.name!=a"] * 250_000)
    with pytest.raises(errors.BadRequest, match="selector is too long"):
        await shared(bench.list(CONFIG_MAPS, **{parameter: text}))


async def test_a_namespace_with_many_objects_ends_while_others_are_served(bench: Bench) -> None:
    await bench.create(NAMESPACES, {"metadata": {"name": "large"}})
    await fill(bench, namespace="large")
    async with observed() as loop:
        await bench.delete(NAMESPACES, "large")
        await eventually(lambda: _is_gone(bench, "large"))
    assert loop.longest < LONGEST


async def test_a_definition_with_many_objects_goes_while_others_are_served(bench: Bench) -> None:
    await asyncio.gather(*(bench.create(PARTS, make(PARTS, f"p{n}")) for n in range(300)))
    held = make(PARTS, "held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await bench.create(PARTS, held)
    async with observed() as loop:
        await bench.delete(CUSTOM_RESOURCE_DEFINITIONS, f"{PARTS.plural}.{PARTS.group}")
        await eventually(lambda: _left(bench) == ["held"])
        await bench.patch(PARTS, "held", {"metadata": {"finalizers": None}})
        await eventually(lambda: _is_undefined(bench))
    assert loop.longest < LONGEST


def _left(bench: Bench) -> list[str]:
    return [objects.name(record.object) for record in bench.store.scan("main/example.com/parts/")]


async def _is_undefined(bench: Bench) -> bool:
    return not await bench.exists(CUSTOM_RESOURCE_DEFINITIONS, f"{PARTS.plural}.{PARTS.group}")


async def _is_gone(bench: Bench, name: str) -> bool:
    return not await bench.exists(NAMESPACES, name)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5_000)}},
        {
            "type": "object",
            "properties": {f"p{n}": {"type": "string", "pattern": f"^(\\pL){{9}}{n}"} for n in range(40)},
        },
        {"type": "string", "anyOf": [{"minLength": number} for number in range(5_000)]},
    ],
    ids=["many fields", "costly patterns", "many alternatives"],
)
async def test_a_large_definition_is_judged_apart_from_the_loop(bench: Bench, schema: Object) -> None:
    gadgets = Resource("example.com", "v1", "gadgets", "Gadget")
    definition = simple_definition(gadgets)
    definition["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    async with serving.served(bench.api) as site:
        answer = await shared(site.request("POST", path, orjson.dumps(definition)))
    assert answer.code == 201
    await shared(bench.create(gadgets, make(gadgets, "first")))


async def test_thousands_of_absent_owners_cost_one_look_each(bench: Bench) -> None:
    await asyncio.gather(*(bench.create(WIDGETS, widget(f"w{n}")) for n in range(500)))
    elsewhere = await bench.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    assert elsewhere
    owner = await bench.create(WIDGETS, widget("owner"), namespace="elsewhere")
    references = [
        {"apiVersion": WIDGETS.api_version, "kind": "Widget", "name": f"gone-{n}", "uid": f"uid-{n}"}
        for n in range(4_000)
    ]
    references[2_000] |= {"name": "owner", "uid": objects.uid(owner)}
    async with observed() as loop:
        await bench.create(
            PARTS, make(PARTS, "orphan") | {"metadata": {"name": "orphan", "ownerReferences": references}}
        )
        await eventually(lambda: _no_parts(bench))
        await eventually(lambda: _reported(bench))
    assert loop.longest < LONGEST * 3


async def _no_parts(bench: Bench) -> bool:
    return not await bench.names(PARTS)


async def _reported(bench: Bench) -> bool:
    events = (await bench.list(Resource("", "v1", "events", "Event")))["items"]
    return [event["reason"] for event in events] == ["OwnerRefInvalidNamespace"]


async def test_what_is_told_to_many_takes_several_turns() -> None:
    told: list[int] = []
    for number in range(1_000):
        turns.run(lambda number=number: told.append(number), 100 * 1024)
    at_once = len(told)
    assert 0 < at_once < 20
    waited = 0
    while len(told) < 1_000:
        waited += 1
        await asyncio.sleep(0)
    assert told == list(range(1_000))
    assert waited > 50


async def test_the_work_of_many_takes_no_longer_turns_than_that_of_one() -> None:
    async def work() -> None:
        pause = turns.Pause()
        for _ in range(12):
            _be_busy(0.002)
            await pause.if_due()

    gc.disable()
    try:
        async with observed() as loop:
            working = [asyncio.create_task(work()) for _ in range(30)]
            # Each begins at once, and then it has to let others have the loop.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            loop.longest = 0.0
            await asyncio.gather(*working)
    finally:
        gc.enable()
    assert loop.longest < 0.05


def _be_busy(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_who_is_cancelled_while_others_have_the_loop_holds_nobody_up() -> None:
    async def work() -> int:
        pause, pauses = turns.Pause(), 0
        while pauses < 3:
            _be_busy(0.006)
            pauses += await pause.if_due()
        return pauses

    first, second, third = (asyncio.create_task(work()) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    async with asyncio.timeout(60):
        assert await third == 3


def test_a_printer_column_gives_up_on_what_it_cannot_find_in_time() -> None:
    from steelyard.kube.server.printing import columns

    path = "".join("[*]" for _ in range(3)) + "[?(@.a==1)].b"
    value: Any = [[[{"a": 0}] * 40] * 40] * 40
    [_, *cells] = columns.from_crd([{"name": str(n), "jsonPath": f".x{path}", "type": "string"} for n in range(200)])
    from datetime import UTC, datetime

    from steelyard.kube.server.printing import tables

    before = time.thread_time()
    tables.rows(tuple(cells), now=datetime.now(UTC), include="None")({"x": value})
    assert time.thread_time() - before < 2
    assert jsonpath.find(jsonpath.compile_path(".x[0][0][0].a"), {"x": value}) == 0
