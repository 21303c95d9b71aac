"""A platform's API with the lifecycle's controllers on it, and infrastructure that exists at once.

The infrastructure is a stand-in that keeps the Cluster API contract and nothing else: a machine boots by reading its
bootstrap data, and then there is a Node in its cluster's API, which is a space of the same store. Control-plane
machines run the members of a simulated etcd, which can be switched off one by one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, cast

import yaml

from steelyard.api import resources as simulated
from steelyard.api.clusterapi import definitions, wellknown
from steelyard.api.clusterapi import resources as capi
from steelyard.compose import offering
from steelyard.controllers import lifecycle
from steelyard.controllers.lifecycle import certificates
from steelyard.kube import errors, objects, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock, conditions, finalizers, mapping
from steelyard.kube.runtime.controller import Controller, Result, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from steelyard.providers.simulated.ensembles import Ensembles, Host
from tests import prepared

NAMESPACE = "team"
VERSION = "v1.34.4"
DEADLINE = 60.0
_FINALIZER = "infrastructure.test/machine"
_ETCD_CERTIFICATE = "/etc/kubernetes/pki/etcd/ca.crt"
_ETCD_KEY = "/etc/kubernetes/pki/etcd/ca.key"
EVERYTHING = (
    *(resource for resource in capi.ALL if resource != capi.KUBEADM_CONTROL_PLANE_TEMPLATES),
    simulated.SIMULATED_CLUSTERS,
    simulated.SIMULATED_MACHINES,
    simulated.SIMULATED_MACHINE_TEMPLATES,
    resources.SECRETS,
    resources.CONFIG_MAPS,
)


class World:
    def __init__(self, store: Store, api: Api) -> None:
        self.store = store
        self.client: Client = LocalClient(api)
        self.workloads: dict[str, Client] = {}
        self.booted: Counter[str] = Counter()
        self.ensembles = Ensembles(self.workloads.get, clock.SYSTEM)
        self._apis: list[Api] = [api]

    async def workload(self, cluster: str) -> Client:
        """The cluster's own API, started on first use."""
        if cluster not in self.workloads:
            api = await Api.start(self.store, space=f"workload-{cluster}")
            self._apis.append(api)
            self.workloads[cluster] = LocalClient(api)
        return self.workloads[cluster]

    async def connect(self, connection: Connection) -> Client:
        found = self.workloads.get(connection.cluster)
        if found is None:
            raise errors.ServiceUnavailable("nothing listens there")
        return found

    async def members(self, cluster: str = "c") -> list[str]:
        """Of its etcd, as the infrastructure knows them."""
        return sorted(await self.ensembles.members(cluster))

    async def close(self) -> None:
        await self.ensembles.close()
        for api in reversed(self._apis):
            await api.close()
        await self.store.close()

    async def all(self, resource: Resource) -> list[Object]:
        return objects.by_name((await self.client.list(resource, NAMESPACE)).items)

    async def one(self, resource: Resource, name: str) -> Object:
        return await self.client.get(resource, name, NAMESPACE)

    async def names(self, resource: Resource) -> list[str]:
        return [objects.name(obj) for obj in await self.all(resource)]

    async def left(self) -> list[str]:
        """Everything there is, `Kind/name`."""
        return [f"{resource.kind}/{name}" for resource in EVERYTHING for name in await self.names(resource)]


@contextlib.asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[World]:
    kinds = [*offering.STANDARD.definitions("steelyard.dev"), *definitions.crds()]
    store = await prepared.store(path / "store.db", "lifecycle", lambda client: prepared.define(client, kinds))
    world = World(store, await Api.start(store))
    try:
        await world.client.create(resources.NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield world
    finally:
        await world.close()


@contextlib.asynccontextmanager
async def running(world: World, *, client: Client | None = None) -> AsyncGenerator[Manager]:
    """The lifecycle's controllers and the infrastructure, until the block ends."""
    manager = Manager(client or world.client)
    for controller in lifecycle.controllers(manager, connect=world.connect):
        manager.add(controller)
    async with _ran(manager), infrastructure(world):
        yield manager


@contextlib.asynccontextmanager
async def infrastructure(world: World) -> AsyncGenerator[Manager]:
    manager = Manager(world.client)
    manager.add(Controller("clusters", simulated.SIMULATED_CLUSTERS, _Clusters(manager.client)))
    manager.add(
        Controller(
            "machines",
            simulated.SIMULATED_MACHINES,
            _Machines(world, manager.client),
            [Watch(capi.MACHINES, lambda machine: [Key.of(machine)])],
        )
    )
    async with _ran(manager):
        yield manager


@contextlib.asynccontextmanager
async def _ran(manager: Manager) -> AsyncGenerator[None]:
    task = asyncio.create_task(manager.run())
    try:
        await asyncio.wait_for(manager.ready.wait(), DEADLINE)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(check: Callable[[], Any], what: str) -> None:
    """Waits until the asynchronous check is true."""
    last: Any = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE):
            while not (last := await check()):  # noqa: ASYNC110 (what is waited for is seen from outside)
                await asyncio.sleep(0.02)
            return
    raise AssertionError(f"not reached within {DEADLINE:g} s: {what} (last: {last})")


class _Clusters:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key) -> Result:
        with contextlib.suppress(errors.NotFound):
            cluster = await self._client.get(simulated.SIMULATED_CLUSTERS, key.name, key.namespace)
            if objects.owner_references(cluster) and not objects.at(cluster, "status", "initialization"):
                spec = {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}}
                await self._client.patch(simulated.SIMULATED_CLUSTERS, key.name, spec, key.namespace)
                status = {"status": {"initialization": {"provisioned": True}}}
                await self._client.patch(
                    simulated.SIMULATED_CLUSTERS, key.name, status, key.namespace, subresource="status"
                )
        return Result()


def boots(_: Object) -> bool:
    """Whether an infrastructure machine ever comes up; for tests to say otherwise."""
    return True


class _Machines:
    def __init__(self, world: World, client: Client) -> None:
        self._world = world
        self._client = client

    async def reconcile(self, key: Key) -> Result:
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            machine = await self._client.get(simulated.SIMULATED_MACHINES, key.name, key.namespace)
            if objects.is_being_deleted(machine):
                await self._end_member(machine)
                await finalizers.remove(self._client, simulated.SIMULATED_MACHINES, machine, _FINALIZER)
                return Result()
            machine = await finalizers.ensure(self._client, simulated.SIMULATED_MACHINES, machine, _FINALIZER)
            owner = next(iter(mapping.to_owner(capi.MACHINES)(machine)), None)
            if owner is not None and not objects.at(machine, "status", "initialization") and boots(machine):
                await self._boot(machine, await self._client.get(capi.MACHINES, owner.name, owner.namespace))
        return Result()

    async def _boot(self, machine: Object, owner: Object) -> None:
        secret_name = objects.at(owner, "spec", "bootstrap", "dataSecretName")
        if not secret_name:
            return
        secret = await self._client.get(resources.SECRETS, str(secret_name), NAMESPACE)
        files = cloud_config_files(secret)
        cluster = str(objects.at(owner, "spec", "clusterName"))
        if "/run/kubeadm/kubeadm.yaml" in files:
            workload = await self._world.workload(cluster)
        else:
            workload = self._world.workloads[cluster]
            await _check_token(workload, files["/run/kubeadm/kubeadm-join-config.yaml"])
        name = objects.name(machine)
        provider_id = f"test://{objects.uid(machine)}"
        if _ETCD_KEY in files:
            authority = KeyPair(files[_ETCD_CERTIFICATE].encode(), files[_ETCD_KEY].encode())
            await self._start_member(machine, cluster, authority)
        with contextlib.suppress(errors.AlreadyExists):
            await workload.create(resources.NODES, _node(name, provider_id))
            self._world.booted[cluster] += 1
        spec = {"spec": {"providerID": provider_id}}
        await self._client.patch(simulated.SIMULATED_MACHINES, name, spec, NAMESPACE)
        status = {
            "status": {
                "initialization": {"provisioned": True},
                "addresses": [{"type": "InternalIP", "address": address_of(machine)}],
            }
        }
        await self._client.patch(simulated.SIMULATED_MACHINES, name, status, NAMESPACE, subresource="status")

    async def _start_member(self, machine: Object, cluster: str, authority: KeyPair) -> None:
        own = Host(objects.name(machine), address_of(machine))
        machines = (await self._client.list(simulated.SIMULATED_MACHINES, NAMESPACE)).items
        others = [Host(objects.name(each), address_of(each)) for each in machines if objects.name(each) != own.name]
        known = await self._world.ensembles.members(cluster)
        await self._world.ensembles.join(cluster, own, [each for each in others if each.name in known])
        await self._world.ensembles.settle(cluster, [own], [], authority)

    async def _end_member(self, machine: Object) -> None:
        cluster = objects.labels(machine).get(wellknown.CLUSTER_NAME_LABEL, "")
        await self._world.ensembles.end(cluster, address_of(machine))


def address_of(machine: Object) -> str:
    """On this host, for an infrastructure machine."""
    number = zlib.crc32(objects.uid(machine).encode())
    return f"127.{1 + (number >> 16) % 200}.{number >> 8 & 0xFF}.{1 + number % 254}"


async def kill_member(world: World, name: str, cluster: str = "c") -> None:
    """The machine of that name goes on without its etcd."""
    await world.ensembles.end(cluster, address_of(await world.one(simulated.SIMULATED_MACHINES, name)))


async def revive_member(world: World, name: str, cluster: str = "c") -> None:
    found = await world.one(capi.CLUSTERS, cluster)
    authority = await certificates.read_authority(world.client, found, certificates.ETCD_CA)
    host = Host(name, address_of(await world.one(simulated.SIMULATED_MACHINES, name)))
    await world.ensembles.settle(cluster, [host], [], authority)


def cloud_config_files(secret: Object) -> dict[str, str]:
    config: Any = yaml.safe_load(base64.b64decode(str(objects.at(secret, "data", "value"))))
    entries = map(objects.mapping, objects.sequence(objects.mapping(config).get("write_files")))
    return {str(entry["path"]): str(entry["content"]) for entry in entries}


async def _check_token(workload: Client, text: str) -> None:
    join = cast(Object, yaml.safe_load(text))
    token_id, _, token_secret = str(objects.at(join, "discovery", "bootstrapToken", "token")).partition(".")
    secret = await workload.get(resources.SECRETS, f"bootstrap-token-{token_id}", "kube-system")
    assert base64.b64decode(str(objects.at(secret, "data", "token-secret"))).decode() == token_secret


def _node(name: str, provider_id: str) -> Object:
    good = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {
            "providerID": provider_id,
            "taints": [{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}],
        },
        "status": {"conditions": [{"type": type_, "status": status} for type_, status in good.items()]},
    }


def template(name: str) -> Object:
    return {
        "apiVersion": simulated.SIMULATED_MACHINE_TEMPLATES.api_version,
        "kind": "SimulatedMachineTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"template": {"spec": {"cpuCores": 2, "memoryGi": 4, "diskGb": 20}}},
    }


def reference(resource: Resource, name: str) -> Object:
    return {"apiGroup": resource.group, "kind": resource.kind, "name": name}


def cluster_objects(name: str = "c", *, control_plane: int = 1, workers: int = 1) -> list[tuple[Resource, Object]]:
    """A cluster as a user would write it, in no particular order."""

    def made(resource: Resource, spec: Object) -> tuple[Resource, Object]:
        metadata = {"name": name, "namespace": NAMESPACE}
        return resource, {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": metadata,
            "spec": spec,
        }

    labels = {"cluster.x-k8s.io/deployment-name": name}
    return [
        made(
            capi.MACHINE_DEPLOYMENTS,
            {
                "clusterName": name,
                "replicas": workers,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": {**labels, "node-role.kubernetes.io/worker": ""}},
                    "spec": {
                        "clusterName": name,
                        "version": VERSION,
                        "bootstrap": {"configRef": reference(capi.KUBEADM_CONFIG_TEMPLATES, name)},
                        "infrastructureRef": reference(simulated.SIMULATED_MACHINE_TEMPLATES, name),
                    },
                },
            },
        ),
        made(
            capi.KUBEADM_CONTROL_PLANES,
            {
                "replicas": control_plane,
                "version": VERSION,
                "machineTemplate": {
                    "spec": {"infrastructureRef": reference(simulated.SIMULATED_MACHINE_TEMPLATES, name)}
                },
                "kubeadmConfigSpec": {"clusterConfiguration": {"certificatesDir": "/etc/kubernetes/pki"}},
            },
        ),
        made(
            capi.CLUSTERS,
            {
                "clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16"]}},
                "controlPlaneRef": reference(capi.KUBEADM_CONTROL_PLANES, name),
                "infrastructureRef": reference(simulated.SIMULATED_CLUSTERS, name),
            },
        ),
        made(simulated.SIMULATED_CLUSTERS, {}),
        made(capi.KUBEADM_CONFIG_TEMPLATES, {"template": {"spec": {"preKubeadmCommands": ["true"]}}}),
        (simulated.SIMULATED_MACHINE_TEMPLATES, template(name)),
    ]


async def create(world: World, made: list[tuple[Resource, Object]]) -> None:
    for resource, obj in made:
        await world.client.create(resource, obj)


async def is_settled(world: World, *, machines: int, cluster: str = "c") -> bool:
    """So many machines, all running, and the cluster available with nothing going on."""
    found = await world.all(capi.MACHINES)
    seen = await world.one(capi.CLUSTERS, cluster)
    return (
        len(found) == machines
        and all(objects.at(each, "status", "phase") == "Running" for each in found)
        and all(conditions.is_true(each, "Available") for each in found)
        and conditions.is_true(seen, "Available")
        and not any(conditions.is_true(seen, type_) for type_ in ("RollingOut", "ScalingUp", "ScalingDown"))
    )
