"""watch: what a watcher is told, from where, and how it ends."""

from __future__ import annotations

import asyncio
import gc
from typing import Any, cast

import orjson
import pytest

from steelyard.kube import errors, objects
from steelyard.kube.resources import NAMESPACES
from steelyard.kube.server.verbs import watching
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store
from tests.kube.server.bench import OLD_WIDGETS, PARTS, WIDGETS, Bench, make, make_call, summary, take, widget


async def test_events_follow_the_changes(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, resourceVersion=str(bench.store.revision))
    created = await bench.create(WIDGETS, widget("a"))
    await bench.create(PARTS, make(PARTS, "not-mine"))
    changed = await bench.patch(WIDGETS, "a", {"spec": {"size": 2}})
    await bench.delete(WIDGETS, "a")
    items = await take(stream, 3)
    stream.close()
    assert summary(items) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert [item.object for item in items[:2]] == [created, changed]
    assert items[2].object["metadata"]["resourceVersion"] == str(bench.store.revision)
    assert orjson.loads(items[1].encoded()) == {"type": "MODIFIED", "object": changed}
    assert items[1].encoded().endswith(b"\n")


async def test_a_watch_without_a_revision_starts_with_what_is_there(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    for options in ({}, {"resourceVersion": "0"}):
        stream = await bench.watch(WIDGETS, **options)
        assert summary(await take(stream, 1)) == [("ADDED", "a")]
        stream.close()


async def test_a_watch_resumes_from_any_retained_revision(bench: Bench) -> None:
    created = await bench.create(WIDGETS, widget("a"))
    await bench.patch(WIDGETS, "a", {"spec": {"size": 2}})
    stream = await bench.watch(WIDGETS, resourceVersion=objects.resource_version(created))
    assert summary(await take(stream, 1)) == [("MODIFIED", "a")]
    stream.close()


async def test_a_compacted_revision_is_expired(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    await bench.store.compact(bench.store.revision)
    stream = await bench.watch(WIDGETS, resourceVersion="1")
    with pytest.raises(errors.Expired, match="too old resource version"):
        await stream.batch()
    stream.close()


async def test_a_watch_from_the_future_waits_for_it(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, resourceVersion=str(bench.store.revision + 2))
    for name in ("a", "b", "c"):
        await bench.create(WIDGETS, widget(name))
    (event,) = await take(stream, 1)
    assert objects.name(event.object) == "c"
    stream.close()


async def test_initial_events_of_the_future_are_refused_within_the_stream(bench: Bench) -> None:
    stream = await bench.watch(
        WIDGETS, resourceVersion="100000", sendInitialEvents="true", resourceVersionMatch="NotOlderThan"
    )
    with pytest.raises(errors.Timeout, match="Too large resource version: 100000, current: "):
        await stream.batch()
    stream.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param(
            {"sendInitialEvents": "true"},
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            id="initial events without a match",
        ),
        pytest.param(
            {"resourceVersionMatch": "Exact", "resourceVersion": "1"},
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            'provided, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
            id="two mistakes at once",
        ),
        pytest.param(
            {"continue": "x"},
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
            id="a watch has no pages",
        ),
    ],
)
async def test_options_that_do_not_go_together_are_refused(bench: Bench, options: dict[str, str], message: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        await bench.watch(WIDGETS, **options)
    assert refused.value.message == f'ListOptions.meta.k8s.io "" is invalid: {message}'


async def test_a_revision_that_is_no_number_is_the_clients_mistake(bench: Bench) -> None:
    expected = (
        'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": '
        "invalid syntax"
    )
    with pytest.raises(errors.BadRequest) as refused:
        await bench.watch(WIDGETS, resourceVersion="abc")
    assert (refused.value.code, refused.value.message) == (400, expected)


async def test_a_selected_object_comes_and_goes_with_its_labels(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, labelSelector="on=yes")
    await bench.create(WIDGETS, widget("a"))
    await bench.patch(WIDGETS, "a", {"metadata": {"labels": {"on": "yes"}}})
    await bench.patch(WIDGETS, "a", {"spec": {"size": 7}})
    await bench.patch(WIDGETS, "a", {"metadata": {"labels": {"on": "no"}}})
    await bench.patch(WIDGETS, "a", {"spec": {"size": 8}})
    await bench.create(WIDGETS, widget("b", labels={"on": "yes"}))
    await bench.delete(WIDGETS, "b")
    items = await take(stream, 5)
    stream.close()
    assert summary(items) == [
        ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("DELETED", "b"),
    ]  # fmt: skip
    assert objects.labels(items[2].object) == {"on": "yes"}
    assert items[2].object["metadata"]["resourceVersion"] > items[1].object["metadata"]["resourceVersion"]


@pytest.mark.parametrize("namespace", ["default", ""], ids=["of one namespace", "of all"])
async def test_a_watch_by_name_begins_with_the_objects_of_that_name(bench: Bench, namespace: str) -> None:
    for name in ("a", "b", "ab"):
        await bench.create(WIDGETS, widget(name))
    stream = await bench.watch(WIDGETS, namespace=namespace, fieldSelector="metadata.name=b")
    assert summary(await take(stream, 1)) == [("ADDED", "b")]
    absent = await bench.watch(WIDGETS, namespace=namespace, fieldSelector="metadata.name=c")
    await bench.create(WIDGETS, widget("c"))
    assert summary(await take(absent, 1)) == [("ADDED", "c")]


async def test_who_waits_for_one_object_does_not_go_through_all(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of each."""
    await bench.create(WIDGETS, widget("a"))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("all objects were looked at")

    monkeypatch.setattr(Store, "scan", refuse)
    stream = await bench.watch(WIDGETS, fieldSelector="metadata.name=a")
    assert summary(await take(stream, 1)) == [("ADDED", "a")]


async def test_a_watch_by_name(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, fieldSelector="metadata.name=b")
    for name in ("a", "b", "bb"):
        await bench.create(WIDGETS, widget(name))
    await bench.delete(WIDGETS, "b")
    assert summary(await take(stream, 2)) == [("ADDED", "b"), ("DELETED", "b")]
    stream.close()


async def test_a_watch_is_of_one_namespace_or_of_all(bench: Bench) -> None:
    await bench.create(NAMESPACES, make(NAMESPACES, "other"))
    here, everywhere = await bench.watch(WIDGETS), await bench.watch(WIDGETS, namespace="")
    await bench.create(WIDGETS, widget("b"), namespace="other")
    await bench.create(WIDGETS, widget("a"))
    assert summary(await take(here, 1)) == [("ADDED", "a")]
    assert summary(await take(everywhere, 2)) == [("ADDED", "b"), ("ADDED", "a")]
    here.close()
    everywhere.close()


async def test_other_representations_and_versions(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    partial = await bench.api.watch(make_call("watch", WIDGETS, representation="metadata"))
    table = await bench.api.watch(make_call("watch", WIDGETS, representation="table"))
    old = await bench.watch(OLD_WIDGETS)
    assert orjson.loads((await take(partial, 1))[0].encoded())["object"]["kind"] == "PartialObjectMetadata"
    assert orjson.loads((await take(table, 1))[0].encoded())["object"]["rows"][0]["cells"][0] == "a"
    item = (await take(old, 1))[0]
    assert item.object["apiVersion"] == "example.com/v1alpha1"
    assert orjson.loads(item.encoded())["object"]["apiVersion"] == "example.com/v1alpha1"
    for stream in (partial, table, old):
        stream.close()


async def test_initial_events_end_with_a_bookmark(bench: Bench) -> None:
    await bench.create(WIDGETS, widget("a"))
    stream = await bench.watch(
        WIDGETS, sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true"
    )
    items = await take(stream, 2)
    assert summary(items) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert objects.annotations(items[1].object) == {"k8s.io/initial-events-end": "true"}
    assert objects.resource_version(items[1].object) == str(bench.store.revision)
    await bench.create(WIDGETS, widget("b"))
    assert summary(await take(stream, 1)) == [("ADDED", "b")]
    stream.close()
    with pytest.raises(errors.Invalid):
        await bench.watch(WIDGETS, sendInitialEvents="true")
    with pytest.raises(errors.Invalid):
        await bench.watch(WIDGETS, resourceVersionMatch="NotOlderThan")


async def test_quiet_watchers_get_bookmarks_from_one_sweep(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SWEEP_SECONDS", 0.01)
    marked = await bench.watch(WIDGETS, allowWatchBookmarks="true")
    plain = await bench.watch(WIDGETS)
    await bench.create(PARTS, make(PARTS, "elsewhere"))
    items = await take(marked, 1)
    assert items[0].type == "BOOKMARK"
    assert items[0].object["kind"] == "Widget"
    while objects.resource_version(items[0].object) != str(bench.store.revision):
        items = await take(marked, 1)
    await bench.create(WIDGETS, widget("a"))
    assert summary(await take(plain, 1)) == [("ADDED", "a")]
    marked.close()
    plain.close()


async def test_a_watch_ends_when_its_time_is_over(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, timeoutSeconds="1", allowWatchBookmarks="true")
    async with asyncio.timeout(60):
        assert [item.type async for item in stream] == []


async def test_two_seconds_before_its_end_a_watch_tells_how_far_it_came(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, timeoutSeconds="3", allowWatchBookmarks="true")
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(60):
        (bookmark,) = await take(stream, 1)
        assert bookmark.type == "BOOKMARK"
        assert asyncio.get_running_loop().time() - started < 2.5
        assert [item.type async for item in stream] == []


async def test_watches_end_with_the_server(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS)
    waiting = asyncio.create_task(stream.batch())
    await asyncio.sleep(0)
    await bench.api.close()
    assert await waiting == []


async def test_many_events_come_in_one_batch(bench: Bench) -> None:
    stream = await bench.watch(WIDGETS, resourceVersion=str(bench.store.revision))
    await asyncio.gather(*(bench.create(WIDGETS, widget(f"w{index}")) for index in range(50)))
    assert len(await stream.batch()) == 50
    stream.close()


async def test_a_batch_is_made_once_for_all_who_watch_the_same(bench: Bench) -> None:
    now = str(bench.store.revision)
    alike = [await bench.watch(WIDGETS, resourceVersion=now) for _ in range(2)]
    other = await bench.watch(WIDGETS, resourceVersion=now, labelSelector="chosen")
    await bench.create(WIDGETS, widget("a"))
    await bench.create(WIDGETS, widget("b", labels={"chosen": ""}))
    first, second = [await stream.batch() for stream in alike]
    assert first is second
    assert [objects.name(item.object) for item in first] == ["a", "b"]
    assert [objects.name(item.object) for item in await other.batch()] == ["b"]
    for stream in (*alike, other):
        stream.close()


async def test_what_was_told_of_large_objects_is_not_kept(bench: Bench) -> None:
    """Whoever writes large objects would fill the memory with them, as text, and more so parsed."""
    many = {f"a{number}": "" for number in range(3000)}
    stream = await bench.watch(WIDGETS, resourceVersion=str(bench.store.revision))
    names = [f"large{index}" for index in range(40)]
    for name in names:
        await bench.create(WIDGETS, widget(name, annotations={**many, "x": "x" * 200_000}))
        assert [objects.name(item.object) for item in await take(stream, 1)] == [name]
    gc.collect()
    assert sum(_is_large(each) for each in gc.get_objects()) < 10
    for name in names:
        await bench.delete(WIDGETS, name)
    assert [objects.name(item.object) for item in await take(stream, 40)] == names
    stream.close()
    gc.collect()
    records = [each for each in gc.get_objects() if isinstance(each, Record) and "/large" in each.key]
    assert sum(len(each.value_at_hand or b"") for each in records) < 10 * 1024 * 1024


def _is_large(value: Any) -> bool:
    annotations = objects.mapping(cast(Any, value).get("annotations")) if type(value) is dict else {}
    return len(annotations) > 3000
