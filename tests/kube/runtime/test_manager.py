"""Controllers that run together: what holds up one of them holds up no other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from steelyard.kube import errors
from steelyard.kube.client.interface import ObjectList
from steelyard.kube.client.local import LocalClient
from steelyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from steelyard.kube.runtime.controller import Controller, Result
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.runtime.metrics import Metrics
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.runtime.memory import config_map


class CannotReadSecrets(LocalClient):
    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        if resource == SECRETS:
            raise errors.InternalError("the disk is slow")
        return await super().list(resource, namespace, **options)


class Seen:
    def __init__(self) -> None:
        self.keys: asyncio.Queue[Key] = asyncio.Queue()

    async def reconcile(self, key: Key) -> Result:
        self.keys.put_nowait(key)
        return Result()


async def test_a_kind_that_cannot_be_read_holds_up_only_who_needs_it(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    client = CannotReadSecrets(api)
    manager = Manager(client, metrics=Metrics(CollectorRegistry()))
    works, waits = Seen(), Seen()
    manager.add(Controller("works", CONFIG_MAPS, works))
    manager.add(Controller("waits", SECRETS, waits))
    running = asyncio.create_task(manager.run())
    try:
        await client.create(CONFIG_MAPS, config_map("a"))
        async with asyncio.timeout(60):
            assert await works.keys.get() == Key("default", "a")
        assert not manager.ready.is_set()
        assert manager.problem() is not None
    finally:
        manager.stop()
        async with asyncio.timeout(60):
            await running
        await api.close()
        await store.close()


async def test_a_controller_that_comes_later_finds_what_is_there(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    client = LocalClient(api)
    manager = Manager(client, metrics=Metrics(CollectorRegistry()))
    first, later, of_secrets = Seen(), Seen(), Seen()
    manager.add(Controller("first", CONFIG_MAPS, first))
    running = asyncio.create_task(manager.run())
    try:
        await client.create(CONFIG_MAPS, config_map("a"))
        await client.create(SECRETS, {**config_map("b"), "kind": "Secret"})
        async with asyncio.timeout(60):
            assert await first.keys.get() == Key("default", "a")
            manager.add(Controller("later", CONFIG_MAPS, later))
            manager.add(Controller("of-secrets", SECRETS, of_secrets))
            assert await later.keys.get() == Key("default", "a")
            assert await of_secrets.keys.get() == Key("default", "b")
            await client.create(CONFIG_MAPS, config_map("c"))
            assert await later.keys.get() == Key("default", "c")
    finally:
        manager.stop()
        async with asyncio.timeout(60):
            await running
        manager.add(Controller("too-late", CONFIG_MAPS, Seen()))
        await api.close()
        await store.close()
