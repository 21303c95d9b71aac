"""Two platforms, each with its API and controllers, and one world of simulated machines that belongs to neither.

The provider of simulated machines runs for itself, as it would on a host of machines, and is told whose API to look at:
its folder holds the machines, whoever's objects stand for them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from steelyard import app, settings
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.api.resources import SIMULATED_MACHINES
from steelyard.frozen import frozen
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, SECRETS
from steelyard.kube.runtime.leadership import Terms
from steelyard.management import running
from steelyard.moving import rewriting
from tests.harness import INSTANT

DEADLINE: Final = 120.0
PATIENT: Final = Terms(valid=600.0, renew_within=500.0)
"""A test that stands still for a while still has its move; what is killed within a test gives it back."""


@frozen
class Side:
    client: Client
    """The administrator's, for looking."""
    mover: HttpClient
    connection: Connection
    kubeconfig: Path


@contextlib.asynccontextmanager
async def side(
    folder: Path, *, without: frozenset[str] = frozenset(("simulated",)), platform: str = INSTANT
) -> AsyncGenerator[Side]:
    where = DataDir(folder / "data")
    options = app.Options(where, "127.0.0.1", 0, settings.parse(platform), without=without)
    async with app.started(options) as here:
        connection = kubeconfigs.load(where.kubeconfig).resolve()
        mover = HttpClient(connection, field_manager=rewriting.FIELD_MANAGER)
        try:
            yield Side(here.client, mover, connection, where.kubeconfig)
        finally:
            await mover.close()


@contextlib.asynccontextmanager
async def machines(world: Path, of: Side) -> AsyncGenerator[None]:
    """The machines of this folder, as the objects of this API want them."""
    options = running.Options(
        ("simulated",),
        of.connection,
        "default",
        platform=settings.parse(INSTANT),
        data_dir=DataDir(world),
        elects=False,
    )
    async with running.started(options) as here:
        await asyncio.wait(
            (asyncio.ensure_future(here.leading.wait()), here.working), return_when=asyncio.FIRST_COMPLETED
        )
        if here.working.done():
            here.working.result()
        yield


async def eventually(look: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> Any:
    found: Any = None
    try:
        async with asyncio.timeout(DEADLINE):
            while True:
                with contextlib.suppress(errors.ApiError):
                    found = await look()
                    if holds(found):
                        return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"never so; last: {found}") from None


async def seen(client: Client, cluster: str, namespace: str = "default") -> Object:
    """What must be the same after a move: what the machines and the cluster themselves would notice."""
    found: Object = {
        "machines": {
            objects.name(each): objects.at(each, "spec", "providerID") for each in await _of(client, MACHINES)
        },
        "addresses": {
            objects.name(each): objects.at(each, "status", "addresses")
            for each in await _of(client, SIMULATED_MACHINES)
        },
        "nodes": await nodes(client, cluster, namespace),
    }
    for purpose in ("ca", "etcd", "sa", "proxy", "kubeconfig"):
        found[purpose] = (await client.get(SECRETS, f"{cluster}-{purpose}", namespace)).get("data")
    return found


async def nodes(client: Client, cluster: str, namespace: str = "default") -> Object:
    """As the cluster's own API tells of them: UID and time of creation, by name."""
    secret = await client.get(SECRETS, f"{cluster}-kubeconfig", namespace)
    text = base64.b64decode(str(objects.at(secret, "data", "value"))).decode()
    inside = HttpClient.from_kubeconfig(text)
    try:
        listed = (await inside.list(NODES)).items
    finally:
        await inside.close()
    return {
        objects.name(each): [
            objects.uid(each),
            objects.metadata(each)["creationTimestamp"],
            objects.at(each, "spec", "providerID"),
        ]
        for each in listed
    }


async def _of(client: Client, resource: Any) -> list[Object]:
    return list((await client.list(resource)).items)
