"""A platform with KVM machines on a libvirtd of the test's own, and Cluster API's objects for them, as its controllers
would make them: what is tested here is the provider."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from steelyard.api import crd, kvm
from steelyard.api.clusterapi import definitions as clusterapi
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.providers.kvm import unit
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt import calls
from steelyard.providers.kvm.libvirt.calls import Around
from steelyard.providers.kvm.pace import Pace
from tests import prepared
from tests.providers.kvm.daemons import Libvirtd

PATIENCE = 120.0
"""Seconds; on a machine that is busy with other things, what takes one may take many."""
NAMESPACE = "team-a"
HOST = "metal"
IMAGE = "node.qcow2"
SECRET = "the-bootstrap-token-that-nobody-else-may-see"
SIZES: Object = {"cpu": 1, "memory": "100M", "disk": "1Gi"}
IMPATIENT = Pace(retry=0.2, host_retry=0.2, soon=0.1)
_CONTROLLERS = User("system:steelyard-controllers", (SYSTEM_MASTERS,))
_OWN_VERSION = "v1.34.4"
_TRIED_OUT: Final[list[Object]] = []
"""The status of the KVMHost that was tried out first in this process."""


def host(folder: Path, **spec: Any) -> Object:
    made: Object = {
        "uri": "qemu:///system",
        "storageRoots": [str(folder / "machines")],
        "imageRoots": [str(folder / "images")],
        "networks": {"ranges": ["10.200.0.0/16"]},
        **spec,
    }
    return {
        "apiVersion": KVM_HOSTS.api_version,
        "kind": KVM_HOSTS.kind,
        "metadata": {"name": HOST},
        "spec": made,
    }


def fleet(daemon: Libvirtd, around: Around = calls.plainly, *, deadline: float = calls.DEADLINE) -> Fleet:
    return Fleet(reached_by=daemon.reached_by, around=around, deadline=deadline)


def image(folder: Path, name: str = IMAGE) -> Path:
    """An empty one: nothing boots from it."""
    path = folder / "images" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_empty_disk())
    return path


@functools.cache
def _empty_disk() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(path), "64M"], check=True)
        return path.read_bytes()


@dataclass
class World:
    """What a test sees."""

    client: Client
    manager: Manager
    daemon: Libvirtd
    folder: Path
    fleet: Fleet
    namespace: str = NAMESPACE
    made: list[tuple[Resource, str, str]] = field(default_factory=list[tuple[Resource, str, str]])

    async def add(self, resource: Resource, name: str, spec: Object, **metadata: Any) -> Object:
        obj: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": spec,
        }
        self.made.append((resource, name, self.namespace))
        return await self.client.create(resource, obj)

    async def cluster(self, name: str = "shop", *, finalizers: Sequence[str] = (), **spec: Any) -> Object:
        """A Cluster with its KVMCluster; the latter once it is provisioned, or says why not."""
        await self.namespaced()
        reference = {"apiGroup": KVM_CLUSTERS.group, "kind": KVM_CLUSTERS.kind, "name": name}
        owner = await self.add(CLUSTERS, name, {"infrastructureRef": reference})
        await self.kvm_cluster(name, owner, finalizers=finalizers, **spec)
        return await self.until(KVM_CLUSTERS, name, lambda obj: bool(conditions.reason_of(obj, "Ready")))

    async def kvm_cluster(self, name: str, owner: Object, *, finalizers: Sequence[str] = (), **spec: Any) -> Object:
        return await self.add(
            KVM_CLUSTERS,
            name,
            spec,
            labels={"cluster.x-k8s.io/cluster-name": name},
            ownerReferences=[objects.owner_reference(owner)],
            finalizers=[*finalizers],
        )

    async def machine(
        self, name: str, cluster: str = "shop", *, user_data: str = "", finalizers: Sequence[str] = (), **spec: Any
    ) -> Object:
        """A Machine with bootstrap data and a KVMMachine; the latter, at once."""
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{name}-bootstrap", "namespace": self.namespace},
            "data": {"value": base64.b64encode(f"#cloud-config\n# {SECRET}\n{user_data}".encode()).decode()},
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(SECRETS, secret)
        reference = {"apiGroup": KVM_MACHINES.group, "kind": KVM_MACHINES.kind, "name": name}
        labels = {"cluster.x-k8s.io/cluster-name": cluster}
        bootstrap = {"dataSecretName": f"{name}-bootstrap"}
        owner = await self.add(
            MACHINES,
            name,
            {
                "clusterName": cluster,
                "version": _OWN_VERSION,
                "bootstrap": bootstrap,
                "infrastructureRef": reference,
            },
            labels=labels,
        )
        return await self.kvm_machine(name, owner, cluster, finalizers=finalizers, **spec)

    async def kvm_machine(
        self, name: str, owner: Object, cluster: str = "shop", *, finalizers: Sequence[str] = (), **spec: Any
    ) -> Object:
        return await self.add(
            KVM_MACHINES,
            name,
            {"resources": SIZES, "image": IMAGE, **spec},
            labels={"cluster.x-k8s.io/cluster-name": cluster},
            ownerReferences=[objects.owner_reference(owner)],
            finalizers=[*finalizers],
        )

    async def running(self, name: str, cluster: str = "shop", **spec: Any) -> Object:
        await self.machine(name, cluster, **spec)
        return await self.becomes(name, "Running")

    async def becomes(self, name: str, reason: str, within: float = PATIENCE) -> Object:
        """The KVMMachine with this reason in its Ready condition."""
        return await self.until(
            KVM_MACHINES, name, lambda obj: conditions.reason_of(obj, "Ready") == reason, within=within
        )

    async def joined(self, name: str) -> None:
        """As Cluster API says once the Node is there."""
        await self.client.patch(
            MACHINES, name, {"status": {"nodeRef": {"name": name}}}, self.namespace, subresource="status"
        )

    async def delete(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, name, self.namespace)

    async def gone(self, resource: Resource, name: str, within: float = PATIENCE) -> None:
        async def is_gone() -> bool:
            with contextlib.suppress(errors.NotFound):
                await self.client.get(resource, name, self.namespace)
                return False
            return True

        await eventually(is_gone, within, lambda: f"{resource.kind} {name} is still there")

    async def remove(self, name: str, within: float = PATIENCE) -> None:
        """A KVMMachine and its Machine."""
        await self.delete(KVM_MACHINES, name)
        await self.gone(KVM_MACHINES, name, within)
        await self.delete(MACHINES, name)

    async def remove_cluster(self, name: str = "shop") -> None:
        await self.delete(KVM_CLUSTERS, name)
        await self.gone(KVM_CLUSTERS, name)
        await self.delete(CLUSTERS, name)

    async def until(
        self, resource: Resource, name: str, reached: Callable[[Object], bool], within: float = PATIENCE
    ) -> Object:
        namespace = self.namespace if resource.namespaced else ""
        last: Object = {}

        async def found() -> bool:
            nonlocal last
            last = await self.client.get(resource, name, namespace)
            return reached(last)

        await eventually(found, within, lambda: f"{resource.kind} {name}: {last.get('spec')} {last.get('status')}")
        return last

    async def hosted(self, within: float = PATIENCE, **spec: Any) -> None:
        """There is a KVMHost, and it is ready."""
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(KVM_HOSTS, host(self.folder, **spec))
        found = await self.until(KVM_HOSTS, HOST, lambda obj: conditions.is_true(obj, "Ready"), within)
        if not _TRIED_OUT:
            _TRIED_OUT.append(found["status"])

    async def tried_out(self, **spec: Any) -> None:
        """There is a KVMHost, of which an earlier process has found out how it runs guests, as was really found out
        before: to run one takes as long as most of what is tested."""
        for status in _TRIED_OUT:
            with contextlib.suppress(errors.AlreadyExists):
                await self.client.create(KVM_HOSTS, host(self.folder, **spec))
                (self.folder / "machines").mkdir(exist_ok=True)
                await self.client.patch(KVM_HOSTS, HOST, {"status": status}, subresource="status")

    async def namespaced(self) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
            )

    def files(self) -> list[str]:
        root = self.folder / "machines"
        return sorted(str(each.relative_to(root)) for each in root.rglob("*")) if root.exists() else []


async def eventually(
    reached: Callable[[], Awaitable[bool]], within: float, complaint: Callable[[], str] = lambda: "never so"
) -> None:
    try:
        async with asyncio.timeout(within):
            while True:
                if await reached():
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(complaint()) from None


@contextlib.asynccontextmanager
async def world(
    daemon: Libvirtd,
    folder: Path,
    *,
    fleet: Fleet | None = None,
    host_spec: Object | None = None,
    starts_paused: bool = True,
    pace: Pace = IMPATIENT,
    has_host: bool = True,
    is_tried_out: bool = True,
    after_commit: Callable[[int], None] | None = None,
) -> AsyncGenerator[World]:
    """An API with the provider's controllers on it, and a KVMHost that is ready. What was in the folder's database
    before is there again. `is_tried_out`: that it runs guests may be known from before. `after_commit` gets the
    revision of each write that has reached the file."""
    fleet = fleet or Fleet(reached_by=daemon.reached_by)
    async with contextlib.AsyncExitStack() as stack:
        kinds = (*(crd.definition(each) for each in kvm.KINDS), *clusterapi.crds())
        options: dict[str, Any] = {} if after_commit is None else {"max_batch": 1, "after_commit": after_commit}
        store = await prepared.store(
            folder / "store.db", "kvm", lambda client: prepared.define(client, kinds), **options
        )
        stack.push_async_callback(store.close)
        api = await Api.start(store)
        stack.push_async_callback(api.close)
        client = LocalClient(api, _CONTROLLERS, field_manager="steelyard")
        manager = Manager(client)
        stack.push_async_callback(fleet.close)
        for controller in unit.controllers(manager, fleet, token=str(folder), pace=pace, starts_paused=starts_paused):
            manager.add(controller)
        made = World(client, manager, daemon, folder, fleet)
        if has_host and is_tried_out:
            await made.tried_out(**(host_spec or {}))
        running = asyncio.create_task(manager.run())
        stack.push_async_callback(_stopped, manager, running)
        await manager.ready.wait()
        if has_host:
            await made.hosted(**(host_spec or {}))
        yield made


async def _stopped(manager: Manager, running: asyncio.Task[None]) -> None:
    manager.stop()
    await running
