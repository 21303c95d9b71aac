"""How a machine leaves: its Node is cordoned, drained, and deleted last; an etcd member is never taken away unasked."""

from __future__ import annotations

import asyncio
import functools
import time

import pytest

from steelyard.api import resources as simulated
from steelyard.api.clusterapi import resources as capi
from steelyard.controllers import lifecycle
from steelyard.controllers.lifecycle.kubeadmcontrolplane import reconcile as control_planes
from steelyard.controllers.lifecycle.machine import deletion
from steelyard.controllers.lifecycle.machine.drain import must_move
from steelyard.controllers.lifecycle.workload import Connection
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES
from steelyard.kube.runtime import conditions
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.podded import Podded, pod
from tests.controllers.lifecycle.test_clusters import patch, settled
from tests.controllers.lifecycle.world import NAMESPACE, World, until


@pytest.fixture
def podded(world: World, monkeypatch: pytest.MonkeyPatch) -> Podded:
    monkeypatch.setattr(deletion, "_DRAIN_RETRY", 0.1)
    monkeypatch.setattr(control_planes, "_RETRY", 0.1)
    return Podded(world)


async def leaving(world: World) -> list[Object]:
    return [each for each in await world.all(capi.MACHINES) if objects.is_being_deleted(each)]


async def worker_that_leaves(world: World, podded: Podded) -> str:
    """A cluster of two workers with a pod on each is scaled down; the name of the worker that has to go."""
    await worlds.create(world, worlds.cluster_objects(workers=2))
    await settled(world, 3)
    podded.pods = [pod(f"app-on-{objects.name(each)}", objects.name(each)) for each in await world.all(capi.MACHINES)]
    await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 1}})
    going: list[Object] = []

    async def begun() -> bool:
        going[:] = await leaving(world)
        return any(conditions.reason_of(each, "Deleting") == "DrainingNode" for each in going)

    await until(begun, "a machine that drains")
    return objects.name(going[0])


async def test_a_machine_stays_until_its_pods_have_left(world: World, podded: Podded) -> None:
    podded.is_budget_spent = True
    async with worlds.running(world):
        name = await worker_that_leaves(world, podded)
        await asyncio.sleep(0.5)
        [machine] = await leaving(world)
        message = conditions.message_of(machine, "Deleting")
        assert f"Pod default/app-on-{name}: cannot evict pod as it would violate" in message
        infrastructure = await world.one(simulated.SIMULATED_MACHINES, name)
        assert not objects.is_being_deleted(infrastructure), "the machine itself runs on"
        node = await world.workloads["c"].get(NODES, name)
        assert objects.at(node, "spec", "unschedulable") is True, "nothing new comes onto it"
        podded.is_budget_spent = False
        await settled(world, 2)
    own = [each for each in podded.asked if name in each]
    assert own[0] == f"cordon {name}"
    assert own[-2:] == [f"evict app-on-{name}", f"delete {name}"]
    assert own.count(f"cordon {name}") == 1
    others = {objects.name(each) for each in await world.all(capi.MACHINES)}
    assert not [each for each in podded.asked if any(other in each for other in others)], "no other machine is touched"


async def test_a_node_goes_only_after_its_machine(world: World, podded: Podded) -> None:
    """Otherwise a kubelet that still runs would register it again."""
    seen: list[tuple[bool, bool]] = []
    delete = podded.delete

    async def observed(resource: object, name: str, *arguments: object, **options: object) -> Object:
        machines = set(await world.names(simulated.SIMULATED_MACHINES))
        seen.append((resource == NODES, name in machines))
        return await delete(resource, name, *arguments, **options)  # type: ignore[arg-type]

    podded.delete = observed  # type: ignore[method-assign, assignment]
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(workers=2))
        await settled(world, 3)
        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 1}})
        await settled(world, 2)
    assert seen == [(True, False)]


async def test_a_drain_that_takes_too_long_is_given_up_after_its_time_and_not_before(
    world: World, podded: Podded
) -> None:
    podded.is_budget_spent = True
    limit = {"spec": {"template": {"spec": {"deletion": {"nodeDrainTimeoutSeconds": 3}}}}}
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(workers=2))
        await settled(world, 3)
        podded.pods = [pod("stays", objects.name(each)) for each in await world.all(capi.MACHINES)]
        await patch(world, capi.MACHINE_DEPLOYMENTS, limit)
        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 1}})

        async def begun() -> bool:
            return any(conditions.reason_of(each, "Deleting") == "DrainingNode" for each in await leaving(world))

        await until(begun, "a machine that drains")
        started = time.monotonic()
        await settled(world, 2)
    assert time.monotonic() - started > 1.5
    assert podded.pods, "nobody left by itself"


@pytest.mark.parametrize(
    ("leaves", "metadata", "phase"),
    [
        pytest.param(True, {}, "Running", id="an ordinary pod"),
        pytest.param(
            False,
            {"ownerReferences": [{"kind": "DaemonSet", "controller": True, "name": "d", "uid": "u"}]},
            "Running",
            id="one of a DaemonSet comes back at once",
        ),
        pytest.param(False, {"annotations": {"kubernetes.io/config.mirror": "x"}}, "Running", id="a static pod"),
        pytest.param(False, {}, "Succeeded", id="a finished one"),
    ],
)
def test_which_pods_have_to_leave(leaves: bool, metadata: Object, phase: str) -> None:
    assert must_move({**pod("p", "n", **metadata), "status": {"phase": phase}}) is leaves


class TestEtcd:
    """Clusters whose control-plane machines run etcd members."""

    async def three(self, world: World, podded: Podded) -> None:
        podded.shows_components = True
        await worlds.create(world, worlds.cluster_objects(control_plane=3, workers=0))
        await settled(world, 3)

    @pytest.mark.parametrize("change", ["scaled down", "rolled"])
    async def test_a_machine_stays_while_its_member_cannot_be_removed(
        self, world: World, podded: Podded, change: str
    ) -> None:
        async with worlds.running(world):
            await self.three(world, podded)
            if change == "scaled down":
                await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"replicas": 1}})
            else:
                await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"version": "v1.34.5"}})

            async def told() -> bool:
                plane = await world.one(capi.KUBEADM_CONTROL_PLANES, "c")
                texts = [conditions.message_of(plane, type_) for type_ in ("ScalingDown", "ScalingUp", "RollingOut")]
                return any("remove the member with etcdctl" in text for text in texts)

            await until(told, "what has to be done")
            await asyncio.sleep(0.5)
            [machine] = await leaving(world)
            assert conditions.reason_of(machine, "Deleting") == "WaitingForPreTerminateHook"
            infrastructure = await world.one(simulated.SIMULATED_MACHINES, objects.name(machine))
            assert not objects.is_being_deleted(infrastructure)
            assert await world.workloads["c"].get(NODES, objects.name(machine))

    async def test_members_leave_one_at_a_time_before_their_machines(
        self, world: World, podded: Podded, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        removed: list[str] = []

        async def remove(connection: Connection, machine: Object) -> None:
            name = objects.name(machine)
            assert await connection.client.get(NODES, name), "the machine still runs"
            assert not objects.is_being_deleted(await world.one(simulated.SIMULATED_MACHINES, name))
            assert [objects.name(each) for each in await leaving(world)] == [name], "one at a time"
            removed.append(name)

        monkeypatch.setattr(lifecycle, "controllers", functools.partial(lifecycle.controllers, remove_member=remove))
        async with worlds.running(world):
            await self.three(world, podded)
            before = set(await world.names(capi.MACHINES))
            await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"replicas": 1}})
            await settled(world, 1)
            assert len(removed) == 2
            assert set(removed) == before - set(await world.names(capi.MACHINES))

    async def test_no_machine_is_taken_away_while_another_ones_member_is_not_well(
        self, world: World, podded: Podded
    ) -> None:
        """Two of three would be left, one of them without a member: no quorum."""
        async with worlds.running(world):
            await self.three(world, podded)
            broken = (await world.names(capi.MACHINES))[2]
            podded.missing = f"etcd-{broken}"
            await world.client.patch(capi.MACHINES, broken, {"metadata": {"labels": {"look": "again"}}}, NAMESPACE)

            async def noticed() -> bool:
                return conditions.is_false(await world.one(capi.MACHINES, broken), "EtcdMemberHealthy")

            await until(noticed, "the member that is not well")
            first = (await world.names(capi.MACHINES))[0]
            annotation = {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}}
            await world.client.patch(capi.MACHINES, first, annotation, NAMESPACE)
            await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"replicas": 1}})

            async def told() -> bool:
                plane = await world.one(capi.KUBEADM_CONTROL_PLANES, "c")
                return f"Machine {broken}: EtcdMemberHealthy is false" in conditions.message_of(plane, "ScalingDown")

            await until(told, "why it is not scaled down")
            await asyncio.sleep(0.3)
            assert await leaving(world) == []
