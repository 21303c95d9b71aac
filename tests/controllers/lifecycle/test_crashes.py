"""Controllers that die after every single write: the same cluster in the end, no machine doubled, nothing leaked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from steelyard.api import resources as simulated
from steelyard.api.clusterapi import resources as capi
from steelyard.controllers import lifecycle
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.manager import Manager
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import NAMESPACE, World

_WRITES = frozenset({"create", "update", "patch", "apply", "delete"})
_LIVES = 600


class Mortal:
    """A client whose process dies once it has made so many writes: the last one lands, its answer never arrives."""

    def __init__(self, client: Client, writes: int) -> None:
        self._client = client
        self._left = writes
        self._one_at_a_time = asyncio.Lock()
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return self._mortal(method) if name in _WRITES else method

    def _mortal(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **options: Any) -> Any:
            async with self._one_at_a_time:
                if not self.died.is_set():
                    answer = await method(*arguments, **options)
                    self._left -= 1
                    if self._left > 0:
                        return answer
                    self.died.set()
            return await asyncio.get_running_loop().create_future()

        return write


async def live(world: World, providers: Manager, writes: int) -> bool:
    """One life of the controllers; False when they found nothing left to do."""
    mortal: Any = Mortal(world.client, writes)
    manager = Manager(mortal)
    for controller in lifecycle.controllers(manager, connect=world.connect):
        manager.add(controller)
    task = asyncio.create_task(manager.run())
    dying = asyncio.create_task(mortal.died.wait())
    resting = asyncio.create_task(at_rest(manager, providers))
    try:
        await asyncio.wait((dying, resting), timeout=worlds.DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        assert dying.done() or resting.done(), "the controllers neither rest nor write"
    finally:
        for each in (dying, resting, task):
            each.cancel()
        await asyncio.wait((dying, resting, task))
    await providers.idle(settle=0.005)
    return bool(mortal.died.is_set())


async def at_rest(manager: Manager, providers: Manager) -> None:
    while True:
        await manager.idle(within=1.0, settle=0.03)
        await providers.idle(settle=0.01)
        before = [controller.queue.adds for controller in manager.controllers]
        await manager.idle(within=1.0, settle=0.03)
        if before == [controller.queue.adds for controller in manager.controllers]:
            return


async def live_until_done(world: World, providers: Manager, writes: int) -> int:
    for lives in range(_LIVES):
        if not await live(world, providers, writes):
            return lives
    raise AssertionError("the controllers never come to rest")


async def identities(world: World, resource: Resource) -> dict[str, str]:
    return {objects.uid(obj): objects.name(obj) for obj in await world.all(resource)}


@pytest.mark.parametrize("writes", [1, 4], ids=lambda writes: f"each-life-makes-{writes}-writes")
async def test_dying_after_every_write_ends_in_the_same_cluster(world: World, writes: int) -> None:
    ever: dict[Resource, dict[str, str]] = {capi.MACHINES: {}, simulated.SIMULATED_MACHINES: {}, capi.MACHINE_SETS: {}}

    async def remember() -> None:
        for resource, seen in ever.items():
            seen.update(await identities(world, resource))

    async with worlds.infrastructure(world) as providers:
        await worlds.create(world, worlds.cluster_objects())
        await live_until_done(world, providers, writes)
        await remember()
        assert await worlds.is_settled(world, machines=2)
        for replicas, machines in ((3, 6), (1, 2)):
            for resource in (capi.KUBEADM_CONTROL_PLANES, capi.MACHINE_DEPLOYMENTS):
                await world.client.patch(resource, "c", {"spec": {"replicas": replicas}}, NAMESPACE)
            await live_until_done(world, providers, writes)
            await remember()
            assert await worlds.is_settled(world, machines=machines)
            made = set(await world.names(capi.MACHINES))
            assert set(await world.names(simulated.SIMULATED_MACHINES)) == made
            assert set(await world.names(capi.KUBEADM_CONFIGS)) == made
        assert len(ever[capi.MACHINES]) == 6, "a machine was made twice"
        assert len(ever[simulated.SIMULATED_MACHINES]) == 6
        assert len(ever[capi.MACHINE_SETS]) == 1
        assert world.booted["c"] == 6
        await world.client.delete(capi.CLUSTERS, "c", NAMESPACE)
        await live_until_done(world, providers, writes)
        left = [name for name in await world.left() if not name.startswith("ConfigMap/kube-root")]
        assert left == []
