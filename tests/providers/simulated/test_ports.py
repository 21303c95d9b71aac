"""Which cluster a port belongs to, across a restart and against the will of whoever writes another's into an object."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import pytest

from steelyard.api.clusterapi import definitions
from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.api.resources import SIMULATED_CLUSTERS
from steelyard.compose import offering
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.api import Api
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.store.store import Store
from steelyard.providers.simulated import clusters, unit
from steelyard.providers.simulated.machines import Delays


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(tmp_path / "store.db", fsync=False)
    yield opened
    await opened.close()


@pytest.fixture
async def client(store: Store) -> AsyncIterator[Client]:
    api = await Api.start(store)
    client = LocalClient(api)
    for crd in [*offering.STANDARD.definitions("steelyard.dev"), *definitions.crds()]:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    yield client
    await api.close()


@contextlib.asynccontextmanager
async def running(store: Store, client: Client) -> AsyncGenerator[Hosting]:
    """One life of the provider."""
    hosting = Hosting(store, host="127.0.0.1", clock=clocks.SYSTEM)
    await clusters.recall(client, hosting)
    manager = Manager(client)
    for controller in unit.controllers(manager, hosting, Delays()):
        manager.add(controller)
    task = asyncio.create_task(manager.run())
    try:
        await asyncio.wait_for(manager.ready.wait(), 20)
        yield hosting
    finally:
        manager.stop()
        await task
        await hosting.close()


async def create(client: Client, name: str, port: int = 0) -> None:
    reference = {"apiGroup": SIMULATED_CLUSTERS.group, "kind": SIMULATED_CLUSTERS.kind, "name": name}
    metadata: Object = {"name": name, "namespace": "default"}
    cluster = await client.create(CLUSTERS, made(CLUSTERS, metadata, {"infrastructureRef": reference}))
    owner = objects.owner_reference(cluster, controller=True, block_owner_deletion=True)
    spec: Object = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": port}} if port else {}
    await client.create(SIMULATED_CLUSTERS, made(SIMULATED_CLUSTERS, {**metadata, "ownerReferences": [owner]}, spec))


def made(resource: Resource, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def until(client: Client, name: str, check: Callable[[Object], bool]) -> Object:
    async with asyncio.timeout(60):
        while True:
            found = await client.get(SIMULATED_CLUSTERS, name, "default")
            if check(found):
                return found
            await asyncio.sleep(0.02)


async def verdict(client: Client, name: str) -> Object:
    return await until(client, name, lambda found: bool(conditions.find(found, "Ready")))


def port_of(infrastructure: Object) -> int:
    return int(objects.at(infrastructure, "spec", "controlPlaneEndpoint", "port") or 0)


async def test_cluster_made_right_after_a_restart_takes_no_port_of_an_older_one(store: Store, client: Client) -> None:
    async with running(store, client):
        await create(client, "old")
        port = port_of(await verdict(client, "old"))
    hosting = Hosting(store, host="127.0.0.1", clock=clocks.SYSTEM)
    try:
        await clusters.recall(client, hosting)
        for _ in range(20):
            assert await hosting.reserve(str(uuid.uuid4())) != port
        # Whoever starts the server, be it its machine before its cluster: it is the port that clients know.
        old = await client.get(SIMULATED_CLUSTERS, "old", "default")
        assert await hosting.reserve(objects.uid(old)) == port
    finally:
        await hosting.close()


async def test_port_of_another_cluster_is_refused_with_what_to_do(store: Store, client: Client) -> None:
    async with running(store, client):
        await create(client, "one")
        port = port_of(await verdict(client, "one"))
        await create(client, "two", port)
        two = await verdict(client, "two")
        assert conditions.reason_of(two, "Ready") == "PortTaken"
        assert f"port {port} belongs to another cluster; leave spec" in conditions.message_of(two, "Ready")
    async with running(store, client):
        two = await verdict(client, "two")
        assert conditions.reason_of(two, "Ready") == "PortTaken"
        await client.patch(SIMULATED_CLUSTERS, "two", {"spec": {"controlPlaneEndpoint": None}}, "default")
        two = await until(client, "two", lambda found: conditions.is_true(found, "Ready"))
        assert port_of(two) not in (0, port)


async def test_what_the_cluster_says_counts_over_what_was_written_into_its_infrastructure(
    store: Store, client: Client
) -> None:
    async with running(store, client):
        await create(client, "one")
        await create(client, "two")
        ports = [port_of(await verdict(client, name)) for name in ("one", "two")]
    for name, port in zip(("one", "two"), ports, strict=True):
        endpoint = {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": port}}}
        await client.patch(CLUSTERS, name, endpoint, "default")
    stolen = {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": ports[1]}}}
    await client.patch(SIMULATED_CLUSTERS, "one", stolen, "default")
    async with running(store, client):
        await until(client, "one", lambda found: port_of(found) == ports[0])
        assert port_of(await verdict(client, "two")) == ports[1]
