"""Events: one thing under two names, and gone after a while."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, Resource
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.server.bench import Bench, Clock, eventually, summary, take

NEW_EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
MOMENT = "2026-01-01T00:00:00.000000Z"


def old(name: str, **more: Any) -> Object:
    involved = {"kind": "ConfigMap", "namespace": "default", "name": "x"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": involved, **more}


def new(name: str, **more: Any) -> Object:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": MOMENT,
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
        "action": "Looking",
        "reason": "Odd",
        "type": "Normal",
        "regarding": {"kind": "ConfigMap", "namespace": "default", "name": "x"},
        **more,
    }


async def test_an_event_of_one_group_is_an_event_of_the_other(bench: Bench) -> None:
    await bench.create(EVENTS, old("a", message="it is odd", count=3, source={"component": "me"}))
    shown = await bench.get(NEW_EVENTS, "a")
    assert (shown["note"], shown["deprecatedCount"], shown["deprecatedSource"]) == ("it is odd", 3, {"component": "me"})
    assert shown["regarding"]["name"] == "x"
    assert shown["apiVersion"] == "events.k8s.io/v1"
    await bench.create(NEW_EVENTS, new("b", note="so be it"))
    assert (await bench.get(EVENTS, "b"))["message"] == "so be it"
    assert await bench.names(EVENTS) == await bench.names(NEW_EVENTS) == ["a", "b"]
    await bench.delete(NEW_EVENTS, "a")
    assert await bench.names(EVENTS) == ["b"]


async def test_watchers_of_either_group_see_every_change(bench: Bench) -> None:
    streams = [await bench.watch(EVENTS), await bench.watch(NEW_EVENTS)]
    await bench.create(EVENTS, old("a", message="one"))
    await bench.patch(EVENTS, "a", {"message": "two"})
    await bench.delete(NEW_EVENTS, "a")
    seen = [await take(stream, 3) for stream in streams]
    for items in seen:
        assert summary(items) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert [item.object["message"] for item in seen[0]] == ["one", "two", "two"]
    assert [item.object["note"] for item in seen[1]] == ["one", "two", "two"]
    for stream in streams:
        stream.close()


WRONG: list[tuple[str, Resource, Object, str]] = [
    ("about another namespace", EVENTS, old("a", involvedObject={"namespace": "b"}), "does not match event.namespace"),
    ("without who reports it", EVENTS, old("a", eventTime=MOMENT), "reportingComponent: Required value"),
    ("without a time", NEW_EVENTS, new("a", eventTime=None), "eventTime: Required value"),
    ("of no type", NEW_EVENTS, new("a", type="Odd"), 'type: Invalid value: "": has invalid value: Odd'),
    ("with a field of old", NEW_EVENTS, new("a", deprecatedCount=1), 'count: Invalid value: "": needs to be unset'),
    ("a series of one", NEW_EVENTS, new("a", series={"count": 1}), "series.count: Invalid value"),
    ("with too long a reason", NEW_EVENTS, new("a", reason="x" * 129), "can have at most 128 characters"),
    ("with a name of its own kind", NEW_EVENTS, new("A_b"), "metadata.name: Invalid value"),
]


@pytest.mark.parametrize("resource,body,told", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
async def test_events_that_are_refused(bench: Bench, resource: Resource, body: Object, told: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        await bench.create(resource, body)
    assert caught.value.message.startswith(f'Event "{objects.name(body)}" is invalid: ')
    assert told in caught.value.message


async def test_an_old_event_may_have_almost_any_name(bench: Bench) -> None:
    assert objects.name(await bench.create(EVENTS, old("A_b"))) == "A_b"


async def test_what_an_event_of_today_says_stays_said(bench: Bench) -> None:
    await bench.create(NEW_EVENTS, new("a", note="n"))
    with pytest.raises(errors.Invalid, match='message: Invalid value: "other": field is immutable'):
        await bench.patch(NEW_EVENTS, "a", {"note": "other"})
    series = {"series": {"count": 2, "lastObservedTime": MOMENT}}
    assert (await bench.patch(NEW_EVENTS, "a", series))["series"]["count"] == 2
    assert (await bench.patch(EVENTS, "a", {"message": "other"}))["message"] == "other"


async def test_events_are_selected_by_either_names(bench: Bench) -> None:
    await bench.create(EVENTS, old("a", source={"component": "me"}))
    await bench.create(EVENTS, old("b", reportingComponent="you"))
    assert await bench.names(EVENTS, fieldSelector="source=me") == ["a"]
    assert await bench.names(EVENTS, fieldSelector="source=you") == ["b"]
    assert await bench.names(NEW_EVENTS, fieldSelector="regarding.name=x,reportingController=you") == ["b"]
    with pytest.raises(errors.BadRequest, match="field label not supported: source"):
        await bench.names(NEW_EVENTS, fieldSelector="source=me")


async def test_an_update_creates_an_event_that_is_not_there(bench: Bench) -> None:
    reply = await bench.call("update", EVENTS, "a", body=old("a"))
    assert reply.code == 201
    with pytest.raises(errors.Conflict, match=r"UID in object meta: $"):
        await bench.update(EVENTS, {**old("b"), "metadata": {"name": "b", "uid": "1"}})


async def test_an_event_goes_when_nobody_wrote_it_for_a_while(store: Store) -> None:
    api = await Api.start(store, event_ttl=timedelta(seconds=0.3))
    bench = Bench(api, Clock(), store)
    stream = await bench.watch(EVENTS)
    await bench.create(EVENTS, old("a"))
    await bench.create(EVENTS, old("b"))
    assert summary(await take(stream, 4)) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("DELETED", "b")]
    stream.close()
    revision = store.revision
    await asyncio.sleep(0.4)
    assert store.revision == revision, "an idle server writes nothing"
    await api.close()


async def test_an_event_that_is_written_again_stays_longer(store: Store) -> None:
    api = await Api.start(store, event_ttl=timedelta(seconds=2))
    bench = Bench(api, Clock(), store)
    await bench.create(EVENTS, old("a"))
    await asyncio.sleep(1.1)
    await bench.patch(EVENTS, "a", {"count": 2})
    await asyncio.sleep(1.1)
    assert await bench.exists(EVENTS, "a")

    async def is_gone() -> bool:
        return not await bench.exists(EVENTS, "a")

    await eventually(is_gone)
    await api.close()


async def test_what_went_out_of_date_while_the_server_was_down_goes_at_start(store: Store) -> None:
    clock = Clock()
    first = await Api.start(store, now=clock)
    bench = Bench(first, clock, store)
    await bench.create(EVENTS, old("a"))
    clock.advance(1800)
    await bench.create(EVENTS, old("b"))
    await first.close()
    clock.advance(2000)
    bench = Bench(await Api.start(store, now=clock), clock, store)

    async def is_gone() -> bool:
        return await bench.names(EVENTS) == ["b"]

    await eventually(is_gone)
    await bench.api.close()
