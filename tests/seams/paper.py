"""The smallest infrastructure that there is: machines of paper. They run as soon as they are written down.

Its half for composition is `PAPER`, its half for the world `PROVIDER`. What its machines join is an API server in this
process, so that everything above them finds what it expects.
"""

from __future__ import annotations

import base64
from typing import Any

from pydantic import Field

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.model import ApiModel, Conditions, Initialization, Kind
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.shape import Shape, Sizes
from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, SECRETS, Resource
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.controller import Controller, Result, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.server.webhooks import reach
from steelyard.providers.simulated import boot
from steelyard.providers.toolkit import clusterapi, reporting
from steelyard.providers.toolkit.provider import Ground, Provider, Started, Stored, World

GROUP = "infrastructure.cluster.x-k8s.io"
PAPER_CLUSTERS = Resource(GROUP, "v1beta2", "paperclusters", "PaperCluster")
PAPER_MACHINES = Resource(GROUP, "v1beta2", "papermachines", "PaperMachine")
PAPER_TEMPLATES = Resource(GROUP, "v1beta2", "papermachinetemplates", "PaperMachineTemplate")
FINALIZER = "paper.example.org"
_CONTRACT = {"cluster.x-k8s.io/v1beta2": "v1beta2"}


class Endpoint(ApiModel):
    host: str = ""
    port: int = 0


class PaperClusterSpec(ApiModel):
    control_plane_endpoint: Endpoint | None = None


class PaperMachineSpec(ApiModel):
    provider_id: str | None = Field(default=None, alias="providerID")
    sheets: int = 1


class PaperTemplateBody(ApiModel):
    spec: PaperMachineSpec


class PaperTemplateSpec(ApiModel):
    template: PaperTemplateBody


class PaperStatus(ApiModel):
    conditions: Conditions | None = None
    initialization: Initialization | None = None


def _kind(resource: Resource, spec: type[ApiModel], status: type[ApiModel] | None) -> Kind:
    return Kind(
        resource=resource,
        singular=resource.kind.lower(),
        description="Of paper.",
        spec=spec,
        status=status,
        labels=_CONTRACT,
    )


def _machine(shape: Shape, sizes: Sizes) -> Object:
    return {"sheets": sizes.cpu_cores}


PAPER = Infrastructure(
    name="paper",
    cluster=PAPER_CLUSTERS,
    template=PAPER_TEMPLATES,
    machine_spec=_machine,
    kinds=(
        _kind(PAPER_CLUSTERS, PaperClusterSpec, PaperStatus),
        _kind(PAPER_MACHINES, PaperMachineSpec, PaperStatus),
        _kind(PAPER_TEMPLATES, PaperTemplateSpec, None),
    ),
)


class ClusterReconciler:
    def __init__(self, ground: Ground, hosting: Hosting) -> None:
        self._client = ground.manager.client
        self._clock = ground.clock
        self._hosting = hosting

    async def reconcile(self, key: Key) -> Result:
        try:
            obj = await self._client.get(PAPER_CLUSTERS, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        if objects.is_being_deleted(obj):
            await self._hosting.erase(objects.uid(obj))
            await finalizers.remove(self._client, PAPER_CLUSTERS, obj, FINALIZER)
            return Result()
        if await clusterapi.owner_cluster(self._client, obj) is None:
            return Result()
        port = await self._hosting.reserve(objects.uid(obj), clusterapi.endpoint_port(obj))
        wanted = objects.copy(obj)
        wanted["metadata"]["finalizers"] = [FINALIZER]
        wanted["spec"] = {"controlPlaneEndpoint": {"host": self._hosting.advertised_host, "port": port}}
        obj = await patching.patch(self._client, PAPER_CLUSTERS, obj, wanted)
        await reporting.report(
            self._client, PAPER_CLUSTERS, obj, provisioned=True, ready=True, reason="Written", clock=self._clock
        )
        return Result()


class MachineReconciler:
    def __init__(self, ground: Ground, hosting: Hosting) -> None:
        self._client = ground.manager.client
        self._clock = ground.clock
        self._hosting = hosting

    async def reconcile(self, key: Key) -> Result:
        try:
            obj = await self._client.get(PAPER_MACHINES, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        if objects.is_being_deleted(obj):
            await finalizers.remove(self._client, PAPER_MACHINES, obj, FINALIZER)
            return Result()
        machine = await clusterapi.owner_machine(self._client, obj)
        cluster = await clusterapi.cluster_of(self._client, obj)
        secret = str(objects.at(machine, "spec", "bootstrap", "dataSecretName") or "")
        paper = await clusterapi.infrastructure_of(self._client, cluster, PAPER_CLUSTERS) if cluster else None
        if machine is None or paper is None or not secret:
            return Result()
        wanted = objects.copy(obj)
        wanted["metadata"]["finalizers"] = [FINALIZER]
        wanted["spec"]["providerID"] = f"paper://{objects.uid(obj)}"
        obj = await patching.patch(self._client, PAPER_MACHINES, obj, wanted)
        if not await self._join(obj, machine, objects.uid(paper), secret):
            return Result(requeue_after=0.1)
        await reporting.report(
            self._client, PAPER_MACHINES, obj, provisioned=True, ready=True, reason="Written", clock=self._clock
        )
        return Result()

    async def _join(self, obj: Object, machine: Object, cluster: str, secret: str) -> bool:
        data = await self._client.get(SECRETS, secret, objects.namespace(obj))
        found = boot.read(base64.b64decode(data["data"]["value"]), default_node_name=objects.name(obj))
        if isinstance(found, boot.Init):
            await self._hosting.serve(cluster, found.authority, service_cidr=found.service_cidr, version=found.version)
        api = self._hosting.running(cluster)
        if api is None:
            return False
        labels = {"kubernetes.io/os": "linux"}
        if clusterapi.is_control_plane(obj):
            labels["node-role.kubernetes.io/control-plane"] = ""
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": found.node_name, "labels": labels},
            "spec": {"providerID": obj["spec"]["providerID"]},
            "status": {
                "conditions": _conditions(self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")),
                "nodeInfo": _info(str(machine["spec"]["version"])),
            },
        }
        client = LocalClient(api)
        try:
            await client.create(NODES, node)
            await client.patch(NODES, found.node_name, {"status": node["status"]}, subresource="status")
        except errors.AlreadyExists:
            return True
        return True


def _conditions(now: str) -> list[Object]:
    well = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return [
        {"type": type_, "status": status, "reason": "Paper", "message": "it is paper", **times}
        for type_, status in well.items()
    ]


def _info(version: str) -> dict[str, Any]:
    names = (
        "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "machineID",
        "operatingSystem", "osImage", "systemUUID",
    )  # fmt: skip
    return {**dict.fromkeys(names, "paper"), "kubeletVersion": version}


async def _start(ground: Ground) -> Started:
    hosting = ground.host_apis("paper", reach=reach.PUBLIC, quota=0)
    return Started(
        [
            Controller(
                "paper-cluster",
                PAPER_CLUSTERS,
                ClusterReconciler(ground, hosting),
                [Watch(CLUSTERS, clusterapi.referred(PAPER_CLUSTERS))],
            ),
            Controller(
                "paper-machine",
                PAPER_MACHINES,
                MachineReconciler(ground, hosting),
                [Watch(MACHINES, clusterapi.referred(PAPER_MACHINES))],
            ),
        ],
        checks={"paper": lambda: None},
    )


def _unknown(world: World) -> list[str]:
    known = {objects.at(machine, "spec", "providerID") for machine in world.restored(MACHINES)}

    def is_lost(stored: Stored) -> bool:
        return stored.plural == NODES.plural and objects.at(stored.object, "spec", "providerID") not in known

    return [f"paper/{objects.name(each.object)}" for each in world.read("paper") if is_lost(each)]


PROVIDER = Provider("paper", _start, databases=("paper",), stands_for="the paper", unknown=_unknown)
