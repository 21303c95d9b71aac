"""The life of a cluster as somebody sees it who looks at the objects: created, scaled, rolled, paused, deleted."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.api import resources as simulated
from steelyard.api.clusterapi import resources as capi
from steelyard.kube import objects, pki, resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.store import reserve
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import NAMESPACE, World, until

PATCHED = "cluster.x-k8s.io/paused"


async def settled(world: World, machines: int) -> None:
    async def check() -> bool:
        return await worlds.is_settled(world, machines=machines)

    await until(check, f"{machines} machines running and the cluster available")


async def patch(world: World, resource: Resource, body: Object, name: str = "c") -> None:
    await world.client.patch(resource, name, body, NAMESPACE)


def is_worker(machine: Object) -> bool:
    return "cluster.x-k8s.io/control-plane" not in objects.labels(machine)


async def test_a_cluster_comes_up_whatever_the_order_of_its_objects(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(workers=2))
        await settled(world, 3)
    cluster = await world.one(capi.CLUSTERS, "c")
    assert objects.at(cluster, "spec", "controlPlaneEndpoint") == {"host": "127.0.0.1", "port": 6443}
    assert objects.at(cluster, "status", "phase") == "Provisioned"
    assert objects.at(cluster, "status", "controlPlane", "readyReplicas") == 1
    assert objects.at(cluster, "status", "workers") == {
        "desiredReplicas": 2,
        "replicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "upToDateReplicas": 2,
    }
    for machine in await world.all(capi.MACHINES):
        assert objects.at(machine, "status", "nodeRef", "name") == objects.name(machine)
        assert conditions.is_true(machine, "UpToDate")


async def test_the_first_of_three_control_planes_initializes_and_the_others_join(world: World) -> None:
    initializing: dict[str, bool] = {}
    made = worlds.cluster_objects(control_plane=3, workers=1)
    for resource, obj in made:
        if resource == capi.KUBEADM_CONTROL_PLANES:
            registration = {"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "2"}]}}
            obj["spec"]["kubeadmConfigSpec"] |= {"initConfiguration": registration, "joinConfiguration": registration}

    async def check() -> bool:
        for config in await world.all(capi.KUBEADM_CONFIGS):
            if "cluster.x-k8s.io/control-plane" in objects.labels(config):
                initializing[objects.name(config)] = "initConfiguration" in config["spec"]
        return await worlds.is_settled(world, machines=4)

    async with worlds.running(world):
        await worlds.create(world, made)
        await until(check, "four machines running and the cluster available")
    assert sorted(initializing.values()) == [False, False, True], "one initializes, and none is made again"


async def test_what_belongs_to_a_cluster_is_labelled_and_owned_as_upstream_has_it(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects())
        await settled(world, 2)
    cluster = await world.one(capi.CLUSTERS, "c")
    control_plane = await world.one(capi.KUBEADM_CONTROL_PLANES, "c")
    assert objects.is_owned_by(control_plane, cluster)
    assert objects.is_owned_by(await world.one(simulated.SIMULATED_MACHINE_TEMPLATES, "c"), cluster)
    assert objects.is_owned_by(await world.one(capi.KUBEADM_CONFIG_TEMPLATES, "c"), cluster)
    for purpose in ("ca", "etcd", "proxy", "sa", "kubeconfig"):
        secret = await world.one(resources.SECRETS, f"c-{purpose}")
        assert secret["type"] == "cluster.x-k8s.io/secret"
        assert objects.labels(secret) == {"cluster.x-k8s.io/cluster-name": "c"}
        assert objects.is_owned_by(secret, control_plane)
    for machine in await world.all(capi.MACHINES):
        infrastructure = await world.one(simulated.SIMULATED_MACHINES, objects.name(machine))
        config = await world.one(capi.KUBEADM_CONFIGS, objects.name(machine))
        secret = await world.one(resources.SECRETS, objects.name(machine))
        assert objects.annotations(infrastructure)["cluster.x-k8s.io/cloned-from-name"] == "c"
        assert objects.annotations(infrastructure)["cluster.x-k8s.io/cloned-from-groupkind"] == (
            "SimulatedMachineTemplate.infrastructure.cluster.x-k8s.io"
        )
        assert [reference["uid"] for reference in objects.owner_references(infrastructure)] == [objects.uid(machine)]
        assert [reference["uid"] for reference in objects.owner_references(config)] == [objects.uid(machine)]
        assert [reference["uid"] for reference in objects.owner_references(secret)] == [objects.uid(config)]
    assert await world.names(resources.CONFIG_MAPS) == ["kube-root-ca.crt"] or not await world.names(
        resources.CONFIG_MAPS
    )


async def test_the_kubeconfig_speaks_for_an_administrator_of_the_clusters_own_authority(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(workers=0))
        await settled(world, 1)
    secret = await world.one(resources.SECRETS, "c-kubeconfig")
    config: Any = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
    authority = (await world.one(resources.SECRETS, "c-ca"))["data"]["tls.crt"]
    assert objects.at(config, "clusters", 0, "cluster", "server") == "https://127.0.0.1:6443"
    assert objects.at(config, "clusters", 0, "cluster", "certificate-authority-data") == authority
    assert config["current-context"] == "c-admin@c"
    certificate = base64.b64decode(str(objects.at(config, "users", 0, "user", "client-certificate-data")))
    assert pki.expiry_of(certificate)


async def test_workers_join_with_a_token_and_the_authoritys_hash(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects())
        await settled(world, 2)
    worker = next(machine for machine in await world.all(capi.MACHINES) if is_worker(machine))
    files = worlds.cloud_config_files(await world.one(resources.SECRETS, objects.name(worker)))
    join: Any = yaml.safe_load(files["/run/kubeadm/kubeadm-join-config.yaml"])
    authority = base64.b64decode((await world.one(resources.SECRETS, "c-ca"))["data"]["tls.crt"])
    assert join["apiVersion"] == "kubeadm.k8s.io/v1beta4"
    assert objects.at(join, "discovery", "bootstrapToken", "caCertHashes") == [pki.key_hash(authority)]
    assert objects.at(join, "discovery", "bootstrapToken", "apiServerEndpoint") == "127.0.0.1:6443"
    assert not any(path.startswith("/etc/kubernetes/pki") for path in files)


async def test_nodes_get_their_machines_labels_and_lose_the_startup_taint(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects())
        await settled(world, 2)
    worker = next(machine for machine in await world.all(capi.MACHINES) if is_worker(machine))
    node = await world.workloads["c"].get(resources.NODES, objects.name(worker))
    assert objects.labels(node)["node-role.kubernetes.io/worker"] == ""
    assert objects.annotations(node)["cluster.x-k8s.io/machine"] == objects.name(worker)
    assert objects.annotations(node)["cluster.x-k8s.io/owner-kind"] == "MachineSet"
    assert not objects.at(node, "spec", "taints")


async def test_scaling_up_and_down_keeps_the_other_machines(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects())
        await settled(world, 2)
        first = {objects.uid(machine) for machine in await world.all(capi.MACHINES)}
        await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"replicas": 3}})
        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 3}})
        await settled(world, 6)
        assert first <= {objects.uid(machine) for machine in await world.all(capi.MACHINES)}
        assert len(await world.all(capi.MACHINE_SETS)) == 1
        await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"replicas": 1}})
        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 1}})
        await settled(world, 2)
        left = set(await world.names(capi.MACHINES))
    assert set(await world.names(simulated.SIMULATED_MACHINES)) == left
    assert set(await world.names(capi.KUBEADM_CONFIGS)) == left
    nodes = await world.workloads["c"].list(resources.NODES)
    assert {objects.name(node) for node in nodes.items} == left
    assert world.booted["c"] == 6


async def test_a_new_template_replaces_every_machine_one_by_one(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(control_plane=1, workers=2))
        await settled(world, 3)
        before = set(await world.names(capi.MACHINES))
        await world.client.create(simulated.SIMULATED_MACHINE_TEMPLATES, worlds.template("bigger"))
        bigger = worlds.reference(simulated.SIMULATED_MACHINE_TEMPLATES, "bigger")
        most: list[int] = []

        async def rolled() -> bool:
            found = await world.names(capi.MACHINES)
            most.append(len(found))
            return not before & set(found) and await worlds.is_settled(world, machines=3)

        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"template": {"spec": {"infrastructureRef": bigger}}}})
        await patch(
            world,
            capi.KUBEADM_CONTROL_PLANES,
            {"spec": {"machineTemplate": {"spec": {"infrastructureRef": bigger}}}},
        )
        await until(rolled, "every machine replaced")

        async def cleaned() -> bool:
            return len(await world.all(capi.MACHINE_SETS)) == 1

        await until(cleaned, "the old MachineSet removed")
    assert max(most) <= 5
    for infrastructure in await world.all(simulated.SIMULATED_MACHINES):
        assert objects.annotations(infrastructure)["cluster.x-k8s.io/cloned-from-name"] == "bigger"
    deployment = await world.one(capi.MACHINE_DEPLOYMENTS, "c")
    assert objects.annotations(deployment)["machinedeployment.clusters.x-k8s.io/revision"] == "2"


async def test_deleting_a_cluster_leaves_nothing(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(control_plane=1, workers=2))
        await settled(world, 3)
        before = [name for name in await world.left() if name.startswith("ConfigMap/kube-root")]
        await world.client.delete(capi.CLUSTERS, "c", NAMESPACE)

        async def gone() -> bool:
            return await world.left() == before

        await until(gone, "nothing of the cluster left")


async def test_a_cluster_goes_while_the_disk_is_full(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is part of deleting something is written then: nothing may have to be done to an object before."""
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(control_plane=3, workers=2))
        await settled(world, 5)
        before = [name for name in await world.left() if name.startswith("ConfigMap/kube-root")]
        monkeypatch.setattr(reserve, "_free", _none)
        full = reserve.Reserve(tmp_path / "reserve")
        assert full.is_full
        world.store.rely_on(full)
        await world.client.delete(capi.CLUSTERS, "c", NAMESPACE)

        async def gone() -> bool:
            return await world.left() == before

        await until(gone, "nothing of the cluster left")


async def test_a_cluster_that_never_came_up_can_be_deleted(world: World) -> None:
    made = [(resource, obj) for resource, obj in worlds.cluster_objects() if resource != simulated.SIMULATED_CLUSTERS]
    async with worlds.running(world):
        await worlds.create(world, made)

        async def reported() -> bool:
            cluster = await world.one(capi.CLUSTERS, "c")
            return conditions.message_of(cluster, "InfrastructureReady") == "SimulatedCluster does not exist"

        await until(reported, "the missing infrastructure reported")
        await world.client.delete(capi.CLUSTERS, "c", NAMESPACE)

        async def gone() -> bool:
            return not await world.all(capi.CLUSTERS) and not await world.all(capi.MACHINES)

        await until(gone, "the cluster gone")


async def test_a_paused_cluster_is_left_alone_until_it_is_resumed(world: World) -> None:
    async with worlds.running(world) as manager:
        await worlds.create(world, worlds.cluster_objects())
        await settled(world, 2)
        await patch(world, capi.CLUSTERS, {"spec": {"paused": True}})

        async def paused() -> bool:
            return conditions.is_true(await world.one(capi.MACHINE_DEPLOYMENTS, "c"), "Paused")

        await until(paused, "the deployment paused")
        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 2}})
        await manager.idle(within=0.5)
        assert len(await world.all(capi.MACHINES)) == 2
        await patch(world, capi.CLUSTERS, {"spec": {"paused": None}})
        await settled(world, 3)


async def test_a_missing_template_is_named_in_the_condition(world: World) -> None:
    made = [each for each in worlds.cluster_objects() if each[0] != simulated.SIMULATED_MACHINE_TEMPLATES]
    async with worlds.running(world):
        await worlds.create(world, made)

        async def reported() -> bool:
            deployment = await world.one(capi.MACHINE_DEPLOYMENTS, "c")
            message = conditions.message_of(deployment, "ScalingUp")
            return "SimulatedMachineTemplate c does not exist" in message

        await until(reported, "the missing template named")
        assert not await world.all(capi.MACHINES)


async def test_a_cluster_at_rest_is_not_written_to(world: World) -> None:
    async with worlds.running(world) as manager:
        await worlds.create(world, worlds.cluster_objects(workers=2))
        await settled(world, 3)
        await manager.idle(within=1.0, settle=0.2)
        revision = world.store.revision
        await manager.idle(within=0.0, settle=0.5)
        assert world.store.revision == revision


async def test_a_restart_writes_nothing(world: World) -> None:
    async with worlds.running(world) as manager:
        await worlds.create(world, worlds.cluster_objects())
        await settled(world, 2)
        await manager.idle(within=1.0, settle=0.2)
    revision = world.store.revision
    async with worlds.running(world) as manager:
        await manager.idle(within=1.0, settle=0.3)
        assert world.store.revision == revision


def _none(_: Path) -> int:
    return 0
