"""What was stored under an earlier definition, read under the present one."""

from __future__ import annotations

import gc
from typing import Any

from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.api import Api
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store
from tests.kube.server.bench import WIDGETS, Bench, make_call, widget

NAME = f"{WIDGETS.plural}.{WIDGETS.group}"


async def redefine(bench: Bench, *, remove: str = "", **properties: Any) -> None:
    definition = await bench.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)
    for version in definition["spec"]["versions"]:
        known: Object = version["schema"]["openAPIV3Schema"].get("properties", {}).get("spec", {}).get("properties", {})
        known.update(properties)
        known.pop(remove, None)
    await bench.update(CUSTOM_RESOURCE_DEFINITIONS, definition)


def stored(bench: Bench, name: str) -> Object:
    record = bench.store.get(f"main/example.com/widgets/default/{name}")
    assert record is not None
    return record.object["spec"]


async def test_every_reader_sees_new_defaults_and_no_old_fields(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("old"))
    before = created["metadata"]["resourceVersion"]
    await redefine(bench, remove="size", shape={"type": "string", "default": "round"})
    expected = {"color": "red", "shape": "round"}

    shown = await bench.get(WIDGETS, "old")
    assert shown["spec"] == expected
    assert shown["metadata"]["resourceVersion"] == before
    assert (await bench.list(WIDGETS))["items"] == [shown]
    [row] = (await bench.list(WIDGETS, representation="table", includeObject="Object"))["rows"]
    assert row["object"]["spec"] == expected
    for options in ({}, {"resourceVersion": str(int(before) - 1)}):
        stream = await bench.watch(WIDGETS, **options)
        [event] = await stream.batch()
        assert event.object["spec"] == expected
        stream.close()
    assert stored(bench, "old") == {"size": 1, "color": "red"}


async def test_the_base_of_a_patch_is_what_is_read_and_becomes_what_is_stored(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("old"))
    await redefine(bench, remove="size", shape={"type": "string", "default": "round"})
    patched = await bench.patch(WIDGETS, "old", [{"op": "test", "path": "/spec/shape", "value": "round"}], "json")
    assert patched["spec"] == stored(bench, "old") == {"color": "red", "shape": "round"}


async def test_a_deletion_shows_what_is_read(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("old"))
    await redefine(bench, remove="size")
    stream = await bench.watch(WIDGETS, resourceVersion=str(bench.store.revision))
    await bench.delete(WIDGETS, "old")
    [event] = await stream.batch()
    assert (event.type, event.object["spec"]) == ("DELETED", {"color": "red"})
    stream.close()


async def test_what_a_deletion_marks_is_what_is_read(bench: Bench) -> None:
    held = widget("old")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await bench.create(WIDGETS, held)
    await redefine(bench, remove="size")
    await bench.delete(WIDGETS, "old")
    assert stored(bench, "old") == {"color": "red"}


async def test_a_field_selector_chooses_by_what_is_read(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("old"))
    await redefine(bench, color={"type": "string", "default": "red"})
    assert await bench.names(WIDGETS, fieldSelector="spec.color=red") == ["old"]


async def test_what_the_definition_has_not_changed_is_looked_at_once(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("old"))
    await redefine(bench, extra={"type": "string"})
    await bench.get(WIDGETS, "old")
    record = bench.store.get("main/example.com/widgets/default/old")
    assert record is not None
    reply = await bench.api.call(make_call("get", WIDGETS, "old"))
    assert reply.record is record
    created = await bench.api.call(make_call("create", WIDGETS, body=widget("new")))
    assert created.record is not None
    assert created.record.fitted is None


async def test_what_was_read_keeps_no_definition_in_memory(bench: Bench) -> None:
    """Records live as long as somebody may ask what has changed; a definition with all that was made of it does not."""
    await test_what_the_definition_has_not_changed_is_looked_at_once(bench)
    records = [record for record in gc.get_objects() if isinstance(record, Record)]
    assert [record for record in records if record.fitted is not None], "some have been read anew"
    for record in records:
        assert not any(isinstance(each, Served) for each in gc.get_referents(record))


async def test_the_same_is_read_after_a_restart(bench: Bench, store: Store) -> None:
    await bench.create(WIDGETS, widget("old"))
    await redefine(bench, remove="size", shape={"type": "string", "default": "round"})
    await bench.api.close()
    again = Bench(await Api.start(store, now=bench.clock), bench.clock, store)
    assert (await again.get(WIDGETS, "old"))["spec"] == {"color": "red", "shape": "round"}
    await again.api.close()
