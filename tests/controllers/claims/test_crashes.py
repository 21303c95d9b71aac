"""The controller may die before or after any write it makes: the next one comes to the same end, forgetting nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from steelyard.compose import names
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import CLAIMS, COMPOSED, NAMESPACE, Stage

_WRITES = ("create", "update", "patch", "apply", "delete")


class Dying:
    """Hands every call on to the client until the chosen write; then nothing is answered any more."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.writes_left = -1
        self.answer_is_lost = False
        self.died = asyncio.Event()

    def die_after(self, writes: int, *, answer_is_lost: bool) -> None:
        self.writes_left = writes
        self.answer_is_lost = answer_is_lost
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name not in _WRITES:
            return call

        async def counted(*arguments: Any, **options: Any) -> Any:
            if self.writes_left == 0:
                if self.answer_is_lost and not self.died.is_set():
                    await call(*arguments, **options)
                self.died.set()
                await asyncio.Event().wait()
            if self.writes_left > 0:
                self.writes_left -= 1
            return await call(*arguments, **options)

        return counted


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncGenerator[tuple[Stage, Dying]]:
    async with stages.opened(tmp_path) as stage:
        await stage.crash()
        healthy = stage.client
        dying = Dying(healthy)
        controlled = Stage(stage.store, stage.api, healthy, stage.platform)
        controlled.client_of_controller = cast(Client, dying)
        yield controlled, dying
        await controlled.crash()


@pytest.mark.parametrize("answer_is_lost", [False, True], ids=["before the write", "after the write"])
async def test_dying_at_any_write_loses_nothing(mortal: tuple[Stage, Dying], answer_is_lost: bool) -> None:
    stage, dying = mortal
    tried = 0
    for writes in range(100):
        name = f"c{writes}"
        dying.die_after(writes, answer_is_lost=answer_is_lost)
        await stage.start()
        body: Object = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"parameters": {"environment": "dev"}, "writeConnectionSecretToRef": {"name": f"{name}-copy"}},
        }
        await stage.client.create(CLAIMS, body)
        has_died = await _settled_or_died(stage, dying)
        await stage.crash()
        await _assert_everything_is_recorded(stage, name)
        dying.die_after(-1, answer_is_lost=False)
        await stage.start()
        await stage.settle()
        await stage.becomes_ready(name)
        assert (await stage.condition("Ready", name))[0] == "True"

        dying.die_after(writes, answer_is_lost=answer_is_lost)
        await stage.client.delete(CLAIMS, name, NAMESPACE)
        has_died |= await _settled_or_died(stage, dying)
        await stage.crash()
        dying.die_after(-1, answer_is_lost=False)
        await stage.start()
        await stage.settle()
        assert await stage.find(CLAIMS, name) is None
        assert await stage.objects_of() == []
        await stage.crash()
        if not has_died:
            break
        tried += 1
    print(f"died at {tried} writes")
    assert tried >= 9, "finalizer, inventory, seven objects and the status are at least that many"


async def _settled_or_died(stage: Stage, dying: Dying) -> bool:
    settled = asyncio.ensure_future(stage.settle())
    died = asyncio.ensure_future(dying.died.wait())
    await asyncio.wait((settled, died), return_when=asyncio.FIRST_COMPLETED)
    for task in (settled, died):
        task.cancel()
    return dying.died.is_set()


async def _assert_everything_is_recorded(stage: Stage, name: str) -> None:
    """What exists without standing in the inventory would be left behind by a claim that changes or goes."""
    claim = await stage.get(name)
    recorded = {
        (entry["kind"], entry["namespace"], entry["name"])
        for entry in map(objects.mapping, objects.sequence(objects.at(claim, "status", "inventory")))
    }
    for resource in (*COMPOSED, SECRETS):
        for obj in (await stage.client.list(resource)).items:
            if objects.labels(obj).get(names.CLAIM_NAME) == name:
                assert (resource.kind, objects.namespace(obj), objects.name(obj)) in recorded
