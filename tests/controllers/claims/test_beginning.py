"""The controllers of claims are made with the first claim."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from steelyard.controllers.claims import beginning
from steelyard.kube.client.local import LocalClient
from steelyard.kube.resources import CONFIG_MAPS, SECRETS
from steelyard.kube.runtime.controller import Controller, Result
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.runtime.metrics import Metrics
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.kube.runtime.memory import config_map


async def test_they_are_made_once_and_look_at_claims_of_every_kind(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    client = LocalClient(api)
    manager = Manager(client, metrics=Metrics(CollectorRegistry()))
    seen: asyncio.Queue[tuple[str, Key]] = asyncio.Queue()
    made: list[str] = []

    class Reconciler:
        def __init__(self, kind: str) -> None:
            self._kind = kind

        async def reconcile(self, key: Key) -> Result:
            seen.put_nowait((self._kind, key))
            return Result()

    def make() -> Sequence[Controller]:
        made.append("all")
        return [Controller(each.plural, each, Reconciler(each.plural)) for each in (CONFIG_MAPS, SECRETS)]

    beginning.with_the_first(manager, (CONFIG_MAPS, SECRETS), make)
    running = asyncio.create_task(manager.run())
    try:
        async with asyncio.timeout(60):
            await manager.ready.wait()
            await manager.idle()
            assert (made, manager.controllers) == ([], [])
            await client.create(SECRETS, {**config_map("a"), "kind": "Secret"})
            assert await seen.get() == ("secrets", Key("default", "a"))
            await client.create(CONFIG_MAPS, config_map("b"))
            assert await seen.get() == ("configmaps", Key("default", "b"))
        assert made == ["all"]
    finally:
        manager.stop()
        async with asyncio.timeout(60):
            await running
        await api.close()
        await store.close()
