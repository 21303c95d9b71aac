"""The platform as it runs, with a simulated cluster reached over HTTPS by its kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from steelyard import app, settings
from steelyard.compose import offering
from steelyard.compose.infrastructures.simulated import SIMULATED
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.resources import NAMESPACES, SECRETS
from steelyard.kube.runtime import conditions
from tests import inprocess
from tests.controllers.delivery.parcel import CREDENTIALS, PARCEL, PARCELS
from tests.controllers.delivery.world import TEAM, claim, find, to
from tests.harness import INSTANT

OFFERING = offering.offering((SIMULATED,), PARCEL)
_DEADLINE = 30.0


@contextlib.asynccontextmanager
async def platform(folder: Path) -> AsyncGenerator[Client]:
    file = INSTANT + "environments: {dev: {workerReplicas: 1}}\n"
    options = app.Options(DataDir(folder / "data"), "127.0.0.1", 0, settings.parse(file), offering=OFFERING)
    async with app.started(options) as running:
        yield running.client


async def until(check: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(_DEADLINE):
            while not await check():  # noqa: ASYNC110 (what is waited for is seen from outside)
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(what) from None


async def way_in(client: Client) -> HttpClient:
    """As the cluster's administrator has it."""
    secret = await client.get(SECRETS, "shop-kubeconfig", TEAM)
    return HttpClient.from_kubeconfig(base64.b64decode(secret["data"]["value"]).decode())


async def text(inside: Client) -> str:
    found = await find(inside, SECRETS, "db", "default")
    return base64.b64decode(found["data"]["text"]).decode() if found is not None else ""


async def answers(inside: Client) -> bool:
    try:
        await inside.get(NAMESPACES, "default")
    except errors.ServiceUnavailable:
        return False
    return True


async def is_delivered(client: Client) -> None:
    async def done() -> bool:
        return conditions.is_true(await client.get(PARCELS, "box", TEAM), "Delivered")

    await until(done, "delivered")


async def test_delivered_changed_restarted_and_removed_in_a_cluster_of_its_own(tmp_path: Path) -> None:
    async with platform(tmp_path) as client:
        for name in (TEAM, CREDENTIALS):
            await inprocess.namespace(client, name)
        await client.create(PARCELS, claim("box", {"text": "milk", "deliverTo": [to(namespace="default")]}))
        cluster = inprocess.claim("shop")
        cluster["metadata"]["namespace"] = TEAM
        await inprocess.becomes_ready(client, cluster)
        inside = await way_in(client)
        await is_delivered(client)
        assert await text(inside) == "milk"
        await client.patch(PARCELS, "box", {"spec": {"parameters": {"text": "honey"}}}, TEAM)

        async def is_changed() -> bool:
            return await text(inside) == "honey"

        await until(is_changed, "changed")
        before = await find(inside, SECRETS, "db", "default")
        await inside.close()
    async with platform(tmp_path) as client:
        await is_delivered(client)
        inside = await way_in(client)
        await until(functools.partial(answers, inside), "the cluster is served again")
        assert await find(inside, SECRETS, "db", "default") == before, "a restart changes nothing"
        await client.patch(PARCELS, "box", {"spec": {"parameters": {"text": "wine"}}}, TEAM)

        async def is_new() -> bool:
            return await text(inside) == "wine"

        await until(is_new, "changed after a restart")
        await client.delete(PARCELS, "box", TEAM)

        async def is_gone() -> bool:
            return await find(client, PARCELS, "box", TEAM) is None

        await until(is_gone, "gone")
        assert await find(inside, SECRETS, "db", "default") is None
        await inside.close()
