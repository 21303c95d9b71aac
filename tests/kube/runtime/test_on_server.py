"""The runtime on the real server, with both clients: what a controller does for a living."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS
from steelyard.kube.runtime import finalizers, mapping
from steelyard.kube.runtime.controller import Controller, Result, Watch
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.runtime.metrics import Metrics
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.client import transports
from tests.kube.runtime.memory import config_map

FINALIZER = "example.org/mirror"


class Mirror:
    """Keeps a Secret with the same data for each ConfigMap, and takes it away before the ConfigMap goes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key) -> Result:
        client = self._client
        try:
            source = await client.get(CONFIG_MAPS, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        if objects.is_being_deleted(source):
            try:
                await client.delete(SECRETS, key.name, key.namespace)
            except errors.NotFound:
                await finalizers.remove(client, CONFIG_MAPS, source, FINALIZER)
            return Result()
        source = await finalizers.ensure(client, CONFIG_MAPS, source, FINALIZER)
        wanted: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "ownerReferences": [objects.owner_reference(source, controller=True)],
            },
            "stringData": source["data"],
        }
        try:
            secret = await client.get(SECRETS, key.name, key.namespace)
        except errors.NotFound:
            await client.create(SECRETS, wanted)
            return Result()
        if len(secret["data"]) != len(source["data"]):
            await client.apply(SECRETS, wanted, field_manager="mirror")
        return Result()


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


@asynccontextmanager
async def mirroring(client: Client) -> AsyncGenerator[Manager]:
    manager = Manager(client, metrics=Metrics(CollectorRegistry()))
    watches = [Watch(SECRETS, mapping.to_owner(CONFIG_MAPS, controller_only=True))]
    manager.add(Controller("mirror", CONFIG_MAPS, Mirror(manager.client), watches, workers=4))
    running = asyncio.create_task(manager.run())
    async with asyncio.timeout(60):
        await manager.ready.wait()
    try:
        yield manager
    finally:
        manager.stop()
        await asyncio.wait_for(running, 60)


async def names(client: Client) -> list[str]:
    return [objects.name(item) for item in (await client.list(SECRETS, "default")).items]


async def test_controller_brings_about_what_is_wanted_and_then_writes_nothing(client: Client, store: Store) -> None:
    for number in range(10):
        await client.create(CONFIG_MAPS, config_map(f"early-{number}", x="1"))
    async with mirroring(client) as manager, asyncio.timeout(60):
        for number in range(10):
            await client.create(CONFIG_MAPS, config_map(f"late-{number}", x="1"))
        await manager.idle(settle=0.1)
        assert len(await names(client)) == 20

        await client.delete(SECRETS, "early-3", "default")
        await client.patch(CONFIG_MAPS, "late-3", {"data": {"y": "2"}}, "default")
        await manager.idle(settle=0.1)
        assert len(await names(client)) == 20
        assert len((await client.get(SECRETS, "late-3", "default"))["data"]) == 2

        revision = store.revision
        await asyncio.sleep(0.2)
        assert store.revision == revision

        await client.delete_collection(CONFIG_MAPS, "default")
        await manager.idle(settle=0.1)
        assert await names(client) == []
        assert (await client.list(CONFIG_MAPS, "default")).items == []
        assert manager.informers.of(CONFIG_MAPS).list() == []


async def test_new_process_carries_on_where_the_old_one_was_cancelled(client: Client) -> None:
    for number in range(30):
        await client.create(CONFIG_MAPS, config_map(f"c-{number}", x="1"))
    crashed = Manager(client, metrics=Metrics(CollectorRegistry()))
    crashed.add(Controller("mirror", CONFIG_MAPS, Mirror(crashed.client), workers=4))
    running = asyncio.create_task(crashed.run())
    await crashed.ready.wait()
    await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.wait([running])
    async with mirroring(client) as manager, asyncio.timeout(60):
        await manager.idle(settle=0.1)
        assert len(await names(client)) == 30


async def test_informer_catches_up_after_the_server_was_away(api: Api) -> None:
    listener = await transports.listen(api)
    client = transports.client_of(listener)
    informer = Informer(client, CONFIG_MAPS)
    arrived = asyncio.Event()
    informer.on_change(lambda old, new: arrived.set() if new and objects.name(new) == "meanwhile" else None)
    running = asyncio.create_task(informer.run())
    async with transports.local(api) as local, asyncio.timeout(60):
        await informer.synced.wait()
        await listener.close()
        await local.create(CONFIG_MAPS, config_map("meanwhile"))
        listener = await transports.listen(api, listener.port)
        await arrived.wait()
    running.cancel()
    await asyncio.wait([running])
    await client.close()
    await listener.close()
