"""What caches keep and what is read from the server instead: objects of a label, and large ones; on the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NODES, SECRETS, Resource
from steelyard.kube.runtime import outlines, triggers
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.client import transports
from tests.kube.runtime.memory import config_map

OURS = "example.org/ours"
LARGE = {f"key-{number}": "value" for number in range(500)}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Client]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    async with transports.local(api) as client:
        yield client
    await api.close()
    await store.close()


@asynccontextmanager
async def running(server: Client, informers: Informers) -> AsyncGenerator[CachedClient]:
    task = asyncio.create_task(informers.run())
    async with asyncio.timeout(60):
        await informers.wait_synced()
    try:
        yield CachedClient(server, informers)
    finally:
        task.cancel()
        await asyncio.wait([task])


def labelled(name: str) -> Object:
    obj = config_map(name)
    obj["metadata"]["labels"] = {OURS: "yes"}
    return obj


async def test_an_informer_of_a_label_knows_no_others_and_they_are_read_all_the_same(server: Client) -> None:
    informers = Informers(server)
    informer = informers.of(CONFIG_MAPS, label=OURS)
    await server.create(CONFIG_MAPS, config_map("theirs"))
    async with running(server, informers) as client:
        await client.create(CONFIG_MAPS, labelled("ours"))
        assert [objects.name(each) for each in informer.list()] == ["ours"]
        assert objects.name(await client.get(CONFIG_MAPS, "theirs", "default")) == "theirs"
        assert objects.name(await client.get(CONFIG_MAPS, "ours", "default")) == "ours"
        assert {objects.name(each) for each in (await client.list(CONFIG_MAPS, "default")).items} >= {"ours", "theirs"}
        await client.delete(CONFIG_MAPS, "ours", "default")
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, "ours", "default")
        assert informer.list() == []


async def test_who_needs_all_of_a_kind_shares_the_informer_with_who_needs_those_of_a_label(server: Client) -> None:
    informers = Informers(server)
    of_label = informers.of(CONFIG_MAPS, label=OURS, optional=True)
    assert informers.of(CONFIG_MAPS) is of_label
    assert (of_label.label, of_label.is_optional) == ("", False)
    assert informers.of(CONFIG_MAPS, label=OURS) is of_label
    assert informers.all == [of_label]


async def test_of_a_large_object_a_cache_keeps_who_it_is_and_its_reader_gets_all_of_it(server: Client) -> None:
    informers = Informers(server)
    informer = informers.of(CONFIG_MAPS)
    told: list[bool] = []
    async with running(server, informers) as client:
        await client.create(CONFIG_MAPS, {**labelled("large"), "data": LARGE})
        informer.on_change(lambda old, new: told.append(triggers.changed(("data",))(old, new)) if old else None)
        kept = informer.get("default", "large")
        assert kept is not None
        assert outlines.is_one(kept)
        assert objects.labels(kept) == {OURS: "yes"}
        assert len(str(kept)) < 2000
        assert (await client.get(CONFIG_MAPS, "large", "default"))["data"] == LARGE
        assert {len(each.get("data", {})) for each in (await client.list(CONFIG_MAPS, "default")).items} >= {500}
        await client.patch(CONFIG_MAPS, "large", {"data": {"key-1": "other"}}, "default")
        assert told == [True]
        assert (await client.get(CONFIG_MAPS, "large", "default"))["data"]["key-1"] == "other"


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        pytest.param(SECRETS, True, id="people-fill-secrets-with-what-they-like"),
        pytest.param(NODES, False, id="nodes-are-found-by-what-is-in-them"),
        pytest.param(Resource("cluster.x-k8s.io", "v1beta2", "machines", "Machine"), False, id="machines-are-ours"),
    ],
)
def test_kinds_that_people_fill_are_kept_in_outline(resource: Resource, expected: bool) -> None:
    assert outlines.concern(resource) is expected
