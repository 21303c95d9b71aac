"""A machine goes once its Node is empty of what must move; what holds a pod is told by name."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.machine import deletion
from steelyard.controllers.lifecycle.machine.drain import PODS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import World, until

DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")


async def place(workload: Client, node: str, name: str, *, phase: str = "Running", **metadata: Any) -> None:
    """A pod that runs on the node."""
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}, **metadata},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
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
    monkeypatch.setattr(deletion, "_DRAIN_RETRY", 0.1)
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
        assert await names(workload) == ["daemon", "elsewhere", "finished", "guarded", "held", "mirror"]
        await allow(workload, "guarded", 1)
        await workload.patch(PODS, "held", {"metadata": {"finalizers": None}}, "default")

        async def is_gone() -> bool:
            try:
                await world.one(capi.MACHINES, objects.name(machine))
            except errors.NotFound:
                return True
            return False

        await until(is_gone, "the machine's end")
        assert await names(workload) == ["daemon", "elsewhere", "finished", "mirror"]
