"""The life of one claim, document 000's, on KubeVirt: from the claim to machines that have joined, and away again.

How far it goes: there is no etcd to look into behind the played control plane, so Cluster API never says that it is
healthy, and the claim waits for that. Everything before it is as upstream's programs have it.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import subprocess
import time
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, cast

import yaml

from steelyard import settings
from steelyard.api import resources as claimkinds
from steelyard.api.clusterapi import resources as capi
from steelyard.compose.infrastructures import kubevirt
from steelyard.compose.infrastructures.kubevirtcloud import DEPLOYMENTS
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, NODES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from tests.ecosystem.kubevirt import hypervisor, site
from tests.ecosystem.kubevirt.guest import BOOTSTRAPPED, PORT, Guest
from tests.ecosystem.kubevirt.site import Site
from tests.ecosystem.outcome import Outcome

_NAME: Final = "Cluster API 1.11.3 and its provider for KubeVirt 0.1.10, on kube-apiserver"
_VERSION: Final = "v1.32.1"
_PLATFORM: Final = """\
domain: pnats.cloud
connectionSecrets: {grants: [{claimsIn: [crossplane-system], secretsTo: [argocd]}]}
"""
_CLAIMS: Final = claimkinds.workload_clusters("pnats.cloud")
_MACHINES: Final = Resource(capi.INFRASTRUCTURE_GROUP, "v1alpha1", "kubevirtmachines", "KubevirtMachine")
_NAMESPACE: Final = "crossplane-system"
_CLAIM: Final = """\
apiVersion: compute.pnats.cloud/v1alpha1
kind: WorkloadCluster
metadata: {name: dev-cluster, namespace: crossplane-system}
spec:
  parameters:
    environment: dev
    infrastructure: kubevirt
    controlPlaneReplicas: 1
    workerReplicas: 2
    cpuCores: 8
    memoryGi: 32
    diskGb: 100
    kubernetesVersion: v1.32.1
  writeConnectionSecretToRef: {name: dev-cluster-kubeconfig, namespace: argocd}
"""
_VIRTUAL_MACHINE: Final = """\
runStrategy: Always
dataVolumeTemplates:
- metadata: {name: NAME-dev-cluster-boot-volume}
  spec:
    pvc:
      accessModes: [ReadWriteMany]
      resources: {requests: {storage: 100Gi}}
      storageClassName: nfs-client
    source: {registry: {url: "docker://quay.io/capk/ubuntu-2404-container-disk:v1.32.1"}}
template:
  metadata:
    annotations: {kubevirt.io/allow-pod-bridge-network-live-migration: "true"}
  spec:
    domain:
      cpu: {cores: 8}
      memory: {guest: 32Gi}
      devices:
        networkInterfaceMultiqueue: true
        disks:
        - {name: dv-volume, disk: {bus: virtio}}
        - {name: cloudinitvolume, disk: {bus: virtio}}
        interfaces:
        - {name: default, bridge: {}}
    evictionStrategy: LiveMigrate
    networks:
    - {name: default, pod: {}}
    volumes:
    - {name: dv-volume, dataVolume: {name: NAME-dev-cluster-boot-volume}}
    - {name: cloudinitvolume, cloudInitConfigDrive: {secretRef: {name: NAME-userdata}}}
"""
"""Document 000's, field by field; the provider adds the cloud-init disk."""


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    # Of the authorities that Cluster API makes.
    warnings.filterwarnings("ignore", "Parsed a serial number which wasn't positive")
    return asyncio.run(_run(folder))


async def _run(folder: Path) -> Outcome:
    missing = _missing()
    if missing:
        return Outcome(_NAME, 0, 1, story=missing)
    started = time.monotonic()
    passed: list[str] = []
    try:
        async with site.running(folder, settings.parse(_PLATFORM), _VERSION) as here:
            async for step in _life(here):
                passed.append(step)
                print(f"  {time.monotonic() - started:5.0f} s  {step}", flush=True)
    except (AssertionError, OSError, errors.ApiError, subprocess.SubprocessError, ExceptionGroup) as error:
        logs = await asyncio.to_thread(site.complaints, folder)
        story = f"after: {passed[-1] if passed else 'nothing'}\n{error!r}\n{logs}"
        return Outcome(_NAME, len(passed), 1, story=story)
    return Outcome(_NAME, len(passed), 0)


def _missing() -> str:
    if not site.DEFINITIONS.is_dir():
        return f"KubeVirt's and CDI's definitions are not here: {site.DEFINITIONS}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((hypervisor.FIRST_ADDRESS, PORT))
        except OSError as error:
            return (
                f"machines that are played answer at port {PORT} of {hypervisor.FIRST_ADDRESS}, which cannot be had: "
                f"{error}. Run this as root where no ssh server listens on all addresses, or in a network of its own: "
                "unshare --map-root-user --net sh -c 'ip link set lo up && make ecosystem ARGS=kubevirt'"
            )
    return ""


async def _life(here: Site) -> AsyncIterator[str]:
    """Yields what has been seen, step by step."""
    yield "the managers are ready, with their webhooks; our kinds and policies are defined; our controller runs"

    for name in (_NAMESPACE, "argocd"):
        await here.client.create(NAMESPACES, _named(NAMESPACES, name))
    await here.client.create(_CLAIMS, cast("Object", yaml.safe_load(_CLAIM)))
    claim = await here.until(lambda: _claim(here), lambda it: conditions.is_true(it, "Synced"), "the claim is Synced")
    namespace = str(claim["status"]["clusterRef"]["namespace"])
    parts = len(claim["status"]["inventory"])
    yield f"the claim is accepted and all {parts} objects of its cluster are applied, webhooks included"

    async for step in _infrastructure(here, namespace):
        yield step
    async for step in _control_plane(here, namespace):
        yield step
    async for step in _workers(here, namespace):
        yield step
    yield await _at_rest(here)
    async for step in _deletion(here, namespace):
        yield step


async def _infrastructure(here: Site, namespace: str) -> AsyncIterator[str]:
    service = await here.until(
        lambda: here.find(hypervisor.SERVICES, "dev-cluster-lb", namespace), bool, "the Service of the API"
    )
    assert service["spec"]["type"] == "LoadBalancer", service
    assert service["spec"]["ports"][0]["port"] == 6443, service
    ready = await here.until(
        lambda: here.find(kubevirt.CLUSTERS, "dev-cluster", namespace),
        lambda it: objects.at(it, "status", "ready") is True,
        "the KubevirtCluster is ready",
    )
    assert ready["spec"]["controlPlaneEndpoint"] == {"host": hypervisor.ENDPOINT, "port": 6443}, ready
    cluster = await here.until(
        lambda: here.find(capi.CLUSTERS, "dev-cluster", namespace),
        lambda it: objects.at(it, "status", "initialization", "infrastructureProvisioned") is True,
        "the Cluster's infrastructure is provisioned",
    )
    assert cluster["spec"]["controlPlaneEndpoint"] == {"host": hypervisor.ENDPOINT, "port": 6443}, cluster
    yield f"the KubevirtCluster is ready: Service dev-cluster-lb of type LoadBalancer has {hypervisor.ENDPOINT}:6443"


async def _control_plane(here: Site, namespace: str) -> AsyncIterator[str]:
    (machine,) = await here.until(lambda: here.all(hypervisor.MACHINES, namespace), bool, "the first VirtualMachine")
    name = objects.name(machine)
    _check_virtual_machine(machine)
    yield f"VirtualMachine {name} has document 000's fields"

    guest = await _guest(here, name)
    told = guest.cloud_init.kubeadm
    assert guest.cloud_init.begins_a_cluster, guest.cloud_init.commands
    configuration = told["ClusterConfiguration"]
    assert configuration["kubernetesVersion"] == _VERSION, configuration
    network = (await here.client.get(capi.CLUSTERS, "dev-cluster", namespace))["spec"]["clusterNetwork"]
    assert [configuration["networking"]["podSubnet"]] == network["pods"]["cidrBlocks"], configuration
    assert [configuration["networking"]["serviceSubnet"]] == network["services"]["cidrBlocks"], configuration
    arguments = told["InitConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]
    assert {"name": "cloud-provider", "value": "external"} in arguments, told
    keys = await here.client.get(SECRETS, "dev-cluster-ssh-keys", namespace)
    assert guest.cloud_init.keys["capk"] == [base64.b64decode(keys["data"]["pub"]).decode().strip()], keys
    (disk,) = await here.all(hypervisor.DISKS, namespace)
    assert objects.name(disk) == f"{name}-dev-cluster-boot-volume", disk
    yield "it boots from its disk with kubeadm's configuration, the cluster's keys and the provider's ssh key"

    held = await here.until(
        lambda: here.find(_MACHINES, name, namespace),
        lambda it: conditions.is_false(it, "BootstrapExecSucceeded"),
        "the bootstrap check has failed once",
    )
    assert held["status"].get("ready") is not True, held
    assert guest.asked[0] == ("capk", f"cat {BOOTSTRAPPED}"), guest.asked
    await here.until(
        lambda: _claim(here),
        lambda it: it["status"]["message"].endswith(f"waiting for machine {name}: VM not bootstrapped yet"),
        "the claim says what it waits for",
    )
    yield "it runs, but is not ready while ssh does not find kubeadm's success on it, and the claim says so"

    here.hypervisor.may_bootstrap.set()
    ready = await here.until(
        lambda: here.find(_MACHINES, name, namespace),
        lambda it: objects.at(it, "status", "ready") is True,
        "the KubevirtMachine is ready",
    )
    assert ready["spec"]["providerID"] == f"kubevirt://{name}", ready
    assert {each["address"] for each in ready["status"]["addresses"]} == {name, guest.address}, ready
    assert conditions.is_true(ready, "VMLiveMigratable"), ready
    yield f"after kubeadm's success the KubevirtMachine is ready, as kubevirt://{name}"

    await here.until(
        lambda: here.find(capi.KUBEADM_CONTROL_PLANES, "dev-cluster-control-plane", namespace),
        lambda it: objects.at(it, "status", "initialization", "controlPlaneInitialized") is True,
        "the control plane is initialized",
    )
    secret = await here.until(
        lambda: here.find(SECRETS, "dev-cluster-kubeconfig", "argocd"), bool, "the connection Secret"
    )
    assert secret["data"]["value"] == secret["data"]["kubeconfig"], "both keys have the same kubeconfig"
    assert f"https://{hypervisor.ENDPOINT}:6443" in base64.b64decode(secret["data"]["value"]).decode(), "its address"
    yield "the control plane is initialized; the claim's connection Secret has its kubeconfig"


async def _workers(here: Site, namespace: str) -> AsyncIterator[str]:
    machines = await here.until(
        lambda: here.all(hypervisor.MACHINES, namespace), lambda them: len(them) == 3, "the workers' VirtualMachines"
    )
    workers = [each for each in machines if objects.labels(each)["cluster.x-k8s.io/role"] == "worker"]
    assert len(workers) == 2, machines
    for worker in workers:
        _check_virtual_machine(worker)
        guest = await _guest(here, objects.name(worker))
        assert not guest.cloud_init.begins_a_cluster, guest.cloud_init.commands
    yield "two workers' VirtualMachines with the same fields, each with a disk of its own"

    names = [objects.name(each) for each in workers]
    deployment = await here.until(
        lambda: here.find(capi.MACHINE_DEPLOYMENTS, "dev-cluster-md-0", namespace),
        lambda it: objects.at(it, "status", "readyReplicas") == 2,
        "both workers are ready",
    )
    assert deployment["status"]["upToDateReplicas"] == 2, deployment
    assert {here.hypervisor.joined[name].partition("bootstrap:")[0] for name in names} == {"system:"}
    assert here.hypervisor.workload is not None
    nodes = (await here.hypervisor.workload.list(NODES)).items
    assert {node["spec"].get("providerID") for node in nodes} == {f"kubevirt://{objects.name(node)}" for node in nodes}
    yield "they join with the tokens that Cluster API made; the provider names each Node's machine; 2/2 are ready"

    await here.until(
        lambda: here.find(capi.MACHINE_HEALTH_CHECKS, "dev-cluster-md-0", namespace),
        lambda it: objects.at(it, "status", "currentHealthy") == 2,
        "the health check sees both",
    )
    claim = await here.until(
        lambda: _claim(here), lambda it: objects.at(it, "status", "workers", "ready") == 2, "the claim counts both"
    )
    yield f"the health check watches them; the claim says: {claim['status']['message']}"


async def _at_rest(here: Site) -> str:
    """Looked at again, nothing is applied: neither defaults nor other people's fields are fought over."""
    before = here.controller.applied
    poke: Object = {"metadata": {"annotations": {"example.org/look": "again"}}}
    await here.client.patch(_CLAIMS, "dev-cluster", poke, _NAMESPACE)
    await asyncio.sleep(3)
    assert here.controller.applied == before, f"{here.controller.applied - before} objects were applied again"
    return "composed again over what upstream made of it, nothing is applied"


async def _deletion(here: Site, namespace: str) -> AsyncIterator[str]:
    await here.client.delete(_CLAIMS, "dev-cluster", _NAMESPACE)

    async def machines() -> list[Object]:
        is_going = objects.is_being_deleted(await here.find(NAMESPACES, namespace))
        left = await here.all(hypervisor.MACHINES)
        assert not (left and is_going), "the namespace goes before its machines"
        return left

    await here.until(machines, lambda them: not them, "no VirtualMachine is left")
    yield "the claim deleted, the Cluster takes its machines along before anything else goes: no VirtualMachine is left"

    await here.until(lambda: _claim(here), lambda it: not it, "the claim is gone")
    await here.until(lambda: here.find(NAMESPACES, namespace), lambda it: not it, "the cluster's namespace is gone")
    kinds = (
        hypervisor.INSTANCES, hypervisor.DISKS, _MACHINES, kubevirt.CLUSTERS, kubevirt.MACHINE_TEMPLATES,
        capi.CLUSTERS, capi.MACHINES, capi.MACHINE_SETS, capi.KUBEADM_CONFIGS, DEPLOYMENTS,
    )  # fmt: skip
    left = {kind.plural: len(them) for kind in kinds if (them := await here.all(kind))}
    assert not left, left
    assert not await here.find(SECRETS, "dev-cluster-kubeconfig", "argocd"), "the connection Secret"
    yield "then the claim, its namespace, disks, Services and the connection Secret"


async def _claim(here: Site) -> Object:
    return await here.find(_CLAIMS, "dev-cluster", _NAMESPACE)


async def _guest(here: Site, name: str) -> Guest:
    async def look() -> Guest | None:
        return here.hypervisor.guests.get(name)

    guest = await here.until(look, lambda it: it is not None, f"{name} has booted")
    assert guest is not None
    return guest


def _check_virtual_machine(machine: Object) -> None:
    wanted = yaml.safe_load(_VIRTUAL_MACHINE.replace("NAME", objects.name(machine)))
    wrong = {
        path: (value, have) for path, value in _leaves(wanted) if (have := objects.at(machine["spec"], *path)) != value
    }
    assert not wrong, f"{objects.name(machine)}: wanted and found: {wrong}"


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(value, dict) and value:
        for key, inner in cast("Object", value).items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def _named(resource: Resource, name: str) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
