"""A management cluster on loopback: upstream's API server, Cluster API's managers and its provider for KubeVirt with
all their webhooks, KubeVirt's and CDI's kinds, and our claims controller, which has nothing but the API.

Everything is ended, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar, cast

import yaml

from steelyard.api import policies
from steelyard.compose import offering, shipped
from steelyard.controllers.claims import controller as claims
from steelyard.kube import errors, objects
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.manager import Manager
from steelyard.settings import Platform
from tests.conformance import keys, upstream
from tests.ecosystem import managers
from tests.ecosystem.kubevirt.hypervisor import Hypervisor
from tests.ecosystem.managers import Managing
from tests.harness import ROOT, built

T = TypeVar("T")

PROVIDER: Final = "sigs.k8s.io/cluster-api-provider-kubevirt"
_PROVIDER: Final = "cluster-api-provider-kubevirt"
PROGRAMS: Final = (*managers.CORE, _PROVIDER)
DEFINITIONS: Final = ROOT.parent / "shared" / "crds"
_PLAYED: Final = ("kubevirt", "cdi")
_STEP_SECONDS: Final = 120.0
_SHOWN: Final = 2000
_LINES: Final = 8


class CountingClient(HttpClient):
    """Knows how often something was applied: who composes the same again applies nothing."""

    applied = 0

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        self.applied += 1
        return await super().apply(
            resource, obj, field_manager=field_manager, force=force, subresource=subresource, dry_run=dry_run
        )


@dataclass
class Site:
    client: HttpClient
    hypervisor: Hypervisor
    controller: CountingClient
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    async def until(self, look: Callable[[], Awaitable[T]], holds: Callable[[T], bool], what: str) -> T:
        """Looks again until it holds. What has failed in the background fails here."""
        deadline = time.monotonic() + _STEP_SECONDS
        while not holds(found := await look()):
            for task in self.tasks:
                if task.done():
                    task.result()
            assert time.monotonic() < deadline, f"{what}: not within {_STEP_SECONDS:.0f} s; last seen: {_seen(found)}"
            await asyncio.sleep(0.3)
        return found

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Nothing in it where there is none."""
        try:
            return await self.client.get(resource, name, namespace)
        except errors.NotFound:
            return {}

    async def all(self, resource: Resource, namespace: str = "") -> list[Object]:
        return objects.by_name((await self.client.list(resource, namespace)).items)


@contextlib.asynccontextmanager
async def running(folder: Path, platform: Platform, version: str) -> AsyncGenerator[Site]:
    shared = folder / "shared"
    programs = await asyncio.to_thread(built, *PROGRAMS)
    await asyncio.to_thread(keys.write, shared)
    async with upstream.running(folder, shared), contextlib.AsyncExitStack() as stack:
        kubeconfig = folder / "kubeconfig"
        connection = (await asyncio.to_thread(kubeconfigs.load, kubeconfig)).resolve()
        client, controller = HttpClient(connection), CountingClient(connection, user_agent="steelyard-claims")
        stack.push_async_callback(client.close)
        stack.push_async_callback(controller.close)
        managing = await asyncio.to_thread(_managing, programs)
        await managers.manage(stack, client, managing, kubeconfig, folder, await asyncio.to_thread(_played))
        site = Site(client, Hypervisor(client, folder, version), controller)
        await _claims(stack, site, platform)
        site.tasks.append(_background(stack, site.hypervisor.run()))
        yield site


def _managing(programs: Sequence[str]) -> list[Managing]:
    # It speaks the older contract; Cluster API converts for it what it reads.
    labels = {"cluster.x-k8s.io/v1beta1": "v1alpha1"}
    folder = managers.folder_of(PROVIDER, _PROVIDER)
    provider = Managing(_PROVIDER, programs[-1], folder, labels, "--metrics-bind-addr=0", converts=False)
    return [*managers.core(programs[:-1]), provider]


async def _claims(stack: contextlib.AsyncExitStack, site: Site, platform: Platform) -> None:
    """What `steelyard crds` prints, and the controller."""
    await managers.define(site.client, shipped.definitions(platform, offering.STANDARD))
    for policy, binding in shipped.guards(platform, offering.STANDARD):
        await site.client.create(policies.POLICIES, policy)
        await site.client.create(policies.BINDINGS, binding)
    manager = Manager(site.controller)
    for controller in claims.controllers(manager, platform, offering.STANDARD):
        manager.add(controller)
    site.tasks.append(_background(stack, manager.run()))
    async with asyncio.timeout(managers.READY_SECONDS):
        await manager.ready.wait()


def _background(stack: contextlib.AsyncExitStack, work: Awaitable[None]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(work)

    async def end() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(end)
    return task


def _played() -> list[Object]:
    paths = [path for folder in _PLAYED for path in sorted((DEFINITIONS / folder).glob("*.yaml"))]
    return [cast("Object", yaml.safe_load(path.read_text())) for path in paths]


def _seen(found: object) -> str:
    """Of objects their status, which says what they wait for."""
    them = cast("list[Object]", found if isinstance(found, list) else [found])
    shown = [each.get("status") if isinstance(each, dict) else each for each in them]
    return repr(shown)[:_SHOWN]


def complaints(folder: Path) -> str:
    """The last of each program that wrote its log there."""
    return "\n".join(f"--- {path.name}\n{_errors(path)}" for path in sorted(folder.glob("*.log")))


def _errors(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    found = [line[:500] for line in lines if line.startswith(("E", "F", "panic", "Error", "unknown flag"))]
    return "\n".join(found[-_LINES:])
