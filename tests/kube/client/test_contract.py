"""What both transports promise, checked on the real server: in the same process, and over TLS with a kubeconfig."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client, WatchEvent
from steelyard.kube.objects import Object
from steelyard.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    SECRETS,
    Resource,
)
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.client import transports

WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    yield store
    await store.close()


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    api = await Api.start(store)
    yield api
    await api.close()


@pytest.fixture(params=[transports.local, transports.over_https], ids=["local", "https"])
async def client(request: pytest.FixtureRequest, api: Api) -> AsyncIterator[Client]:
    async with request.param(api) as client:
        yield client


def config_map(name: str, **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": dict(data),
    }


async def test_created_object_is_read_back_with_what_the_server_added(client: Client) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert objects.uid(created)
    assert objects.resource_version(created)
    read = await client.get(CONFIG_MAPS, "a", "default")
    assert read == created
    assert (read["apiVersion"], read["kind"], read["data"]) == ("v1", "ConfigMap", {"x": "1"})


async def test_given_object_stays_the_callers_own(client: Client) -> None:
    mine = config_map("a", x="1")
    patch: Object = {"metadata": {"labels": {"k": "v"}}}
    await client.create(CONFIG_MAPS, mine)
    assert mine == config_map("a", x="1")
    mine["data"]["x"] = "mutated"
    await client.patch(CONFIG_MAPS, "a", patch, "default")
    patch["metadata"]["labels"]["k"] = "mutated"
    read = await client.get(CONFIG_MAPS, "a", "default")
    assert (read["data"], objects.labels(read)) == ({"x": "1"}, {"k": "v"})


async def test_dry_run_stores_nothing(client: Client) -> None:
    assert objects.name(await client.create(CONFIG_MAPS, config_map("a"), dry_run=True)) == "a"
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "a", "default")


async def test_missing_object_says_which(client: Client) -> None:
    with pytest.raises(errors.NotFound, match='configmaps "nowhere" not found') as caught:
        await client.get(CONFIG_MAPS, "nowhere", "default")
    assert (caught.value.name, caught.value.kind) == ("nowhere", "configmaps")


async def test_second_object_of_a_name_already_exists(client: Client) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"))


async def test_invalid_object_names_the_field(client: Client) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await client.create(CONFIG_MAPS, config_map("Not A Name"))
    assert caught.value.causes[0].field == "metadata.name"


async def test_update_of_an_outdated_object_conflicts(client: Client) -> None:
    first = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    second = await client.update(CONFIG_MAPS, {**first, "data": {"x": "2"}})
    assert second["data"] == {"x": "2"}
    with pytest.raises(errors.Conflict):
        await client.update(CONFIG_MAPS, {**first, "data": {"x": "3"}})


async def test_lists_select_by_label_and_field_and_carry_kinds(client: Client) -> None:
    for name in ("a", "b", "c"):
        obj = config_map(name)
        obj["metadata"]["labels"] = {"tier": "web" if name != "c" else "db"}
        await client.create(CONFIG_MAPS, obj)

    async def names(**selectors: str) -> list[str]:
        listing = await client.list(CONFIG_MAPS, "default", **selectors)  # type: ignore[arg-type]
        assert all(item["kind"] == "ConfigMap" and item["apiVersion"] == "v1" for item in listing.items)
        return [objects.name(item) for item in listing.items]

    assert await names() == ["a", "b", "c"]
    assert await names(label_selector="tier=web") == ["a", "b"]
    assert await names(field_selector="metadata.name=c") == ["c"]
    assert await names(label_selector="tier notin (web,db)") == []


async def test_pages_continue_until_the_end(client: Client) -> None:
    for number in range(5):
        await client.create(CONFIG_MAPS, config_map(f"c-{number}"))
    seen: list[str] = []
    token = ""
    while True:
        page = await client.list(CONFIG_MAPS, "default", limit=2, continue_token=token)
        seen += [objects.name(item) for item in page.items]
        token = page.continue_token
        if not token:
            break
    assert seen == [f"c-{number}" for number in range(5)]


async def test_patches_of_each_kind(client: Client) -> None:
    await client.create(CONFIG_MAPS, config_map("a", x="1", y="2"))
    merged = await client.patch(CONFIG_MAPS, "a", {"data": {"x": None, "z": "3"}}, "default")
    assert merged["data"] == {"y": "2", "z": "3"}
    operations = [{"op": "replace", "path": "/data/y", "value": "4"}]
    replaced = await client.patch(CONFIG_MAPS, "a", operations, "default", kind="json")
    assert replaced["data"] == {"y": "4", "z": "3"}
    labelled = await client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"l": "1"}}}, "default", kind="strategic")
    assert objects.labels(labelled) == {"l": "1"}


async def test_apply_creates_then_changes_then_conflicts_with_another_manager(client: Client) -> None:
    first = await client.apply(CONFIG_MAPS, config_map("a", x="1"), field_manager="one")
    again = await client.apply(CONFIG_MAPS, config_map("a", x="1"), field_manager="one")
    assert objects.resource_version(again) == objects.resource_version(first)
    with pytest.raises(errors.Conflict, match="conflict"):
        await client.apply(CONFIG_MAPS, config_map("a", x="2"), field_manager="two", force=False)
    forced = await client.apply(CONFIG_MAPS, config_map("a", x="2"), field_manager="two")
    assert forced["data"] == {"x": "2"}


async def test_delete_removes_at_once_or_waits_for_finalizers(client: Client) -> None:
    plain = await client.create(CONFIG_MAPS, config_map("plain"))
    answer = await client.delete(CONFIG_MAPS, "plain", "default")
    assert (answer["kind"], answer["status"], answer["details"]["uid"]) == ("Status", "Success", objects.uid(plain))
    held = await client.create(CONFIG_MAPS, config_map("held"))
    held = await finalizers.ensure(client, CONFIG_MAPS, held, "example.org/hold")
    answer = await client.delete(CONFIG_MAPS, "held", "default")
    assert objects.is_being_deleted(answer)
    await finalizers.remove(client, CONFIG_MAPS, answer, "example.org/hold")
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "held", "default")


async def test_delete_keeps_to_its_preconditions(client: Client) -> None:
    created = await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAPS, "a", "default", uid="another")
    with pytest.raises(errors.Conflict):
        await client.delete(CONFIG_MAPS, "a", "default", resource_version="1")
    await client.delete(
        CONFIG_MAPS, "a", "default", uid=objects.uid(created), resource_version=objects.resource_version(created)
    )


async def test_delete_collection_takes_what_is_selected(client: Client) -> None:
    for name in ("a", "b"):
        obj = config_map(name)
        obj["metadata"]["labels"] = {"name": name}
        await client.create(CONFIG_MAPS, obj)
    await client.delete_collection(CONFIG_MAPS, "default", label_selector="name=a")
    assert [objects.name(item) for item in (await client.list(CONFIG_MAPS, "default")).items] == ["b"]


async def test_foreground_deletion_waits_for_dependents(client: Client) -> None:
    owner = await client.create(CONFIG_MAPS, config_map("owner"))
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [objects.owner_reference(owner, controller=True, block_owner_deletion=True)]
    await client.create(CONFIG_MAPS, child)
    start = (await client.list(CONFIG_MAPS, "default")).resource_version
    answer = await client.delete(CONFIG_MAPS, "owner", "default", propagation="Foreground")
    assert objects.is_being_deleted(answer)
    events = await collect(client, start, 3)
    assert [(event.type, objects.name(event.object)) for event in events if event.type == "DELETED"] == [
        ("DELETED", "child"),
        ("DELETED", "owner"),
    ]


async def test_cluster_scoped_objects_have_no_namespace(client: Client) -> None:
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    await client.create(NODES, node)
    assert objects.name(await client.get(NODES, "n")) == "n"
    assert "default" in [objects.name(item) for item in (await client.list(NAMESPACES)).items]


async def collect(client: Client, revision: str, count: int, **selectors: Any) -> list[WatchEvent]:
    events: list[WatchEvent] = []
    stream = client.watch(CONFIG_MAPS, "default", resource_version=revision, **selectors)
    async with asyncio.timeout(60):
        async for event in stream:
            if event.type != "BOOKMARK":
                events.append(event)
            if len(events) == count:
                break
    with contextlib.suppress(AttributeError):
        await stream.aclose()  # type: ignore[attr-defined]
    return events


async def test_watch_replays_what_came_after_the_revision_and_goes_on_live(client: Client) -> None:
    before = await client.create(CONFIG_MAPS, config_map("before"))
    await client.create(CONFIG_MAPS, config_map("a"))
    watching = asyncio.create_task(collect(client, objects.resource_version(before), 4))
    await asyncio.sleep(0.05)
    await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "default")
    await client.create(SECRETS, {"metadata": {"name": "s", "namespace": "default"}})
    await client.delete(CONFIG_MAPS, "a", "default")
    last = await client.create(CONFIG_MAPS, config_map("b"))
    events = await watching
    assert [(event.type, objects.name(event.object)) for event in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
    ]
    revisions = [int(objects.resource_version(event.object)) for event in events]
    assert revisions == sorted(revisions)
    assert events[-1].object == last


async def test_watch_selects_by_label(client: Client) -> None:
    start = (await client.list(CONFIG_MAPS, "default")).resource_version
    await client.create(CONFIG_MAPS, config_map("a"))
    chosen = config_map("b")
    chosen["metadata"]["labels"] = {"x": "y"}
    await client.create(CONFIG_MAPS, chosen)
    await client.patch(CONFIG_MAPS, "b", {"metadata": {"labels": None}}, "default")
    events = await collect(client, start, 2, label_selector="x=y")
    assert [(event.type, objects.name(event.object)) for event in events] == [("ADDED", "b"), ("DELETED", "b")]


async def test_watch_from_a_revision_that_is_gone_expires(store: Store, client: Client) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    last = await client.create(CONFIG_MAPS, config_map("b"))
    await store.compact(int(objects.resource_version(last)))
    with pytest.raises(errors.Expired):
        await collect(client, "1", 1)


async def test_custom_resource_is_served_with_its_status_apart(client: Client) -> None:
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, _WIDGET_DEFINITION)
    widget: Object = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"size": 3},
    }
    async with asyncio.timeout(60):
        while True:
            try:
                created = await client.create(WIDGETS, widget)
                break
            except errors.NotFound:
                await asyncio.sleep(0.01)
    patched = await patching.patch_status(client, WIDGETS, created, {"phase": "Ready"})
    assert (patched["status"], objects.generation(patched)) == ({"phase": "Ready"}, 1)
    assert await patching.patch_status(client, WIDGETS, patched, {"phase": "Ready"}) is patched
    with pytest.raises(errors.Conflict):
        await patching.patch_status(client, WIDGETS, created, {"phase": "Other"})
    with pytest.raises(errors.Invalid) as caught:
        await client.patch(WIDGETS, "w", {"spec": {"size": "big"}}, "default")
    assert caught.value.causes[0].field == "spec.size"
    assert WIDGETS in await client.discover()


_WIDGET_DEFINITION: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                        },
                    }
                },
            }
        ],
    },
}


async def test_discovery_lists_resources_with_scope(client: Client) -> None:
    found = await client.discover()
    assert {CONFIG_MAPS, NODES, NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS} <= set(found)


async def test_raw_requests_reach_resources_and_tables(client: Client) -> None:
    await client.create(CONFIG_MAPS, config_map("a"))
    path = "/api/v1/namespaces/default/configmaps?labelSelector=none%3Dof"
    assert (await client.request("GET", path))["items"] == []
    table = await client.request(
        "GET", "/api/v1/namespaces/default/configmaps", accept="application/json;as=Table;v=v1;g=meta.k8s.io"
    )
    assert (table["kind"], len(table["rows"])) == ("Table", 1)
    assert (await client.request("GET", "/api/v1"))["kind"] == "APIResourceList"
    with pytest.raises(errors.NotFound):
        await client.request("GET", "/apis/absent.example/v1/things")


async def test_events_are_recorded_and_counted(client: Client) -> None:
    subject = await client.create(CONFIG_MAPS, config_map("a"))
    recorder = Recorder(client, "tester")
    recorder.warning(subject, "Odd", "something is odd")
    recorder.warning(subject, "Odd", "something is odd")
    await recorder.flush()
    [event] = (await client.list(EVENTS, "default", field_selector="involvedObject.name=a")).items
    assert (event["count"], event["reason"], event["type"]) == (2, "Odd", "Warning")
