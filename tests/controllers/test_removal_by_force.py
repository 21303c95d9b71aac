"""Somebody takes finalizers off and deletes, in any order: the claim's deletion still ends, and nothing is left."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.api import resources
from steelyard.api.clusterapi import resources as capi
from steelyard.kube import objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.resources import SECRETS, Resource
from tests.controllers import whole as stages
from tests.controllers.whole import CLAIMS, NAMESPACE, Whole

PODS = Resource("", "v1", "pods", "Pod")
HELD_BY_FINALIZERS = (
    capi.CLUSTERS,
    capi.KUBEADM_CONTROL_PLANES,
    capi.MACHINE_DEPLOYMENTS,
    capi.MACHINE_SETS,
    capi.MACHINES,
    resources.SIMULATED_CLUSTERS,
    resources.SIMULATED_MACHINES,
)
OTHERS = (
    capi.KUBEADM_CONFIGS,
    capi.KUBEADM_CONFIG_TEMPLATES,
    resources.SIMULATED_MACHINE_TEMPLATES,
    SECRETS,
)


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncGenerator[Whole]:
    async with stages.opened(tmp_path) as opened:
        yield opened


async def delete_claim(whole: Whole) -> None:
    await whole.client.delete(CLAIMS, "c", NAMESPACE)
    await whole.until_nothing_is_left()


@pytest.mark.parametrize("kind", (*HELD_BY_FINALIZERS, *OTHERS), ids=lambda kind: kind.kind)
async def test_a_kind_that_vanished_does_not_hold_up_the_claims_deletion(whole: Whole, kind: Resource) -> None:
    await whole.claim()
    await whole.until_ready()
    for obj in await whole.all(kind):
        await whole.remove_by_force(kind, obj)
    await whole.manager.idle(within=0.5, settle=0.3)
    await delete_claim(whole)


@pytest.mark.parametrize("kind", HELD_BY_FINALIZERS, ids=lambda kind: kind.kind)
async def test_a_kind_that_vanishes_during_the_claims_deletion_does_not_hold_it_up(
    whole: Whole, kind: Resource
) -> None:
    await whole.claim()
    await whole.until_ready()
    await whole.client.delete(CLAIMS, "c", NAMESPACE)
    for obj in await whole.all(kind):
        await whole.remove_by_force(kind, obj)
    await whole.until_nothing_is_left()


async def test_a_control_plane_machine_that_vanished_runs_no_member_and_has_no_pods(whole: Whole) -> None:
    await whole.claim(controlPlaneReplicas=3, workerReplicas=0)
    await whole.until_ready()
    former = (await whole.all(resources.SIMULATED_MACHINES))[0]
    [address] = [each["address"] for each in former["status"]["addresses"] if each["type"] == "InternalIP"]
    assert await has_port(address)
    await whole.remove_by_force(resources.SIMULATED_MACHINES, former)

    async def is_switched_off() -> bool:
        [cluster] = await whole.all(resources.SIMULATED_CLUSTERS)
        api = whole.hosting.running(objects.uid(cluster))
        assert api is not None
        pods = [objects.name(each) for each in (await LocalClient(api).list(PODS, "kube-system")).items]
        return not await has_port(address) and f"etcd-{objects.name(former)}" not in pods

    await whole.until(is_switched_off, "the machine switched off")


async def test_the_last_control_plane_machine_that_vanished_serves_no_api(whole: Whole) -> None:
    await whole.claim(controlPlaneReplicas=1, workerReplicas=0)
    await whole.until_ready()
    [cluster] = await whole.all(resources.SIMULATED_CLUSTERS)
    [former] = await whole.all(resources.SIMULATED_MACHINES)
    await whole.remove_by_force(resources.SIMULATED_MACHINES, former)

    async def is_stopped() -> bool:
        return whole.hosting.running(objects.uid(cluster)) is None

    await whole.until(is_stopped, "the API stopped")


async def has_port(address: str) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, 2379)
    except OSError:
        return False
    writer.transport.abort()
    return True


@pytest.mark.parametrize("seed", range(4))
async def test_everything_removed_in_any_order_leaves_nothing(whole: Whole, seed: int) -> None:
    choose = random.Random(seed)
    await whole.claim(controlPlaneReplicas=choose.choice([1, 3]), workerReplicas=2)
    await whole.until_ready()
    existing = await whole.everything()
    for resource, obj in choose.sample(existing, choose.randrange(1, len(existing))):
        if choose.random() < 0.3:
            await whole.manager.idle(settle=0.05)
        await whole.remove_by_force(resource, obj)
    await delete_claim(whole)


async def test_a_cluster_whose_claim_lives_on_is_made_again(whole: Whole) -> None:
    """The Cluster is a namesake with another UID: what belonged to the old one goes, and does not wait for it."""
    await whole.claim()
    await whole.until_ready()
    old = await whole.one(capi.CLUSTERS, "c")
    await whole.remove_by_force(capi.CLUSTERS, old)

    async def made_again() -> bool:
        clusters = await whole.all(capi.CLUSTERS)
        planes = await whole.all(capi.KUBEADM_CONTROL_PLANES)
        return (
            len(clusters) == 1
            and objects.uid(clusters[0]) != objects.uid(old)
            and len(planes) == 1
            and objects.is_owned_by(planes[0], clusters[0])
            and await whole.is_ready()
        )

    await whole.until(made_again, "a new cluster ready", describe=whole.left)
