"""All controllers on one API, as the platform runs them: claims, lifecycle, simulated machines and what they serve.

The clock is the system's, but can be moved: whatever has become due by then happens at once. The way into a cluster is
in-process and asks of a kubeconfig what TLS would: that its certificate is of the cluster's authority and has not
expired.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from cryptography import x509

from steelyard import settings
from steelyard.api import resources
from steelyard.api.clusterapi import definitions
from steelyard.api.clusterapi import resources as capi
from steelyard.compose import offering
from steelyard.controllers import lifecycle
from steelyard.controllers.claims import controller as claims
from steelyard.kube import errors, objects, pki
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.clock import SystemClock, Timer
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.api import Api
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.store.store import Store
from steelyard.providers.simulated import unit
from steelyard.providers.simulated.machines import Delays
from tests import prepared

NAMESPACE = "team"
CLAIMS = resources.workload_clusters("steelyard.dev")
EVERYTHING = (
    CLAIMS,
    *(resource for resource in capi.ALL if resource != capi.KUBEADM_CONTROL_PLANE_TEMPLATES),
    resources.SIMULATED_CLUSTERS,
    resources.SIMULATED_MACHINES,
    resources.SIMULATED_MACHINE_TEMPLATES,
    SECRETS,
    CONFIG_MAPS,
)
_DEADLINE = 60.0
_NO_DELAYS = Delays()
_PLATFORM = "environments: {dev: {workerReplicas: 1}}\n"


class MovableClock(SystemClock):
    """The system's time plus what `move` has added; timers that have become due by a move ring at once."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._timers: dict[_Timer, float] = {}

    def now(self) -> datetime.datetime:
        return super().now() + datetime.timedelta(seconds=self._ahead)

    def monotonic(self) -> float:
        return super().monotonic() + self._ahead

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer(self._timers, super().call_later(min(seconds, _DEADLINE * 100), lambda: timer.ring()), callback)
        self._timers[timer] = self.monotonic() + seconds
        return timer

    def move(self, by: datetime.timedelta) -> None:
        self._ahead += by.total_seconds()
        now = self.monotonic()
        for timer in [timer for timer, due in self._timers.items() if due <= now]:
            timer.ring()


class _Timer:
    def __init__(self, timers: dict[_Timer, float], real: Timer, callback: Callable[[], None]) -> None:
        self._timers = timers
        self._real = real
        self._callback = callback

    def ring(self) -> None:
        if self in self._timers:
            self.cancel()
            self._callback()

    def cancel(self) -> None:
        self._timers.pop(self, None)
        self._real.cancel()


class Whole:
    def __init__(self, store: Store, inner: Store, api: Api, clock: MovableClock, delays: Delays) -> None:
        self.store = store
        self.inner = inner
        self.clock = clock
        self.delays = delays
        self.client: Client = LocalClient(api)
        self.hosting = Hosting(inner, host="127.0.0.1", clock=clock)
        self.manager = Manager(self.client, clock=clock)
        self.connected: list[bytes] = []
        """The certificates that the platform has connected to clusters with."""
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Also after `crash`, with new caches, as a new process would have them."""
        platform = settings.parse(_PLATFORM)
        self.manager = manager = Manager(self.client, clock=self.clock)
        for controller in (
            *claims.controllers(manager, platform, offering.STANDARD),
            *lifecycle.controllers(manager, connect=self.connect),
            *unit.controllers(manager, self.hosting, self.delays),
        ):
            manager.add(controller)
        self._running = asyncio.create_task(manager.run())
        await asyncio.wait_for(manager.ready.wait(), _DEADLINE)

    async def crash(self) -> None:
        """Ends the controllers in the middle of whatever they do; machines and what they run stay as they are."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            self._running = None

    async def connect(self, connection: Connection) -> Client:
        self.connected.append(connection.client_certificate)
        return cast(Client, _Guarded(self, connection.cluster, connection.client_certificate))

    async def claim(self, name: str = "c", **parameters: Any) -> None:
        metadata = {"name": name, "namespace": NAMESPACE}
        spec = {"parameters": {"environment": "dev", **parameters}}
        await self.client.create(
            CLAIMS, {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "metadata": metadata, "spec": spec}
        )

    async def one(self, resource: Resource, name: str) -> Object:
        return await self.client.get(resource, name, NAMESPACE)

    async def all(self, resource: Resource) -> list[Object]:
        return objects.by_name((await self.client.list(resource, NAMESPACE)).items)

    async def everything(self) -> list[tuple[Resource, Object]]:
        """All there is but the claims and what every namespace has."""
        return [
            (resource, obj)
            for resource in EVERYTHING
            if resource != CLAIMS
            for obj in await self.all(resource)
            if objects.name(obj) != "kube-root-ca.crt"
        ]

    async def left(self) -> list[str]:
        """What is left of all claims, in the API and inside of clusters."""
        found = [f"{resource.kind}/{objects.name(obj)}" for resource, obj in await self.everything()]
        found.extend(f"claim/{objects.name(obj)}" for obj in await self.all(CLAIMS))
        return [*found, *(f"in a cluster: {record.key}" for record in self.inner.scan(""))]

    async def remove_by_force(self, resource: Resource, obj: Object) -> None:
        """As somebody does who takes finalizers off so that it goes at once."""
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            where = (objects.name(obj), {"metadata": {"finalizers": None}}, objects.namespace(obj))
            await self.client.patch(resource, *where)
            await self.client.delete(resource, objects.name(obj), objects.namespace(obj))
            await self.client.patch(resource, *where)

    async def is_ready(self, name: str = "c") -> bool:
        claim = await self.one(CLAIMS, name)
        is_current = objects.at(claim, "status", "observedGeneration") == objects.generation(claim)
        return is_current and conditions.is_true(claim, "Ready")

    async def until_ready(self, name: str = "c") -> None:
        await self.until(lambda: self.is_ready(name), f"claim {name} ready")
        await self.manager.idle(within=0.5, settle=0.1)

    def never_resync(self) -> None:
        """From the next reconcile of each object on: whatever happens then has a reason of its own."""
        for controller in self.manager.controllers:
            controller.resync = 1e9

    async def until_nothing_is_left(self) -> None:
        async def gone() -> bool:
            return not await self.left()

        await self.until(gone, "nothing left", describe=self.left)

    @staticmethod
    async def until(
        check: Callable[[], Awaitable[Any]], what: str, *, describe: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEADLINE):
                while not await check():  # noqa: ASYNC110 (what is waited for is seen from outside)
                    await asyncio.sleep(0.03)
                return
        raise AssertionError(f"not reached within {_DEADLINE:g} s: {what}; {await describe() if describe else ''}")


class _Guarded:
    """A client of a cluster's API, for as long as its certificate is good."""

    def __init__(self, whole: Whole, cluster: str, certificate: bytes) -> None:
        self._whole = whole
        self._cluster = cluster
        self._certificate = certificate

    def __getattr__(self, name: str) -> Any:
        if name == "close":
            return _nothing
        infrastructure = self._whole.manager.informers.of(resources.SIMULATED_CLUSTERS).get(NAMESPACE, self._cluster)
        uid = objects.uid(infrastructure) if infrastructure else ""
        api = self._whole.hosting.running(uid)
        if api is None:
            raise errors.ServiceUnavailable(f"nothing answers for cluster {self._cluster}")
        if pki.expiry_of(self._certificate) <= self._whole.clock.now():
            raise errors.Unauthorized("Unauthorized")
        authority = x509.load_pem_x509_certificate(self._whole.hosting.authority_certificate(uid))
        x509.load_pem_x509_certificate(self._certificate).verify_directly_issued_by(authority)
        return getattr(LocalClient(api), name)


async def _nothing() -> None:
    return


@contextlib.asynccontextmanager
async def opened(folder: Path, delays: Delays = _NO_DELAYS) -> AsyncGenerator[Whole]:
    """With its controllers running."""
    async with contextlib.AsyncExitStack() as stack:
        kinds = (*offering.STANDARD.definitions("steelyard.dev"), *definitions.crds())
        store = await prepared.store(folder / "main.db", "whole", lambda client: prepared.define(client, kinds))
        stack.push_async_callback(store.close)
        inner = await Store.open(folder / "simulated.db", fsync=False)
        stack.push_async_callback(inner.close)
        api = await Api.start(store)
        stack.push_async_callback(api.close)
        whole = Whole(store, inner, api, MovableClock(), delays)
        stack.push_async_callback(whole.hosting.close)
        await whole.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await whole.start()
        stack.push_async_callback(whole.crash)
        yield whole
