"""A claimed cluster with three control-plane machines: its etcd members come, stay over restarts, and go with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle.machine import reconcile as machines
from steelyard.controllers.lifecycle.members import service
from steelyard.kube import objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource
from steelyard.kube.runtime import conditions
from steelyard.providers.simulated import machines as simulated
from steelyard.providers.simulated.ensembles import FAULT_ANNOTATION, Ensembles
from tests.controllers import whole as stages
from tests.controllers.whole import CLAIMS, NAMESPACE, Whole

CONTROL_PLANE = "c-control-plane"
PODS = Resource("", "v1", "pods", "Pod")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
GUARD: Object = {
    "apiVersion": WEBHOOKS.api_version,
    "kind": WEBHOOKS.kind,
    "metadata": {"name": "guard"},
    "webhooks": [
        {
            "name": "guard.example.org",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"namespace": "guards", "name": "nobody"}},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "DELETE"],
                    "resources": ["pods"],
                }
            ],
        }
    ],
}


@pytest.fixture
async def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Whole]:
    monkeypatch.setattr(machines, "_COMPONENT_RETRY", 0.2)
    monkeypatch.setattr(service, "_STILL_TRUE_SECONDS", 0.05)
    async with stages.opened(tmp_path) as opened:
        yield opened


async def control_plane(whole: Whole) -> list[Object]:
    label = "cluster.x-k8s.io/control-plane"
    return [each for each in await whole.all(capi.MACHINES) if label in objects.labels(each)]


async def names(whole: Whole) -> list[str]:
    return [objects.name(each) for each in await control_plane(whole)]


async def members(whole: Whole) -> list[str]:
    """As they are written down in the cluster."""
    [infrastructure] = await whole.all(resources.SIMULATED_CLUSTERS)
    api = whole.hosting.running(objects.uid(infrastructure))
    assert api is not None
    client = LocalClient(api)
    return sorted(await Ensembles(lambda _: client, whole.clock).members(objects.uid(infrastructure)))


async def change(whole: Whole, **parameters: object) -> None:
    await whole.client.patch(CLAIMS, "c", {"spec": {"parameters": parameters}}, NAMESPACE)
    await whole.until_ready()


async def has_members_of_all(whole: Whole) -> bool:
    machines = await control_plane(whole)
    is_told = all(conditions.is_true(each, "EtcdMemberHealthy") for each in machines)
    return is_told and await members(whole) == [objects.name(each) for each in machines]


async def test_a_webhook_that_refuses_pods_holds_up_no_machine_and_they_follow(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "_PODS_RETRY_SECONDS", 2.0)
    await whole.claim(controlPlaneReplicas=1, workerReplicas=0, kubernetesVersion="v1.34.4")
    await whole.until_ready()
    inside = await inner(whole)
    await inside.create(WEBHOOKS, GUARD)
    await whole.client.patch(CLAIMS, "c", {"spec": {"parameters": {"controlPlaneReplicas": 3}}}, NAMESPACE)

    async def has_joined() -> bool:
        machines = await whole.all(resources.SIMULATED_MACHINES)
        return len(machines) > 1 and all(conditions.is_true(each, "Ready") for each in machines)

    await whole.until(has_joined, "a second machine")
    assert len(await pods_of_etcd(whole)) == 1
    await inside.delete(WEBHOOKS, objects.name(GUARD))
    await whole.until_ready()

    async def has_pods_of_all() -> bool:
        return await pods_of_etcd(whole) == sorted(f"etcd-{name}" for name in await names(whole))

    await whole.until(has_pods_of_all, "pods of all machines")
    await inside.create(WEBHOOKS, GUARD)
    await change(whole, controlPlaneReplicas=1)
    assert len(await names(whole)) == 1
    await inside.delete(WEBHOOKS, objects.name(GUARD))
    await whole.until(has_pods_of_all, "no pods of the others")


async def inner(whole: Whole) -> LocalClient:
    [infrastructure] = await whole.all(resources.SIMULATED_CLUSTERS)
    api = whole.hosting.running(objects.uid(infrastructure))
    assert api is not None
    return LocalClient(api)


async def pods_of_etcd(whole: Whole) -> list[str]:
    listed = await (await inner(whole)).list(PODS, "kube-system", label_selector="component=etcd")
    return sorted(map(objects.name, listed.items))


async def test_members_come_and_go_with_the_machines(whole: Whole) -> None:
    await whole.claim(controlPlaneReplicas=1, workerReplicas=1, kubernetesVersion="v1.34.4")
    await whole.until_ready()
    [first] = await names(whole)
    assert await members(whole) == [], "one machine alone has nothing written down"
    await change(whole, controlPlaneReplicas=3)
    assert len(await names(whole)) == 3
    assert await has_members_of_all(whole)
    await change(whole, kubernetesVersion="v1.34.5")
    rolled = await names(whole)
    assert len(rolled) == 3
    assert first not in rolled
    assert await has_members_of_all(whole)
    await change(whole, controlPlaneReplicas=1)
    assert len(await names(whole)) == 1
    assert await members(whole) == await names(whole)
    await change(whole, controlPlaneReplicas=3)
    assert await has_members_of_all(whole)
    await whole.client.delete(CLAIMS, "c", NAMESPACE)
    await whole.until_nothing_is_left()


async def test_members_are_there_again_after_a_restart_and_nothing_is_written_for_it(whole: Whole) -> None:
    await whole.claim(controlPlaneReplicas=3, workerReplicas=0)
    await whole.until_ready()
    before = [objects.resource_version(each) for each in await control_plane(whole)]
    known = await members(whole)
    await whole.crash()
    [infrastructure] = await whole.all(resources.SIMULATED_CLUSTERS)
    await whole.hosting.stop(objects.uid(infrastructure))
    await whole.start()
    await whole.until_ready()
    assert await has_members_of_all(whole)
    assert await members(whole) == known
    assert [objects.resource_version(each) for each in await control_plane(whole)] == before


async def test_a_dead_member_is_told_and_its_machine_can_be_replaced(whole: Whole) -> None:
    await whole.claim(controlPlaneReplicas=3, workerReplicas=0)
    await whole.until_ready()
    dead, *others = await names(whole)
    fault = {"metadata": {"annotations": {FAULT_ANNOTATION: "etcd"}}}
    await whole.client.patch(resources.SIMULATED_MACHINES, dead, fault, NAMESPACE)

    async def told() -> bool:
        again = {"metadata": {"annotations": {"look": str(whole.clock.monotonic())}}}
        await whole.client.patch(capi.MACHINES, dead, again, NAMESPACE)
        return conditions.is_false(await whole.one(capi.MACHINES, dead), "EtcdMemberHealthy")

    await whole.until(told, "that the member is dead")
    plane = await whole.one(capi.KUBEADM_CONTROL_PLANES, CONTROL_PLANE)
    assert conditions.is_true(plane, "Available"), "two of three are a majority"
    await whole.client.delete(capi.MACHINES, dead, NAMESPACE)

    async def replaced() -> bool:
        found = await names(whole)
        return len(found) == 3 and dead not in found and await has_members_of_all(whole)

    await whole.until(replaced, "a new machine with a member")
    assert set(others) < set(await names(whole))


async def test_a_cluster_with_one_control_plane_machine_has_nothing_of_it(whole: Whole) -> None:
    await whole.claim(controlPlaneReplicas=1, workerReplicas=1)
    await whole.until_ready()
    [infrastructure] = await whole.all(resources.SIMULATED_CLUSTERS)
    api = whole.hosting.running(objects.uid(infrastructure))
    assert api is not None
    listed = await LocalClient(api).list(CONFIG_MAPS, "kube-system")
    assert "simulated-etcd" not in [objects.name(each) for each in listed.items]
    [machine] = await control_plane(whole)
    assert conditions.is_true(machine, "EtcdMemberHealthy")
