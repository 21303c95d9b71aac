"""Machines that fail a health check are replaced: by their set, as many as may be at a time, or by somebody else."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from steelyard.api import resources as simulated
from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.controllers.lifecycle.cluster.controller import ClusterController
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions, verdicts
from steelyard.kube.runtime.manager import Manager
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.world import NAMESPACE, World, until

GROUP = "remediation.example.com"
TEMPLATES = Resource(GROUP, "v1", "fixtemplates", "FixTemplate")
FIXES = Resource(GROUP, "v1", "fixes", "Fix")


def check(name: str = "check", **spec: Any) -> Object:
    return {
        "apiVersion": capi.MACHINE_HEALTH_CHECKS.api_version,
        "kind": capi.MACHINE_HEALTH_CHECKS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "clusterName": "c",
            "selector": {"matchLabels": {wellknown.MACHINE_DEPLOYMENT_LABEL: "c"}},
            "checks": {
                "nodeStartupTimeoutSeconds": 600,
                "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}],
            },
            **spec,
        },
    }


async def settled(world: World, *, workers: int) -> list[Object]:
    """The workers of a cluster that is up, oldest first."""
    await worlds.create(world, worlds.cluster_objects(workers=workers))
    await until(lambda: worlds.is_settled(world, machines=workers + 1), "the cluster")
    return await pool(world)


async def pool(world: World) -> list[Object]:
    return [
        each for each in await world.all(capi.MACHINES) if "cluster.x-k8s.io/control-plane" not in objects.labels(each)
    ]


async def silence(workload: Client, machine: Object, seconds: float) -> None:
    """As the cluster's controllers do when nothing is heard of a kubelet."""
    since = clocks.rfc3339(datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds))
    name = str(objects.at(machine, "status", "nodeRef", "name"))
    status = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]}
    await workload.patch(NODES, name, {"status": status}, subresource="status")


async def is_gone(world: World, *machines: Object) -> bool:
    uids = {objects.uid(each) for each in await world.all(capi.MACHINES)}
    return not uids & {objects.uid(each) for each in machines}


async def is_remediated(world: World) -> bool:
    return conditions.status_of(await world.one(capi.CLUSTERS, "c"), "Remediating") == "False"


async def allowed(world: World, name: str = "check") -> tuple[str, str]:
    found = await world.one(capi.MACHINE_HEALTH_CHECKS, name)
    condition = conditions.find(found, "RemediationAllowed") or {}
    return str(condition.get("status")), str(condition.get("reason"))


async def test_healthy_machines_are_counted_and_an_idle_check_writes_nothing(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=2)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())

        async def is_counted() -> bool:
            found = await world.one(capi.MACHINE_HEALTH_CHECKS, "check")
            return objects.at(found, "status", "currentHealthy") == 2

        await until(is_counted, "both healthy")
        await manager.idle()
        found = await world.one(capi.MACHINE_HEALTH_CHECKS, "check")
        assert found["status"]["expectedMachines"] == 2
        assert found["status"]["remediationsAllowed"] == 2
        assert found["status"]["targets"] == [objects.name(each) for each in workers]
        assert await allowed(world) == ("True", "RemediationAllowed")
        assert objects.is_owned_by(found, await world.one(capi.CLUSTERS, "c"))
        assert objects.labels(found)[wellknown.CLUSTER_NAME_LABEL] == "c"
        for each in await pool(world):
            assert conditions.is_true(each, marks.HEALTH_CHECK)
            assert conditions.find(each, marks.OWNER_REMEDIATED) is None
        await nothing_is_written(world, manager)


async def nothing_is_written(world: World, manager: Manager) -> None:
    revision = world.store.revision
    for controller in manager.controllers:
        controller.enqueue([worlds.Key(NAMESPACE, "check"), worlds.Key(NAMESPACE, "c")])
    await manager.idle()
    assert world.store.revision == revision


async def test_a_machine_whose_node_is_silent_for_too_long_is_replaced(world: World) -> None:
    async with worlds.running(world):
        workers = await settled(world, workers=2)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        await silence(await world.workload("c"), workers[0], 301)
        await until(lambda: is_gone(world, workers[0]), "the end of the silent one")
        await until(lambda: worlds.is_settled(world, machines=3), "another in its place")
        await until(lambda: is_remediated(world), "the cluster to say that it is over")
        assert not await is_gone(world, workers[1])


async def test_what_was_found_of_a_machine_that_has_gone_since_is_no_failure(world: World) -> None:
    machine = await world.client.create(capi.MACHINES, bare_machine("gone"))
    now = datetime.datetime.now(datetime.UTC)
    found = verdicts.false(marks.HEALTH_CHECK, "UnhealthyNode", "it is silent")
    assert await marks.put(world.client, machine, [found], now)
    await world.client.delete(capi.MACHINES, "gone", NAMESPACE)
    assert not await marks.put(world.client, machine, [found], now)


def bare_machine(name: str) -> Object:
    return {
        "apiVersion": capi.MACHINES.api_version,
        "kind": capi.MACHINES.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "clusterName": "c",
            "bootstrap": {"dataSecretName": name},
            "infrastructureRef": worlds.reference(simulated.SIMULATED_MACHINES, name),
        },
    }


async def test_it_is_replaced_when_its_time_runs_out_and_not_before(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=1)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        await silence(await world.workload("c"), workers[0], 297)
        await manager.idle()
        assert not objects.is_being_deleted((await pool(world))[0])
        due = next(each for each in manager.controllers if "healthcheck" in each.name).queue.next_due_in()
        assert due is not None
        assert due < 3.1
        await until(lambda: is_gone(world, *workers), "the end of the silent one")


async def test_a_machine_whose_node_is_gone_is_replaced(world: World) -> None:
    async with worlds.running(world):
        workers = await settled(world, workers=1)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        workload = await world.workload("c")
        await workload.delete(NODES, str(objects.at(workers[0], "status", "nodeRef", "name")))
        await until(lambda: is_gone(world, *workers), "the end of the one without a Node")
        await until(lambda: worlds.is_settled(world, machines=2), "another in its place")


async def test_a_machine_that_never_gets_a_node_is_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its infrastructure says that it is there, and it never joins."""
    async with worlds.running(world):
        await settled(world, workers=1)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check(checks={"nodeStartupTimeoutSeconds": 1}))
        before = await pool(world)
        workload = await world.workload("c")
        nodes = (await workload.list(NODES)).items

        async def never(*_: Any, **__: Any) -> Object:
            return nodes[0]

        with monkeypatch.context() as patch:
            patch.setattr(workload, "create", never)
            await world.client.patch(capi.MACHINE_DEPLOYMENTS, "c", {"spec": {"replicas": 2}}, NAMESPACE)

            async def stillborn() -> list[Object]:
                found = [each for each in await pool(world) if await is_new(each)]
                return [
                    each for each in found if conditions.reason_of(each, marks.HEALTH_CHECK) == "NodeStartupTimeout"
                ]

            async def is_new(machine: Object) -> bool:
                return objects.uid(machine) not in {objects.uid(each) for each in before}

            await until(stillborn, "one that is given up")
        await until(lambda: worlds.is_settled(world, machines=3), "another that joins")


async def test_none_is_replaced_where_too_many_are_unhealthy(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=3)
        limit = {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}
        workload = await world.workload("c")
        for each in workers[:2]:
            await silence(workload, each, 400)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check(remediation=limit))

        async def is_refused() -> bool:
            return await allowed(world) == ("False", "TooManyUnhealthy")

        await until(is_refused, "nothing is done")
        await manager.idle()
        for each in (await pool(world))[:2]:
            assert conditions.is_false(each, marks.HEALTH_CHECK)
            assert conditions.find(each, marks.OWNER_REMEDIATED) is None
        assert not await is_gone(world, *workers)
        [machine_set] = await world.all(capi.MACHINE_SETS)
        assert "are not healthy (not to be remediated" in conditions.message_of(machine_set, "Remediating")
        await nothing_is_written(world, manager)

        name = str(objects.at(workers[0], "status", "nodeRef", "name"))
        await workload.patch(
            NODES, name, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
        )
        await until(lambda: is_gone(world, workers[1]), "with one of them well again the other one goes")
        assert not await is_gone(world, workers[0])


async def test_no_more_are_replaced_at_a_time_than_the_deployment_says(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=3)
        await world.client.patch(
            capi.MACHINE_DEPLOYMENTS, "c", {"spec": {"remediation": {"maxInFlight": 1}}}, NAMESPACE
        )
        for each in workers:
            patch = {"metadata": {"finalizers": ["example.com/hold", *objects.finalizers(each)]}}
            await world.client.patch(capi.MACHINES, objects.name(each), patch, NAMESPACE)
            await silence(await world.workload("c"), each, 400)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())

        async def reasons() -> list[str]:
            return sorted(conditions.reason_of(each, marks.OWNER_REMEDIATED) for each in await pool(world))

        async def going() -> int:
            return sum(objects.is_being_deleted(each) for each in await pool(world))

        async def one_goes() -> bool:
            asked = await reasons()
            return await going() == 1 and asked == ["MachineDeleting", "RemediationDeferred", "RemediationDeferred"]

        await until(one_goes, "one at a time")
        await manager.idle()
        assert await going() == 1


@pytest.mark.parametrize("mark", [wellknown.SKIP_REMEDIATION_ANNOTATION, wellknown.PAUSED_ANNOTATION])
async def test_an_exempt_machine_stays(world: World, mark: str) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=2)
        patch = {"metadata": {"annotations": {mark: ""}}}
        await world.client.patch(capi.MACHINES, objects.name(workers[0]), patch, NAMESPACE)
        for each in workers:
            await silence(await world.workload("c"), each, 400)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        await until(lambda: is_gone(world, workers[1]), "the other one")
        await manager.idle()
        assert not await is_gone(world, workers[0])


async def test_a_paused_cluster_is_left_alone(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=1)
        await world.client.patch(capi.CLUSTERS, "c", {"spec": {"paused": True}}, NAMESPACE)
        await silence(await world.workload("c"), workers[0], 400)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        await manager.idle()
        assert not objects.is_being_deleted((await pool(world))[0])
        assert conditions.is_true(await world.one(capi.MACHINE_HEALTH_CHECKS, "check"), "Paused")
        await world.client.patch(capi.CLUSTERS, "c", {"spec": {"paused": False}}, NAMESPACE)
        await until(lambda: is_gone(world, *workers), "its end")


async def test_a_limit_that_cannot_be_read_replaces_nothing(world: World) -> None:
    async with worlds.running(world):
        workers = await settled(world, workers=1)
        await silence(await world.workload("c"), workers[0], 400)
        bad = {"triggerIf": {"unhealthyLessThanOrEqualTo": "many"}}
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check(remediation=bad))

        async def is_told() -> bool:
            found = await world.one(capi.MACHINE_HEALTH_CHECKS, "check")
            return "neither a number nor a share such as 40%" in conditions.message_of(found, "RemediationAllowed")

        await until(is_told, "what to correct")
        assert not objects.is_being_deleted((await pool(world))[0])


def definition(resource: Resource) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "kind": resource.kind},
            "versions": [{"name": resource.version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_somebody_else_is_asked_and_the_request_taken_back_when_the_machine_is_well(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=1)
        name = objects.name(workers[0])
        workload = await world.workload("c")
        await silence(workload, workers[0], 400)
        reference = {"apiVersion": f"{GROUP}/v1", "kind": TEMPLATES.kind, "name": "fix"}
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check(remediation={"templateRef": reference}))

        async def reason() -> str:
            return conditions.reason_of((await pool(world))[0], marks.EXTERNALLY_REMEDIATED)

        async def has_no_template() -> bool:
            return await reason() == "RemediationTemplateNotFound"

        await until(has_no_template, "a template that is missing")
        await manager.idle(within=2)
        for each in (TEMPLATES, FIXES):
            await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(each))
        template: Object = {
            "apiVersion": TEMPLATES.api_version,
            "kind": TEMPLATES.kind,
            "metadata": {"name": "fix", "namespace": NAMESPACE},
            "spec": {"template": {"spec": {"how": "reboot"}}},
        }
        await world.client.create(TEMPLATES, template)

        async def is_asked() -> bool:
            return await reason() == "WaitingForRemediation"

        await until(is_asked, "a request")
        request = await world.one(FIXES, name)
        assert request["spec"] == {"how": "reboot"}
        assert objects.is_owned_by(request, workers[0])
        await manager.idle()
        assert conditions.find((await pool(world))[0], marks.OWNER_REMEDIATED) is None

        node = str(objects.at(workers[0], "status", "nodeRef", "name"))
        await workload.patch(
            NODES, node, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
        )

        async def is_taken_back() -> bool:
            try:
                return not await world.one(FIXES, name)
            except errors.NotFound:
                return True

        await until(is_taken_back, "no request any more")
        assert not await is_gone(world, *workers)


async def test_nothing_is_judged_while_the_clusters_api_is_away(world: World) -> None:
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=1)
        found = next(each for each in manager.controllers if "healthcheck" in each.name)
        [clusters] = [each for each in manager.controllers if isinstance(each, ClusterController)]
        connection: Any = clusters.workloads.current(worlds.Key(NAMESPACE, "c"))
        connection.nodes.problem = "nodes cannot be read: nobody answers"
        await silence(await world.workload("c"), workers[0], 400)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        await manager.idle()
        assert conditions.find((await pool(world))[0], marks.HEALTH_CHECK) is None
        connection.nodes.problem = ""
        found.enqueue([worlds.Key(NAMESPACE, "check")])
        await until(lambda: is_gone(world, *workers), "its end, once it is known")


async def test_a_machine_that_is_well_again_before_its_owner_acts_stays(world: World) -> None:
    """A control plane or a set that waits finds nothing to do."""
    async with worlds.running(world) as manager:
        workers = await settled(world, workers=1)
        await world.client.patch(
            capi.MACHINE_DEPLOYMENTS, "c", {"spec": {"remediation": {"maxInFlight": 0}}}, NAMESPACE
        )
        workload = await world.workload("c")
        await silence(workload, workers[0], 400)
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())

        async def waits() -> bool:
            return conditions.reason_of((await pool(world))[0], marks.OWNER_REMEDIATED) == "RemediationDeferred"

        await until(waits, "the wait")
        node = str(objects.at(workers[0], "status", "nodeRef", "name"))
        await workload.patch(
            NODES, node, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, subresource="status"
        )

        async def is_well() -> bool:
            [machine] = await pool(world)
            return (
                conditions.is_true(machine, marks.HEALTH_CHECK)
                and conditions.find(machine, marks.OWNER_REMEDIATED) is None
            )

        await until(is_well, "nothing asked any more")
        await manager.idle()
        assert not await is_gone(world, *workers)


async def test_a_machine_whose_infrastructure_is_gone_is_replaced(world: World) -> None:
    """Somebody took it away by force; its Node stays behind and falls silent."""
    async with worlds.running(world):
        workers = await settled(world, workers=1)
        name = objects.name(workers[0])
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check())
        await world.client.patch(simulated.SIMULATED_MACHINES, name, {"metadata": {"finalizers": None}}, NAMESPACE)
        await world.client.delete(simulated.SIMULATED_MACHINES, name, NAMESPACE)
        await silence(await world.workload("c"), workers[0], 400)
        await until(lambda: is_gone(world, *workers), "its end")
        await until(lambda: worlds.is_settled(world, machines=2), "another in its place")


async def test_a_control_plane_machine_that_is_silent_for_too_long_is_replaced(world: World) -> None:
    async with worlds.running(world):
        await worlds.create(world, worlds.cluster_objects(control_plane=3, workers=0))
        await until(lambda: worlds.is_settled(world, machines=3), "the cluster")
        planes = await world.all(capi.MACHINES)
        selected = {"matchLabels": {wellknown.CONTROL_PLANE_LABEL: ""}}
        limit = {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}}
        await world.client.create(capi.MACHINE_HEALTH_CHECKS, check(selector=selected, remediation=limit))
        await silence(await world.workload("c"), planes[0], 400)
        await until(lambda: is_gone(world, planes[0]), "the end of the silent one")
        await until(lambda: worlds.is_settled(world, machines=3), "another in its place")
        assert not await is_gone(world, planes[1])
        assert not await is_gone(world, planes[2])
