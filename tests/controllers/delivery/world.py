"""A platform's API with claims that deliver, and clusters to deliver into: each an API of its own, which can be away,
or never answer. The tests play the lifecycle: a cluster is there when they say so.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from steelyard import groundwork, settings
from steelyard.api import secretdelivery
from steelyard.api.clusterapi import definitions, wellknown
from steelyard.api.clusterapi import resources as capi
from steelyard.compose.offering import Offering
from steelyard.controllers import delivery
from steelyard.controllers.claims import controller as claims
from steelyard.controllers.lifecycle import kubeconfig
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import errors, objects, pki
from steelyard.kube.client.interface import Client, WatchEvent
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import User
from steelyard.kube.store.store import Store
from steelyard.settings import Platform
from tests import prepared
from tests.controllers.delivery.parcel import CREDENTIALS, PARCEL, PARCELS

TEAM = "team-a"
OTHERS = "team-b"
FIRST_PORT = 40_000
OFFERING = Offering((PARCEL,), ())
_DEADLINE = 60.0
_WRITES = frozenset(("apply", "create", "delete", "patch", "update"))


class Wire:
    """A client with everything that can go wrong on the way, and what went over it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.is_away = False
        self.hangs = False
        self.calls: list[str] = []
        self.before: Callable[[str], Awaitable[None]] | None = None
        self.after: Callable[[str], Awaitable[None]] | None = None

    @property
    def writes(self) -> list[str]:
        return [each for each in self.calls if each.partition(" ")[0] in _WRITES]

    def __getattr__(self, name: str) -> Any:
        if name == "watch":
            return self._watch
        if name == "close":
            return self._close

        async def call(resource: Resource, *args: Any, **kwargs: Any) -> Any:
            what = f"{name} {resource.kind}"
            self.calls.append(what)
            if self.hangs:
                await asyncio.Event().wait()
            if self.is_away:
                raise errors.ServiceUnavailable("cannot connect to https://shop:6443: refused")
            if self.before is not None:
                await self.before(what)
            answer = await getattr(self.client, name)(resource, *args, **kwargs)
            if self.after is not None:
                await self.after(what)
            return answer

        return call

    async def _watch(self, *args: Any, **kwargs: Any) -> AsyncIterator[WatchEvent]:
        async for event in self.client.watch(*args, **kwargs):
            yield event

    async def _close(self) -> None:
        return


class World:
    def __init__(self, folder: Path, stack: contextlib.AsyncExitStack, api: Api, platform: Platform) -> None:
        self.api = api
        self.platform = platform
        self.client = cast(Client, LocalClient(api))
        self.wire = Wire(self.client)
        """What the controllers use."""
        self.clusters: dict[str, Wire] = {}
        self.clock: Clock = clocks.SYSTEM
        self.manager = Manager(self.client)
        self._folder = folder
        self._stack = stack
        self._running: asyncio.Task[None] | None = None
        self._workloads: Workloads | None = None

    async def start(self) -> None:
        self.manager = manager = Manager(cast(Client, self.wire), clock=self.clock)
        self._workloads = Workloads(manager.client, self.connect, clock=self.clock)
        for each in (
            *claims.controllers(manager, self.platform, OFFERING),
            *delivery.controllers(manager, self._workloads),
        ):
            manager.add(each)
        self._running = asyncio.create_task(manager.run())
        await asyncio.wait_for(manager.ready.wait(), _DEADLINE)

    async def crash(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            self._running = None
        if self._workloads is not None:
            await self._workloads.close()

    async def connect(self, connection: Connection) -> Client:
        names = list(self.clusters)
        return cast(Client, self.clusters[names[int(connection.server.rpartition(":")[2]) - FIRST_PORT]])

    async def cluster(self, name: str = "shop", namespace: str = TEAM, *, ready: bool = True, file: str = "") -> Wire:
        store = await Store.open(self._folder / f"{file or name}.db", fsync=False)
        self._stack.push_async_callback(store.close)
        api = await Api.start(store)
        self._stack.push_async_callback(api.close)
        wire = self.clusters[name] = Wire(cast(Client, LocalClient(api)))
        await make_namespace(wire.client, "web")
        port = FIRST_PORT + len(self.clusters) - 1
        endpoint: Object = {"host": "127.0.0.1", "port": port}
        await self.client.create(
            capi.CLUSTERS,
            {
                "apiVersion": capi.CLUSTERS.api_version,
                "kind": "Cluster",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"controlPlaneEndpoint": endpoint},
            },
        )
        now = clocks.SYSTEM.now()
        authority = pki.new_authority("kubernetes", now=now)
        text = kubeconfig.generate(name, f"https://127.0.0.1:{port}", authority, now=now)
        await self._secret(f"{name}-ca", namespace, name, {"tls.crt": authority.certificate, "tls.key": authority.key})
        await self._secret(f"{name}-kubeconfig", namespace, name, {"value": text.encode()})
        if ready:
            await self.cluster_is_ready(name, namespace)
        return wire

    async def cluster_is_ready(self, name: str = "shop", namespace: str = TEAM) -> None:
        status: Object = {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}}
        await self.client.patch(capi.CLUSTERS, name, {"status": status}, namespace, subresource="status")

    async def _secret(self, name: str, namespace: str, cluster: str, data: dict[str, bytes]) -> None:
        labels = {wellknown.CLUSTER_NAME_LABEL: cluster}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        await self.client.create(SECRETS, {"metadata": metadata, "data": encoded})

    async def parcel(
        self, *places: Object, name: str = "box", text: str | None = "milk", by: User | None = None
    ) -> None:
        parameters: Object = {"deliverTo": list(places)} if places else {}
        if text is not None:
            parameters["text"] = text
        client = self.as_(by) if by else self.client
        await client.create(PARCELS, claim(name, parameters))

    def as_(self, user: User) -> Client:
        return cast(Client, LocalClient(self.api, user))

    async def change(self, name: str = "box", **parameters: Any) -> None:
        await self.client.patch(PARCELS, name, {"spec": {"parameters": parameters}}, TEAM)

    async def delete(self, name: str = "box") -> None:
        await self.client.delete(PARCELS, name, TEAM)

    async def get(self, name: str = "box") -> Object:
        return await self.client.get(PARCELS, name, TEAM)

    async def told(self, type_: str = "Delivered", name: str = "box") -> tuple[str, str]:
        """Status and message of the claim's condition."""
        found = conditions.find(await self.get(name), type_) or {}
        return str(found.get("status")), str(found.get("message"))

    async def says(self, words: str, name: str = "box") -> None:
        async def said() -> bool:
            return words in (await self.told(name=name))[1]

        await self.until(said, f"says {words!r}", lambda: self.told(name=name))

    async def is_delivered(self, name: str = "box") -> None:
        async def done() -> bool:
            return (await self.told(name=name))[0] == "True"

        await self.until(done, "delivered", lambda: self.told(name=name))
        await self.settle()

    async def is_gone(self, name: str = "box") -> None:
        async def gone() -> bool:
            return await find(self.client, PARCELS, name, TEAM) is None

        await self.until(gone, "gone", lambda: find(self.client, PARCELS, name, TEAM))

    async def deliveries(self) -> list[Object]:
        return list((await self.client.list(secretdelivery.RESOURCE)).items)

    async def sources(self) -> list[Object]:
        return list((await self.client.list(SECRETS, CREDENTIALS)).items)

    async def look_again(self) -> None:
        """As if something had changed, though nothing has."""
        for each in self.manager.controllers:
            found = (await self.client.list(each.resource)).items
            each.enqueue([Key.of(obj) for obj in found])
        await self.settle()

    async def settle(self) -> None:
        await self.manager.idle(settle=0.05)

    @staticmethod
    async def until(check: Callable[[], Awaitable[Any]], what: str, describe: Callable[[], Awaitable[Any]]) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEADLINE):
                while not await check():  # noqa: ASYNC110 (what is waited for is seen from outside)
                    await asyncio.sleep(0.02)
                return
        raise AssertionError(f"not reached: {what}; {await describe()}")


def claim(name: str, parameters: Object, **metadata: Any) -> Object:
    return {
        "apiVersion": PARCELS.api_version,
        "kind": PARCELS.kind,
        "metadata": {"name": name, "namespace": TEAM, **metadata},
        "spec": {"parameters": parameters},
    }


def to(name: str = "db", cluster: str = "shop", namespace: str = "web", **more: str) -> Object:
    return {"cluster": cluster, "namespace": namespace, "name": name, **more}


async def find(client: Client, resource: Resource, name: str, namespace: str = "web") -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None


async def secret(wire: Wire, name: str = "db", namespace: str = "web") -> dict[str, str] | None:
    """What is in the Secret in the cluster."""
    found = await find(wire.client, SECRETS, name, namespace)
    if found is None:
        return None
    return {key: base64.b64decode(value).decode() for key, value in objects.mapping(found.get("data")).items()}


async def make_namespace(client: Client, name: str) -> None:
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@contextlib.asynccontextmanager
async def opened(folder: Path, file: str = "") -> AsyncGenerator[World]:
    platform = settings.parse(file)
    async with contextlib.AsyncExitStack() as stack:
        kinds = (
            *OFFERING.definitions("steelyard.dev"),
            *secretdelivery.definitions(),
            *(each for each in definitions.crds() if objects.name(each) == capi.CLUSTERS.group_resource),
        )
        store = await prepared.store(folder / "main.db", "delivery", lambda client: prepared.define(client, kinds))
        stack.push_async_callback(store.close)
        api = await Api.start(store)
        stack.push_async_callback(api.close)
        world = World(folder, stack, api, platform)
        await groundwork.guard_claims(api, world.client, platform, OFFERING)
        for name in (TEAM, OTHERS, CREDENTIALS):
            await make_namespace(world.client, name)
        await world.start()
        stack.push_async_callback(world.crash)
        yield world
