"""A new version of Kubernetes: what a cluster is told before a machine with it joins, and who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.kubeadmcontrolplane import upgrading
from steelyard.controllers.lifecycle.machineset import preflight
from steelyard.kube import objects, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import NAMESPACE, VERSION, World, until

NEXT = "v1.34.5"
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


async def test_workers_follow_when_the_last_old_control_plane_machine_is_gone(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(control_plane=1, workers=2))
        await _settled(world, 3)
        await _tell(await world.workload("c"), VERSION)
        seen: list[dict[str, set[str]]] = []
        await _upgrade(world)

        async def rolled() -> bool:
            versions = await _versions(world)
            seen.append(versions)
            return versions == {"plane": {NEXT}, "workers": {NEXT}} and await worlds.is_settled(world, machines=3)

        await until(rolled, "every machine has the new version")
    early = [each for each in seen if NEXT in each["workers"] and VERSION in each["plane"]]
    assert not early, "a worker had the new version while a control-plane machine had the old one"


async def test_a_joining_control_plane_finds_its_version_in_the_cluster(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(control_plane=1, workers=1))
        await _settled(world, 2)
        workload = await world.workload("c")
        await _tell(workload, VERSION)
        change: Object = {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"apiServer": {"extraArgs": [
            {"name": "audit-log-maxage", "value": "7"}
        ]}}}}}  # fmt: skip
        await world.client.patch(capi.KUBEADM_CONTROL_PLANES, "c", change, NAMESPACE)
        await _upgrade(world)

        async def upgraded() -> bool:
            return await _versions(world) == {"plane": {NEXT}, "workers": {NEXT}}

        await until(upgraded, "every machine has the new version")
        configuration = await _configuration(workload)
        proxy = await workload.get(DAEMON_SETS, "kube-proxy", "kube-system")
    assert configuration["kubernetesVersion"] == NEXT
    assert configuration["apiServer"]["extraArgs"] == [{"name": "audit-log-maxage", "value": "7"}]
    assert configuration["etcd"] == {"local": {"dataDir": "/var/lib/etcd"}}, "what kubeadm has filled in stays"
    assert configuration["networking"] == {"podSubnet": "10.1.0.0/16"}
    (container,) = objects.sequence(objects.at(proxy, "spec", "template", "spec", "containers"))
    assert container["image"] == f"registry.k8s.io/kube-proxy:{NEXT}"
    assert container["command"] == ["kube-proxy"]
    assert objects.at(proxy, "spec", "updateStrategy") == {"type": "OnDelete"}, "Nodes keep the one of their version"


async def test_telling_twice_writes_once(world: World) -> None:
    workload = await world.workload("c")
    await _tell(workload, VERSION)
    control_plane, cluster = _control_plane(NEXT), _cluster()
    await upgrading.announce(workload, control_plane, cluster)
    first = await _revisions(workload)
    await upgrading.announce(workload, control_plane, cluster)
    assert await _revisions(workload) == first


async def test_a_control_plane_may_keep_kube_proxy_and_coredns_to_somebody_else(world: World) -> None:
    workload = await world.workload("c")
    await _tell(workload, VERSION)
    control_plane = _control_plane(NEXT)
    control_plane["metadata"]["annotations"] = {upgrading.SKIP_KUBE_PROXY: "", upgrading.SKIP_COREDNS: ""}
    await upgrading.announce(workload, control_plane, _cluster())
    await upgrading.follow(workload, control_plane, [_node("coredns:v1.12.9")])
    proxy = await workload.get(DAEMON_SETS, "kube-proxy", "kube-system")
    assert objects.at(proxy, "spec", "template", "spec", "containers")[0]["image"].endswith(VERSION)
    assert await _coredns(workload) == "registry.k8s.io/coredns/coredns:v1.12.1"


@pytest.mark.parametrize(
    ("carried", "expected"),
    [
        pytest.param([["v1.12.1"]], "v1.12.1", id="the-same-stays"),
        pytest.param([["v1.13.0"]], "v1.13.0", id="the-one-that-machines-carry"),
        pytest.param([["v1.9.3", "v1.13.0"], ["v1.13.0", "v1.9.3"]], "v1.13.0", id="the-newest-by-number"),
        pytest.param([["v1.13.0"], ["v1.14.0"]], "v1.12.1", id="none-that-all-of-them-have"),
        pytest.param([list[str]()], "v1.12.1", id="fetched-and-not-carried"),
    ],
)
async def test_coredns_becomes_the_one_that_new_machines_carry(
    world: World, carried: list[list[str]], expected: str
) -> None:
    workload = await world.workload("c")
    await _tell(workload, VERSION)
    nodes = [_node(*(f"coredns:{tag}" for tag in tags)) for tags in carried]
    await upgrading.follow(workload, _control_plane(NEXT), nodes)
    assert await _coredns(workload) == f"registry.k8s.io/coredns/coredns:{expected}"


async def test_a_configuration_that_kubeadm_could_not_read_is_not_joined_with(world: World) -> None:
    workload = await world.workload("c")
    await _tell(workload, VERSION)
    await workload.patch(
        resources.CONFIG_MAPS, "kubeadm-config", {"data": {"ClusterConfiguration": "a: ["}}, "kube-system"
    )
    with pytest.raises(upgrading.NotTold, match="kube-system/kubeadm-config in the cluster is not readable"):
        await upgrading.announce(workload, _control_plane(NEXT), _cluster())


@pytest.mark.parametrize(
    ("workers", "plane", "current", "annotation", "expected"),
    [
        pytest.param(VERSION, VERSION, VERSION, "", [], id="nothing-changes"),
        pytest.param(VERSION, VERSION, "", "", [], id="a-new-cluster"),
        pytest.param(NEXT, NEXT, VERSION, "", ["ControlPlaneIsStable"], id="the-control-plane-is-on-its-way"),
        pytest.param("v1.35.0", VERSION, VERSION, "", ["KubernetesVersionSkew", "KubeadmVersionSkew"], id="newer"),
        pytest.param("v1.33.1", VERSION, VERSION, "", ["KubeadmVersionSkew"], id="kubeadm-joins-its-own-minor"),
        pytest.param("v1.30.1", VERSION, VERSION, "KubeadmVersionSkew", ["KubernetesVersionSkew"], id="too-far-behind"),
        pytest.param("v1.31.1", VERSION, VERSION, "KubeadmVersionSkew", [], id="three-behind-is-allowed"),
        pytest.param("v1.35.0", NEXT, VERSION, "All", [], id="all-skipped"),
        pytest.param("", VERSION, VERSION, "", [], id="a-machine-that-says-no-version"),
    ],
)
def test_new_workers_wait_for(workers: str, plane: str, current: str, annotation: str, expected: list[str]) -> None:
    machine_set: Object = {
        "metadata": {"name": "s", "annotations": {preflight.SKIP_ANNOTATION: annotation} if annotation else {}},
        "spec": {
            "template": {"spec": {"version": workers, "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate"}}}}
        },
    }
    control_plane = _control_plane(plane)
    control_plane["status"] = {"version": current} if current else {}
    found = preflight.problems(machine_set, control_plane)
    assert [next(name for name in expected if f'"{name}"' in problem) for problem in found] == expected


async def _settled(world: World, machines: int) -> None:
    async def check() -> bool:
        return await worlds.is_settled(world, machines=machines)

    await until(check, f"{machines} machines running")


async def _upgrade(world: World) -> None:
    """As the claims controller does it: one after the other, and at once."""
    await world.client.patch(capi.KUBEADM_CONTROL_PLANES, "c", {"spec": {"version": NEXT}}, NAMESPACE)
    body: Object = {"spec": {"template": {"spec": {"version": NEXT}}}}
    await world.client.patch(capi.MACHINE_DEPLOYMENTS, "c", body, NAMESPACE)


async def _versions(world: World) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"plane": set(), "workers": set()}
    for machine in await world.all(capi.MACHINES):
        role = "plane" if "cluster.x-k8s.io/control-plane" in objects.labels(machine) else "workers"
        found[role].add(str(objects.at(machine, "spec", "version")))
    return found


async def _tell(workload: Client, version: str) -> None:
    """What kubeadm leaves in a cluster that it has made."""
    configuration: Object = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "clusterName": "c",
        "kubernetesVersion": version,
        "apiServer": {},
        "controllerManager": {},
        "scheduler": {},
        "dns": {},
        "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
        "imageRepository": "registry.k8s.io",
        "networking": {"podSubnet": "10.1.0.0/16"},
    }
    await workload.create(
        resources.CONFIG_MAPS, _named("kubeadm-config", data={"ClusterConfiguration": yaml.safe_dump(configuration)})
    )
    proxy = {"name": "kube-proxy", "image": f"registry.k8s.io/kube-proxy:{version}", "command": ["kube-proxy"]}
    await workload.create(DAEMON_SETS, _named("kube-proxy", spec=_running(proxy)))
    dns = {"name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.12.1"}
    await workload.create(DEPLOYMENTS, _named("coredns", spec=_running(dns)))


def _named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "kube-system"}, **fields}


def _running(container: Object) -> Object:
    labels = {"k8s-app": str(container["name"])}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {"selector": {"matchLabels": labels}, "template": template}


async def _configuration(workload: Client) -> Any:
    held = await workload.get(resources.CONFIG_MAPS, "kubeadm-config", "kube-system")
    return yaml.safe_load(str(objects.at(held, "data", "ClusterConfiguration")))


async def _coredns(workload: Client) -> str:
    found = await workload.get(DEPLOYMENTS, "coredns", "kube-system")
    return str(objects.at(found, "spec", "template", "spec", "containers")[0]["image"])


async def _revisions(workload: Client) -> list[str]:
    found = [
        await workload.get(resources.CONFIG_MAPS, "kubeadm-config", "kube-system"),
        await workload.get(DAEMON_SETS, "kube-proxy", "kube-system"),
    ]
    return [objects.resource_version(each) for each in found]


def _control_plane(version: str) -> Object:
    return {
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "c"},
        "spec": {"version": version, "kubeadmConfigSpec": {}},
    }


def _cluster() -> Object:
    return {"metadata": {"name": "c"}, "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}}}


def _node(*images: str) -> Object:
    names = [[f"registry.k8s.io/coredns/{image}", f"registry.k8s.io/coredns/{image}@sha256:0"] for image in images]
    return {"status": {"images": [{"names": each} for each in names]}}
