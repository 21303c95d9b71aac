"""Deleting a claim: in order, saying what is waited for, leaving nothing of it and nothing of others touched."""

from __future__ import annotations

from pathlib import Path

from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import CLAIMS, NAMESPACE, Stage


async def test_deleting_a_claim_leaves_nothing(stage: Stage) -> None:
    await stage.namespace("argocd")
    await stage.claim(connection={"name": "copy", "namespace": "argocd"})
    await stage.becomes_ready()

    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()

    assert await stage.find(CLAIMS, "dev") is None
    assert await stage.objects_of() == []


async def test_the_secret_goes_first_and_everything_else_waits_for_the_cluster(stage: Stage) -> None:
    await stage.claim(connection={"name": "copy"})
    await stage.becomes_ready()
    await stage.lifecycle_takes_over()
    before = await stage.objects_of()

    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()

    assert await stage.objects_of() == [each for each in before if each != "Secret/copy"]
    cluster = await stage.client.get(clusterapi_resources.CLUSTERS, "dev", NAMESPACE)
    assert cluster["metadata"]["deletionTimestamp"]
    assert await stage.condition("Ready") == (
        "False",
        "Deleting",
        f"waiting for the deletion of Cluster {NAMESPACE}/dev",
    )

    await stage.lifecycle_lets_go()
    assert await stage.find(CLAIMS, "dev") is None
    assert await stage.objects_of() == []


async def test_a_claim_can_be_deleted_before_its_cluster_exists(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, infrastructures=("simulated", "metal3")) as stage:
        await stage.claim(infrastructure="metal3")
        await stage.client.delete(CLAIMS, "dev", NAMESPACE)
        await stage.settle()

        assert await stage.find(CLAIMS, "dev") is None


async def test_a_part_that_will_not_go_is_named(stage: Stage) -> None:
    await stage.claim()
    hold: Object = {"metadata": {"finalizers": ["example.org/hold"]}}
    await stage.client.patch(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", hold, NAMESPACE)
    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()

    assert (await stage.condition("Ready"))[2] == (
        f"waiting for the deletion of MachineDeployment {NAMESPACE}/dev-md-0"
    )
    release: Object = {"metadata": {"finalizers": None}}
    await stage.client.patch(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", release, NAMESPACE)
    await stage.settle()
    assert await stage.find(CLAIMS, "dev") is None


async def test_a_claim_whose_status_was_lost_still_takes_its_objects_along(stage: Stage) -> None:
    await stage.claim()
    await stage.crash()
    await stage.client.patch(CLAIMS, "dev", {"status": None}, NAMESPACE, subresource="status")
    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.start()
    await stage.settle()

    assert await stage.find(CLAIMS, "dev") is None
    assert await stage.objects_of() == []


async def test_an_inventory_of_an_unknown_kind_is_reported_and_not_forgotten(stage: Stage) -> None:
    await stage.claim()
    entry = {"resourceName": "x", "apiVersion": "example.org/v1", "kind": "Widget", "namespace": "a", "name": "b"}
    inventory = [*(await stage.get())["status"]["inventory"], entry]
    await stage.crash()
    await stage.client.patch(CLAIMS, "dev", {"status": {"inventory": inventory}}, NAMESPACE, subresource="status")
    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.start()
    await stage.settle()

    status, reason, message = await stage.condition("Synced")
    assert (status, reason) == ("False", "ReconcileError")
    assert "Widget a/b" in message


async def test_foreground_deletion_keeps_the_order_too(stage: Stage) -> None:
    await stage.claim(connection={"name": "copy"})
    await stage.becomes_ready()
    await stage.lifecycle_takes_over()

    await stage.client.delete(CLAIMS, "dev", NAMESPACE, propagation="Foreground")
    await stage.settle()

    left = await stage.objects_of()
    assert len([each for each in left if "Template" in each]) == 3, "templates are needed while machines exist"
    await stage.lifecycle_lets_go()
    await stage.manager.idle(within=1)
    assert await stage.find(CLAIMS, "dev") is None
    assert await stage.objects_of() == []


async def test_a_cluster_of_the_same_name_that_is_not_the_claims_survives(stage: Stage) -> None:
    own: Object = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "dev", "namespace": NAMESPACE},
        "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}}},
    }
    await stage.client.create(clusterapi_resources.CLUSTERS, own)
    await stage.claim()

    assert f"Cluster {NAMESPACE}/dev: it exists and was not made" in (await stage.condition("Synced"))[2]
    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()
    assert await stage.find(CLAIMS, "dev") is None
    assert await stage.find(clusterapi_resources.CLUSTERS, "dev") is not None
    assert await stage.find(SECRETS, "copy") is None
