"""How a machine leaves: its Node is cordoned, drained, and deleted last; an etcd member is never taken away unasked."""

from __future__ import annotations

import asyncio
import time

import pytest

from steelyard.api import resources as simulated
from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.kubeadmcontrolplane import reconcile as control_planes
from steelyard.controllers.lifecycle.machine import deletion
from steelyard.controllers.lifecycle.machine import reconcile as machines_reconcile
from steelyard.controllers.lifecycle.members import service
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
    monkeypatch.setattr(deletion, "_RETRY", 0.1)
    monkeypatch.setattr(control_planes, "_RETRY", 0.1)
    monkeypatch.setattr(machines_reconcile, "_COMPONENT_RETRY", 0.1)
    monkeypatch.setattr(service, "_STILL_TRUE_SECONDS", 0.05)
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
        started = time.monotonic()
        await patch(world, capi.MACHINE_DEPLOYMENTS, {"spec": {"replicas": 1}})

        async def begun() -> bool:
            return any(conditions.reason_of(each, "Deleting") == "DrainingNode" for each in await leaving(world))

        await until(begun, "a machine that drains")
        await settled(world, 2)
    assert time.monotonic() - started > 2
    assert podded.pods, "nobody left by itself"


class TestEtcd:
    """Clusters whose control-plane machines run etcd members."""

    async def three(self, world: World) -> list[str]:
        await worlds.create(world, worlds.cluster_objects(control_plane=3, workers=0))
        await settled(world, 3)
        return await world.names(capi.MACHINES)

    async def delete(self, world: World, name: str) -> None:
        await world.client.delete(capi.MACHINES, name, NAMESPACE)

        async def waits() -> bool:
            reasons = [conditions.reason_of(each, "Deleting") for each in await leaving(world)]
            return reasons == ["WaitingForPreTerminateHook"]

        await until(waits, "a machine that waits for its member")

    async def test_a_machine_stays_while_its_member_cannot_leave_and_goes_when_it_can(
        self, world: World, podded: Podded
    ) -> None:
        """Of three members one is dead: without another one there would be no quorum."""
        async with worlds.running(world):
            first, second, third = await self.three(world)
            await worlds.kill_member(world, first)
            await self.delete(world, second)

            async def told() -> bool:
                plane = await world.one(capi.KUBEADM_CONTROL_PLANES, "c")
                message = conditions.message_of(plane, "EtcdClusterHealthy")
                return f"Bring back {first} first" in message and "1 of 2 members would be healthy" in message

            await until(told, "what has to be done")
            await asyncio.sleep(0.3)
            infrastructure = await world.one(simulated.SIMULATED_MACHINES, second)
            assert not objects.is_being_deleted(infrastructure)
            assert await world.workloads["c"].get(NODES, second)
            assert await world.members() == [first, second, third]
            await worlds.revive_member(world, first)
            await settled(world, 3)
            assert second not in await world.names(capi.MACHINES)
            assert await world.members() == await world.names(capi.MACHINES)

    async def test_a_machine_stays_while_nobody_answers_for_its_etcd(self, world: World, podded: Podded) -> None:
        podded.shows_components = True
        async with worlds.running(world):
            machines = await self.three(world)
            for each in machines:
                await worlds.kill_member(world, each)
            await self.delete(world, machines[0])

            async def told() -> bool:
                plane = await world.one(capi.KUBEADM_CONTROL_PLANES, "c")
                return "it is tried again" in conditions.message_of(plane, "EtcdClusterHealthy")

            await until(told, "that it is tried again")
            assert machines[0] in await world.names(capi.MACHINES)

    @pytest.mark.parametrize("change", ["scaled down", "rolled"])
    async def test_members_leave_one_at_a_time_before_their_machines(
        self, world: World, podded: Podded, change: str
    ) -> None:
        seen: list[tuple[bool, bool]] = []
        async with worlds.running(world):
            before = await self.three(world)
            delete = podded.delete

            async def observed(resource: object, name: str, *arguments: object, **options: object) -> Object:
                going = [objects.name(each) for each in await leaving(world)]
                seen.append((name in await world.members(), going == [name]))
                return await delete(resource, name, *arguments, **options)  # type: ignore[arg-type]

            podded.delete = observed  # type: ignore[method-assign, assignment]
            if change == "scaled down":
                await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"replicas": 1}})
                await settled(world, 1)
            else:
                await patch(world, capi.KUBEADM_CONTROL_PLANES, {"spec": {"version": "v1.34.5"}})

                async def rolled() -> bool:
                    is_settled = await worlds.is_settled(world, machines=3)
                    return is_settled and not set(before) & set(await world.names(capi.MACHINES))

                await until(rolled, "three new machines")
            assert await world.members() == await world.names(capi.MACHINES)
        assert len(seen) == (2 if change == "scaled down" else 3)
        assert set(seen) == {(False, True)}, "the member had gone before its Node, and no other machine was going"

    async def test_a_member_that_was_left_behind_is_cleaned_away(self, world: World, podded: Podded) -> None:
        """Its machine was removed by force."""
        async with worlds.running(world):
            gone, *_ = await self.three(world)
            await worlds.kill_member(world, gone)
            where = (capi.MACHINES, gone, {"metadata": {"finalizers": None}}, NAMESPACE)
            await world.client.patch(*where)
            await world.client.delete(capi.MACHINES, gone, NAMESPACE)
            await world.workloads["c"].delete(NODES, gone)

            async def replaced() -> bool:
                names = await world.names(capi.MACHINES)
                return len(names) == 3 and gone not in names and await world.members() == names

            await until(replaced, "a machine in its place, and its member gone")

    async def test_other_hooks_go_first(self, world: World, podded: Podded) -> None:
        """While they run, the machine still works."""
        theirs = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/theirs"
        async with worlds.running(world):
            machines = await self.three(world)
            annotation = {"metadata": {"annotations": {theirs: ""}}}
            await world.client.patch(capi.MACHINES, machines[0], annotation, NAMESPACE)
            await self.delete(world, machines[0])
            await asyncio.sleep(0.5)
            assert await world.members() == machines
            gone = {"metadata": {"annotations": {theirs: None}}}
            await world.client.patch(capi.MACHINES, machines[0], gone, NAMESPACE)
            await settled(world, 3)
            assert machines[0] not in await world.members()

    async def test_no_machine_is_taken_away_while_another_ones_member_is_not_well(
        self, world: World, podded: Podded
    ) -> None:
        """Two of three would be left, one of them without a member: no quorum."""
        async with worlds.running(world):
            broken = (await self.three(world))[2]
            await worlds.kill_member(world, broken)

            async def noticed() -> bool:
                again = {"metadata": {"labels": {"look": f"at-{time.monotonic_ns()}"}}}
                await world.client.patch(capi.MACHINES, broken, again, NAMESPACE)
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
