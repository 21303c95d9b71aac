"""From a claim to a ready cluster: what is applied, what is reported, and what is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api import resources
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import CLAIMS, COMPOSED, NAMESPACE, Stage


async def test_a_claim_becomes_cluster_api_objects_and_says_so(stage: Stage) -> None:
    await stage.claim(workerReplicas=4)

    kinds = [entry.split("/")[0] for entry in await stage.objects_of()]
    assert kinds == [
        "Cluster",
        "KubeadmConfigTemplate",
        "KubeadmControlPlane",
        "MachineDeployment",
        "SimulatedCluster",
        "SimulatedMachineTemplate",
        "SimulatedMachineTemplate",
    ]
    workers = await stage.client.get(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", NAMESPACE)
    assert workers["spec"]["replicas"] == 4
    assert await stage.condition("Synced") == ("True", "ReconcileSuccess", "")
    status, reason, message = await stage.condition("Ready")
    assert (status, reason) == ("False", "Creating")
    assert message == "control plane 0/1, workers 0/4: waiting for the cluster's infrastructure"
    claim = await stage.get()
    assert claim["status"]["parameters"]["cpuCores"] == 8
    assert claim["status"]["compositionRevision"] == "v2"
    assert claim["status"]["observedGeneration"] == 1


async def test_a_cluster_whose_machines_are_ready_makes_the_claim_ready(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()

    assert await stage.condition("Ready") == ("True", "Available", "control plane 1/1, workers 2/2")
    status = (await stage.get())["status"]
    assert status["endpoint"] == "https://127.0.0.1:40001"
    assert status["kubeconfigSecret"] == {"name": "dev-kubeconfig", "namespace": NAMESPACE}
    assert status["workers"] == {"desired": 2, "ready": 2, "summary": "2/2"}
    assert "Ready: the cluster is ready: control plane 1/1, workers 2/2" in await stage.events()


async def test_a_ready_claim_causes_no_write(stage: Stage) -> None:
    await stage.namespace("argocd")
    await stage.claim(connection={"name": "c", "namespace": "argocd"})
    await stage.becomes_ready()
    revision = stage.store.revision

    for _ in range(5):
        await stage.look_again()
    await stage.crash()
    await stage.start()
    await stage.settle()

    assert stage.store.revision == revision


def machine(**metadata: Any) -> Object:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": "dev-control-plane-x7k2p",
            "namespace": NAMESPACE,
            "labels": {"cluster.x-k8s.io/cluster-name": "dev"},
            **metadata,
        },
        "spec": {
            "clusterName": "dev",
            "bootstrap": {"dataSecretName": "none"},
            "infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io",
                "kind": "SimulatedMachine",
                "name": "dev-control-plane-x7k2p",
            },
        },
    }


async def test_the_machine_that_is_waited_for_is_named(stage: Stage) -> None:
    await stage.claim()
    await stage.infrastructure_is_there()
    await stage.machines_are(False)
    await stage.client.create(clusterapi_resources.MACHINES, machine())
    await stage.settle()

    _, _, message = await stage.condition("Ready")
    assert message == "control plane 0/1, workers 0/2: waiting for machine dev-control-plane-x7k2p"


async def test_what_holds_a_machine_that_is_to_go_is_told_while_it_changes(stage: Stage) -> None:
    await stage.claim()
    await stage.infrastructure_is_there()
    await stage.machines_are(False)
    leaving = machine(finalizers=["example.org/held"])
    await stage.client.create(clusterapi_resources.MACHINES, leaving)
    await stage.client.delete(clusterapi_resources.MACHINES, objects.name(leaving), NAMESPACE)
    for pod in ("shop/web", "shop/batch"):
        draining = {
            "type": "Deleting",
            "status": "True",
            "reason": "DrainingNode",
            "message": f"Drain not completed yet:\n* Pod {pod}: waiting for completion",
            "lastTransitionTime": "2026-01-10T10:00:00Z",
        }
        status = {"status": {"conditions": [draining]}}
        await stage.client.patch(
            clusterapi_resources.MACHINES, objects.name(leaving), status, NAMESPACE, subresource="status"
        )
        await stage.settle()

        _, _, message = await stage.condition("Ready")
        assert message.endswith(
            "waiting for the removal of machine dev-control-plane-x7k2p: "
            f"Drain not completed yet: Pod {pod}: waiting for completion"
        )


async def test_the_kubeconfig_is_copied_where_the_claim_wants_it_and_kept_current(stage: Stage) -> None:
    await stage.namespace("argocd")
    await stage.claim(connection={"name": "dev-kubeconfig-copy", "namespace": "argocd"})
    await stage.becomes_ready()

    secret = await stage.client.get(SECRETS, "dev-kubeconfig-copy", "argocd")
    assert secret["data"] == {"kubeconfig": "e30=", "value": "e30="}

    await stage.kubeconfig_is_there(value="eyJhIjoxfQ==")
    await stage.settle()
    secret = await stage.client.get(SECRETS, "dev-kubeconfig-copy", "argocd")
    assert secret["data"] == {"kubeconfig": "eyJhIjoxfQ==", "value": "eyJhIjoxfQ=="}


@pytest.mark.parametrize("namespace", [None, NAMESPACE])
async def test_the_kubeconfig_secret_of_cluster_api_can_be_the_one_that_is_asked_for(
    stage: Stage, namespace: str | None
) -> None:
    await stage.claim(connection={"name": "dev-kubeconfig", **({"namespace": namespace} if namespace else {})})
    await stage.becomes_ready()

    assert (await stage.condition("Ready"))[0] == "True"
    assert (await stage.condition("Synced"))[0] == "True"
    secret = await stage.client.get(SECRETS, "dev-kubeconfig", NAMESPACE)
    assert secret["data"] == {"kubeconfig": "e30=", "value": "e30="}

    await stage.kubeconfig_is_there(value="eyJhIjoxfQ==")
    await stage.settle()
    secret = await stage.client.get(SECRETS, "dev-kubeconfig", NAMESPACE)
    assert secret["data"] == {"kubeconfig": "eyJhIjoxfQ==", "value": "eyJhIjoxfQ=="}


async def test_the_kubeconfig_secret_of_cluster_api_is_left_to_it(stage: Stage) -> None:
    await stage.claim(connection={"name": "dev-kubeconfig"})
    await stage.becomes_ready()
    uid = objects.uid(await stage.client.get(SECRETS, "dev-kubeconfig", NAMESPACE))

    await stage.change({"spec": {"writeConnectionSecretToRef": {"name": "mine"}}})
    assert (await stage.client.get(SECRETS, "mine", NAMESPACE))["data"]["value"] == "e30="
    await stage.change({"spec": {"writeConnectionSecretToRef": {"name": "dev-kubeconfig"}}})
    assert await stage.find(SECRETS, "mine") is None
    assert (await stage.condition("Ready"))[0] == "True"

    # It goes with the control plane that made it, and not before.
    planes, plane = clusterapi_resources.KUBEADM_CONTROL_PLANES, "dev-control-plane"
    await stage.client.patch(planes, plane, {"metadata": {"finalizers": ["example.com/kept"]}}, NAMESPACE)
    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()
    assert objects.is_being_deleted(await stage.client.get(planes, plane, NAMESPACE))
    assert objects.uid(await stage.client.get(SECRETS, "dev-kubeconfig", NAMESPACE)) == uid


async def test_a_missing_namespace_for_the_kubeconfig_is_reported_and_made_up_for(stage: Stage) -> None:
    await stage.claim(connection={"name": "copy", "namespace": "argocd"})
    await stage.becomes_ready()

    status, reason, message = await stage.condition("Synced")
    assert (status, reason) == ("False", "ReconcileError")
    assert message.startswith("Secret argocd/copy: ")
    assert "create the namespace argocd" in message
    assert (await stage.condition("Ready"))[0] == "False"
    assert any(event.startswith("ReconcileError: Secret argocd/copy") for event in await stage.events())

    await stage.namespace("argocd")
    await stage.manager.idle(within=10)
    assert (await stage.condition("Ready"))[0] == "True"


async def test_somebody_elses_secret_is_never_overwritten(stage: Stage) -> None:
    await stage.namespace("argocd")
    await stage.client.create(
        SECRETS,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "precious", "namespace": "argocd"},
            "data": {"kubeconfig": "b3duZXJz"},
        },
    )
    await stage.claim(connection={"name": "precious", "namespace": "argocd"})
    await stage.becomes_ready()

    _, _, message = await stage.condition("Synced")
    assert "Secret argocd/precious: it exists and was not made for this claim" in message
    assert (await stage.condition("Ready"))[0] == "False"
    await stage.client.delete(CLAIMS, "dev", NAMESPACE)
    await stage.settle()
    secret = await stage.client.get(SECRETS, "precious", "argocd")
    assert secret["data"] == {"kubeconfig": "b3duZXJz"}
    assert await stage.find(CLAIMS, "dev") is None


async def test_what_others_change_is_put_right(stage: Stage) -> None:
    await stage.claim()
    await stage.client.patch(
        clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", {"spec": {"replicas": 50}}, NAMESPACE
    )
    await stage.settle()

    workers = await stage.client.get(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", NAMESPACE)
    assert workers["spec"]["replicas"] == 2


async def test_what_others_delete_is_made_again(stage: Stage) -> None:
    await stage.claim()
    before = await stage.objects_of()
    await stage.client.delete(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", NAMESPACE)
    await stage.settle()

    assert await stage.objects_of() == before


async def test_fields_that_others_add_stay(stage: Stage) -> None:
    await stage.claim()
    await stage.client.patch(clusterapi_resources.CLUSTERS, "dev", {"metadata": {"labels": {"team": "a"}}}, NAMESPACE)
    await stage.change({"spec": {"parameters": {"workerReplicas": 3}}})

    cluster = await stage.client.get(clusterapi_resources.CLUSTERS, "dev", NAMESPACE)
    assert objects.labels(cluster)["team"] == "a"


@pytest.mark.parametrize("annotation", ["crossplane.io/paused", "cluster.x-k8s.io/paused"])
async def test_a_paused_claim_is_left_alone_until_it_goes_on(stage: Stage, annotation: str) -> None:
    await stage.claim()
    await stage.change(
        {"metadata": {"annotations": {annotation: "true"}}, "spec": {"parameters": {"workerReplicas": 5}}}
    )

    status, reason, message = await stage.condition("Synced")
    assert (status, reason) == ("False", "ReconcilePaused")
    assert annotation in message
    workers = await stage.client.get(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", NAMESPACE)
    assert workers["spec"]["replicas"] == 2

    await stage.change({"metadata": {"annotations": {annotation: None}}})
    workers = await stage.client.get(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", NAMESPACE)
    assert workers["spec"]["replicas"] == 5
    assert (await stage.condition("Synced"))[0] == "True"


async def test_a_claim_stored_for_an_infrastructure_that_is_not_there_is_refused_on_the_claim(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, infrastructures=("simulated", "metal3")) as stage:
        await stage.claim(infrastructure="metal3")

        assert (await stage.condition("Synced"))[:2] == ("False", "InfrastructureNotAvailable")
        assert (await stage.condition("Ready"))[:2] == ("False", "InfrastructureNotAvailable")
        assert await stage.objects_of() == []


async def test_a_claim_that_is_refused_from_now_on_loses_nothing(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, "environments: {load-test: {like: dev}}") as stage:
        await stage.claim(environment="load-test")
        before = await stage.objects_of()

        await stage.crash()
        stage.platform = settings.parse("")
        await stage.start()
        await stage.settle()

        assert (await stage.condition("Synced"))[1] == "EnvironmentNotAvailable"
        assert await stage.objects_of() == before
        assert len((await stage.get())["status"]["inventory"]) == len(before)


async def test_an_integration_that_is_not_there_does_not_hold_the_cluster_up(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, "integrations: {kargo: {enabled: true}}") as stage:
        await stage.claim()
        await stage.becomes_ready()

        assert (await stage.condition("Ready"))[0] == "True"
        assert (await stage.condition("Integrated"))[:2] == ("False", "IntegrationNotAvailable")


async def test_claims_of_one_name_in_two_namespaces_do_not_meet(stage: Stage) -> None:
    await stage.namespace("team-b")
    await stage.claim()
    other = await stage.client.create(
        CLAIMS,
        {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {"name": "dev", "namespace": "team-b"},
            "spec": {"parameters": {"environment": "staging"}},
        },
    )
    await stage.settle()

    await stage.client.delete(CLAIMS, "dev", objects.namespace(other))
    await stage.settle()
    left = [objects.namespace(obj) for each in COMPOSED for obj in (await stage.client.list(each)).items]
    assert set(left) == {NAMESPACE}
    assert await stage.find(resources.SIMULATED_CLUSTERS, "dev") is not None
