"""The real platform in the test's own process, and claims on it: as fast as it gets, and open to be looked into."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from steelyard import app, settings
from steelyard.api import resources, state
from steelyard.compose import offering
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from tests.harness import INSTANT

CLAIMS = resources.workload_clusters("steelyard.dev")


@contextlib.asynccontextmanager
async def platform(folder: Path, file: str = "", *, pace: str = INSTANT) -> AsyncGenerator[Client]:
    """A client of a platform whose machines take no time unless `pace` says so; `file` is more of the platform file."""
    options = app.Options(DataDir(folder / "data"), "127.0.0.1", 0, settings.parse(pace + file))
    async with app.started(options) as running:
        yield running.client


def claim(name: str = "shop", **parameters: object) -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def resource_of(obj: Object) -> Resource:
    kind = offering.STANDARD.kind_of(obj)
    assert kind is not None
    return kind.resource(str(obj["apiVersion"]).partition("/")[0].partition(".")[2])


async def namespace(client: Client, name: str) -> None:
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def becomes_ready(client: Client, asked: Object) -> Object:
    await namespace(client, objects.namespace(asked))
    created = await client.create(resource_of(asked), asked)
    seen = await until(client, created, lambda obj: state.of(obj).word == state.READY)
    return seen[-1]


async def until(client: Client, obj: Object, reached: Callable[[Object], bool], timeout: float = 60.0) -> list[Object]:
    """Every state of the claim from this one on, the one that was waited for last."""
    seen = [obj]
    version = str(objects.metadata(obj)["resourceVersion"])
    try:
        async with asyncio.timeout(timeout):
            async for event in client.watch(resource_of(obj), objects.namespace(obj), resource_version=version):
                if objects.uid(event.object) != objects.uid(obj) or event.type == "BOOKMARK":
                    continue
                seen.append(event.object)
                if reached(event.object):
                    return seen
    except TimeoutError:
        raise AssertionError(f"never reached; last: {state.of(seen[-1])}") from None
    raise AssertionError("the watch ended")
