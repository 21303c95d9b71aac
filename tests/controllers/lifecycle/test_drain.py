"""A machine goes once its Node is empty of what must move; what holds a pod is told by name."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.machine import deletion, drain, volumes
from steelyard.controllers.lifecycle.machine.drain import PODS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import World, until

DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


async def place(
    workload: Client,
    node: str,
    name: str,
    *,
    phase: str = "Running",
    volumes: list[Object] | None = None,
    **metadata: Any,
) -> None:
    """A pod that runs on the node."""
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "volumes": volumes or []},
    }
    await workload.create(PODS, pod)
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
    await workload.patch(PODS, name, {"status": status}, "default", subresource="status")


async def daemon_set(workload: Client) -> Object:
    labels = {"app": "daemon"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return await workload.create(
        DAEMON_SETS,
        {
            "apiVersion": DAEMON_SETS.api_version,
            "kind": DAEMON_SETS.kind,
            "metadata": {"name": "daemon", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    )


async def guard(workload: Client, name: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    metadata = {"name": f"{name}-budget", "namespace": "default"}
    await workload.create(
        BUDGETS, {"apiVersion": "policy/v1", "kind": BUDGETS.kind, "metadata": metadata, "spec": spec}
    )
    await allow(workload, name, 0)


async def allow(workload: Client, name: str, disruptions: int) -> None:
    status = {"observedGeneration": 1, "disruptionsAllowed": disruptions, "desiredHealthy": 1, "currentHealthy": 1}
    await workload.patch(BUDGETS, f"{name}-budget", {"status": status}, "default", subresource="status")


async def names(workload: Client) -> list[str]:
    return sorted(map(objects.name, (await workload.list(PODS)).items))


async def test_drain_ends_once_everything_that_must_move_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "_RETRY", 0.1)
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects())
        await until(lambda: worlds.is_settled(world, machines=2), "the cluster")
        [machine] = [
            each
            for each in await world.all(capi.MACHINES)
            if "cluster.x-k8s.io/control-plane" not in objects.labels(each)
        ]
        node = str(objects.at(machine, "status", "nodeRef", "name"))
        workload = await world.workload("c")
        owner = objects.owner_reference(await daemon_set(workload), controller=True, block_owner_deletion=False)
        await place(workload, node, "plain")
        await place(workload, node, "guarded")
        await place(workload, node, "held", finalizers=["example.com/hold"])
        await place(workload, node, "daemon", ownerReferences=[owner])
        await place(workload, node, "mirror", annotations={"kubernetes.io/config.mirror": "x"})
        await place(workload, node, "finished", phase="Succeeded")
        await place(workload, node, "exempt", labels={"cluster.x-k8s.io/drain": "skip"})
        await place(workload, "another", "elsewhere")
        await guard(workload, "guarded")
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)

        async def message() -> str:
            found = await world.one(capi.MACHINES, objects.name(machine))
            assert conditions.reason_of(found, "Deleting") in ("DrainingNode", "Deleting", "NotDeleting")
            return conditions.message_of(found, "Deleting")

        async def is_held() -> bool:
            told = await message()
            return (
                "* Pod default/guarded: cannot evict pod as it would violate the pod's disruption budget." in told
                and "The disruption budget guarded-budget needs 1 healthy pods and has 1 currently" in told
                and "* Pod default/held: deletionTimestamp set, but still not removed from the Node" in told
                and "plain" not in told
            )

        await until(is_held, "a condition that names pod and budget")
        assert await names(workload) == ["daemon", "elsewhere", "exempt", "guarded", "held", "mirror"]
        await allow(workload, "guarded", 1)
        await workload.patch(PODS, "held", {"metadata": {"finalizers": None}}, "default")

        async def is_gone() -> bool:
            try:
                await world.one(capi.MACHINES, objects.name(machine))
            except errors.NotFound:
                return True
            return False

        await until(is_gone, "the machine's end")
        assert await names(workload) == ["daemon", "elsewhere", "exempt", "mirror"]


NOW = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)
DAEMON = {"ownerReferences": [{"kind": "DaemonSet", "controller": True, "name": "d", "uid": "u"}]}


def ago(seconds: float) -> str:
    return clocks.rfc3339(NOW - datetime.timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("expected", "metadata", "phase", "circumstances"),
    [
        pytest.param("move", {}, "Running", {}, id="an ordinary pod"),
        pytest.param("move", {}, "Succeeded", {}, id="a finished one"),
        pytest.param("stay", DAEMON, "Running", {"has_daemon_set": True}, id="one of a DaemonSet comes back at once"),
        pytest.param("move", DAEMON, "Running", {}, id="one whose DaemonSet is gone does not"),
        pytest.param("move", DAEMON, "Failed", {"has_daemon_set": True}, id="nor does a finished one"),
        pytest.param("stay", {"annotations": {"kubernetes.io/config.mirror": "x"}}, "Running", {}, id="a static pod"),
        pytest.param("stay", {"labels": {drain.DRAIN_LABEL: "skip"}}, "Running", {}, id="one that is to be skipped"),
        pytest.param(
            "wait", {"labels": {drain.DRAIN_LABEL: "wait-completed"}}, "Running", {}, id="one to be waited for"
        ),
        pytest.param("stay", {"labels": {drain.DRAIN_LABEL: "wait-completed"}}, "Succeeded", {}, id="which is done"),
        pytest.param("move", {"labels": {drain.DRAIN_LABEL: "other"}}, "Running", {}, id="another word"),
        pytest.param("move", {"deletionTimestamp": ago(60)}, "Running", {}, id="one that goes is waited for"),
        pytest.param("stay", {"deletionTimestamp": ago(2)}, "Running", {"is_lost": True}, id="not if nobody ends it"),
        pytest.param(
            "move", {"deletionTimestamp": ago(-5)}, "Running", {"is_lost": True}, id="within its grace period"
        ),
    ],
)
def test_which_pods_have_to_leave(expected: str, metadata: Object, phase: str, circumstances: dict[str, bool]) -> None:
    pod: Object = {"metadata": {"name": "p", **metadata}, "status": {"phase": phase}}
    known = {"has_daemon_set": False, "is_lost": False, **circumstances}
    assert drain.behaviour(pod, now=NOW, **known) == expected


async def worker(world: World) -> tuple[Object, str, Client]:
    """Of a cluster that is up: the machine, its Node, and the way into the cluster."""
    await worlds.create(world, worlds.cluster_objects())
    await until(lambda: worlds.is_settled(world, machines=2), "the cluster")
    found = await world.all(capi.MACHINES)
    [machine] = [each for each in found if "cluster.x-k8s.io/control-plane" not in objects.labels(each)]
    return machine, str(objects.at(machine, "status", "nodeRef", "name")), await world.workload("c")


async def gone(world: World, machine: Object) -> bool:
    return objects.uid(machine) not in {objects.uid(each) for each in await world.all(capi.MACHINES)}


async def says(world: World, machine: Object, reason: str, text: str) -> bool:
    found = await world.one(capi.MACHINES, objects.name(machine))
    return conditions.reason_of(found, "Deleting") == reason and text in conditions.message_of(found, "Deleting")


async def test_a_machine_that_nobody_hears_of_does_not_wait_for_its_pods(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kubelet is gone, and ends none of them."""
    monkeypatch.setattr(deletion, "_RETRY", 0.2)
    async with worlds.running(world):
        machine, node, workload = await worker(world)
        await place(workload, node, "stuck", finalizers=["example.com/kubelet"])
        silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        await workload.patch(NODES, node, silent, subresource="status")
        asked: list[Any] = []
        request = workload.request

        async def observed(method: str, path: str, **options: Any) -> Any:
            asked.append(options.get("body"))
            return await request(method, path, **options)

        monkeypatch.setattr(workload, "request", observed)
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)
        await until(lambda: gone(world, machine), "the machine's end")
        [eviction] = [each for each in asked if each and each["kind"] == "Eviction"]
        assert eviction["deleteOptions"] == {"gracePeriodSeconds": 1}
        assert await names(workload) == ["stuck"]


async def test_pods_are_not_asked_to_leave_each_time_that_somebody_looks(world: World) -> None:
    async with worlds.running(world) as manager:
        machine, node, workload = await worker(world)
        await place(workload, node, "guarded")
        await guard(workload, "guarded")
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)
        await until(lambda: says(world, machine, "DrainingNode", "guarded"), "what holds it")
        await allow(workload, "guarded", 1)
        for number in range(3):
            await workload.patch(NODES, node, {"metadata": {"labels": {"look": f"again-{number}"}}})
            await manager.idle()
        assert await names(workload) == ["guarded"], "the next round is in twenty seconds"
        assert await says(world, machine, "DrainingNode", "guarded")


ATTACHED: Object = {"status": {"attached": True}}


async def attach(workload: Client, node: str, name: str) -> None:
    claim = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": f"{name}-claim"}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": claim,
        "csi": {"driver": "example.com", "volumeHandle": name},
    }
    await workload.create(
        volumes.VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}
    )
    spec = {"attacher": "example.com", "nodeName": node, "source": {"persistentVolumeName": name}}
    kind = volumes.ATTACHMENTS
    await workload.create(
        kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
    )
    await workload.patch(kind, name, ATTACHED, subresource="status")


async def test_a_machine_waits_until_volumes_are_detached_but_not_for_those_of_pods_that_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_RETRY", 0.1)
    async with worlds.running(world):
        machine, node, workload = await worker(world)
        for name in ("one", "two"):
            await attach(workload, node, name)
        used = [{"name": "v", "persistentVolumeClaim": {"claimName": "two-claim"}}]
        await place(workload, node, "exempt", labels={drain.DRAIN_LABEL: "skip"}, volumes=used)
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)
        expected = "* PersistentVolumeClaims: default/one-claim"
        await until(lambda: says(world, machine, "WaitingForVolumeDetach", expected), "what is waited for")
        found = await world.one(capi.MACHINES, objects.name(machine))
        assert objects.at(found, "status", "deletion", "waitForNodeVolumeDetachStartTime")
        await workload.delete(volumes.ATTACHMENTS, "one")
        await until(lambda: gone(world, machine), "the machine's end")


async def test_volumes_that_are_never_detached_are_given_up_after_a_time(world: World) -> None:
    async with worlds.running(world):
        machine, node, workload = await worker(world)
        limit = {"spec": {"template": {"spec": {"deletion": {"nodeVolumeDetachTimeoutSeconds": 2}}}}}
        await world.client.patch(capi.MACHINE_DEPLOYMENTS, "c", limit, worlds.NAMESPACE)

        async def is_told() -> bool:
            found = await world.one(capi.MACHINES, objects.name(machine))
            return objects.at(found, "spec", "deletion", "nodeVolumeDetachTimeoutSeconds") == 2

        await until(is_told, "the limit")
        attached = {"volumesAttached": [{"name": "kubernetes.io/csi/example.com^x", "devicePath": ""}]}
        await workload.patch(NODES, node, {"status": attached}, subresource="status")
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)
        expected = "not matching a PersistentVolume: kubernetes.io/csi/example.com^x"
        await until(lambda: says(world, machine, "WaitingForVolumeDetach", expected), "what is waited for")
        await until(lambda: gone(world, machine), "the machine's end")


async def test_a_node_of_the_same_name_that_is_another_machines_stays(world: World) -> None:
    async with worlds.running(world):
        machine, node, workload = await worker(world)
        await workload.delete(NODES, node)
        other: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node},
            "spec": {"providerID": "test://other"},
        }
        await workload.create(NODES, other)
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)
        await until(lambda: gone(world, machine), "the machine's end")
        assert objects.at(await workload.get(NODES, node), "spec", "providerID") == "test://other"


async def test_a_node_that_cannot_be_deleted_does_not_hold_its_machine_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_NODE_DELETION_SECONDS", 2.0)
    monkeypatch.setattr(deletion, "_CONNECTION_RETRY", 0.2)
    async with worlds.running(world):
        machine, node, workload = await worker(world)

        async def refused(*_: Any, **__: Any) -> Object:
            raise errors.Forbidden("no")

        monkeypatch.setattr(workload, "delete", refused)
        await world.client.delete(capi.MACHINES, objects.name(machine), worlds.NAMESPACE)
        await until(lambda: says(world, machine, "DeletingNode", "Error deleting Node: no"), "why it is not gone yet")
        await until(lambda: gone(world, machine), "the machine's end")
        assert await workload.get(NODES, node)
