"""Clusters on KubeVirt, which is somebody else's: what a claim does without its kinds, with them, and at its end."""

from __future__ import annotations

import base64
from pathlib import Path

import orjson
import pytest

from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import names
from steelyard.compose.infrastructures import kubevirt
from steelyard.compose.integrations import argocd
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, Resource
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import NAMESPACE, Stage

HOME = names.external(NAMESPACE, "dev")
ENDPOINT = {"host": "192.168.0.225", "port": 6443}
KUBECONFIG = b"""
apiVersion: v1
kind: Config
current-context: dev-admin@dev
contexts: [{name: dev-admin@dev, context: {cluster: dev, user: dev-admin}}]
clusters: [{name: dev, cluster: {server: "https://192.168.0.225:6443", certificate-authority-data: Y2E=}}]
users: [{name: dev-admin, user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}}]
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.kube.runtime.informer._MISSING_DELAY", 0.1)


async def install(stage: Stage, *kinds: Resource) -> None:
    for kind in kinds:
        schema: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version: Object = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        definition: Object = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": kind.group_resource},
            "spec": {
                "group": kind.group,
                "names": {"plural": kind.plural, "kind": kind.kind},
                "scope": "Namespaced",
                "versions": [version],
            },
        }
        await stage.client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager="test")


async def lifecycle_brings_it_about(stage: Stage) -> None:
    """What Cluster API and KubeVirt's provider would do: an endpoint, a kubeconfig, machines."""
    client = stage.client
    await client.patch(resources.CLUSTERS, "dev", {"spec": {"controlPlaneEndpoint": ENDPOINT}}, HOME)
    initialization = {"infrastructureProvisioned": True, "controlPlaneInitialized": True}
    await client.patch(
        resources.CLUSTERS, "dev", {"status": {"initialization": initialization}}, HOME, subresource="status"
    )
    for kind, name in (
        (resources.KUBEADM_CONTROL_PLANES, "dev-control-plane"),
        (resources.MACHINE_DEPLOYMENTS, "dev-md-0"),
    ):
        obj = await client.get(kind, name, HOME)
        count = obj["spec"]["replicas"]
        status = {"replicas": count, "readyReplicas": count, "upToDateReplicas": count}
        await client.patch(kind, name, {"status": status}, HOME, subresource="status")
    plane = await client.get(resources.KUBEADM_CONTROL_PLANES, "dev-control-plane", HOME)
    secret: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "dev-kubeconfig",
            "namespace": HOME,
            "labels": {wellknown.CLUSTER_NAME_LABEL: "dev"},
            "ownerReferences": [objects.owner_reference(plane, controller=True)],
        },
        "data": {"value": base64.b64encode(KUBECONFIG).decode()},
    }
    await client.apply(SECRETS, secret, field_manager="test")
    await stage.settle()


async def test_without_kubevirt_the_claim_says_what_to_install_and_the_platform_is_well(stage: Stage) -> None:
    await stage.claim(infrastructure="kubevirt")

    status, reason, message = await stage.condition("Synced")
    assert (status, reason) == ("False", "ReconcileError")
    assert message.startswith(f"KubevirtCluster {HOME}/dev: ")
    assert "the API does not serve this kind: install KubeVirt and its Cluster API provider" in message
    assert stage.manager.problem() is None


async def test_a_cluster_has_a_namespace_of_its_own_and_is_ready_when_its_machines_are(stage: Stage) -> None:
    await install(stage, kubevirt.CLUSTERS, kubevirt.MACHINE_TEMPLATES)
    await stage.claim(infrastructure="kubevirt", connection={"name": "mine"})
    assert (await stage.condition("Synced"))[0] == "True"
    await lifecycle_brings_it_about(stage)

    assert (await stage.condition("Ready"))[:2] == ("True", "Available")
    assert (await stage.condition("NetworkInstalled"))[:2] == ("Unknown", "NobodyInstallsIt")
    status = (await stage.get())["status"]
    assert status["clusterRef"] == {"name": "dev", "namespace": HOME}
    assert status["endpoint"] == "https://192.168.0.225:6443"
    assert (await stage.client.get(SECRETS, "mine", NAMESPACE))["data"].keys() == {"kubeconfig", "value"}


async def test_a_ready_cluster_on_kubevirt_causes_no_write(stage: Stage) -> None:
    await install(stage, kubevirt.CLUSTERS, kubevirt.MACHINE_TEMPLATES)
    await stage.claim(infrastructure="kubevirt")
    await lifecycle_brings_it_about(stage)
    revision = stage.store.revision
    await stage.look_again()

    assert stage.store.revision == revision


async def test_nothing_is_left_of_a_deleted_cluster(stage: Stage) -> None:
    await install(stage, kubevirt.CLUSTERS, kubevirt.MACHINE_TEMPLATES)
    await stage.claim(infrastructure="kubevirt")
    await lifecycle_brings_it_about(stage)
    await stage.client.delete(stages.CLAIMS, "dev", NAMESPACE)

    async def gone() -> bool:
        return await stage.find(stages.CLAIMS, "dev") is None

    for _ in range(200):
        if await gone():
            break
        await stage.look_again()
    assert await gone()
    assert await stage.find(NAMESPACES, HOME, "") is None
    assert (await stage.client.list(kubevirt.MACHINE_TEMPLATES)).items == []


async def test_argo_cd_gets_the_cluster_and_ready_waits_for_its_network(tmp_path: Path) -> None:
    async with stages.opened(tmp_path, "integrations: {argocd: {enabled: true}}") as stage:
        await stage.namespace("argocd")
        await install(stage, kubevirt.CLUSTERS, kubevirt.MACHINE_TEMPLATES, argocd.APPLICATIONS)
        await stage.claim(infrastructure="kubevirt")
        await lifecycle_brings_it_about(stage)

        status, _, message = await stage.condition("Ready")
        assert status == "False"
        assert f"waiting for Argo CD to install cilium (Application argocd/{HOME}-cilium: " in message
        secret = await stage.client.get(SECRETS, f"cluster-{HOME}", "argocd")
        assert objects.labels(secret)["environment"] == "dev"
        assert objects.labels(secret)["cluster-type"] == "workload"
        data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        assert data["server"] == "https://192.168.0.225:6443"
        assert orjson.loads(data["config"]) == {
            "tlsClientConfig": {"insecure": False, "caData": "Y2E=", "certData": "Y2VydA==", "keyData": "a2V5"}
        }

        there = {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}
        await stage.client.patch(argocd.APPLICATIONS, f"{HOME}-cilium", {"status": there}, "argocd")
        await stage.settle()
        assert (await stage.condition("Ready"))[:2] == ("True", "Available")

        await stage.client.delete(stages.CLAIMS, "dev", NAMESPACE)
        await stage.look_again()
        assert await stage.find(argocd.APPLICATIONS, f"{HOME}-cilium", "argocd") is None
        assert await stage.find(SECRETS, f"cluster-{HOME}", "argocd") is None


async def test_a_cluster_does_not_move_when_the_platform_file_names_another_infrastructure(tmp_path: Path) -> None:
    async with stages.opened(tmp_path) as stage:
        await stage.claim()
        before = await stage.objects_of()
        await stage.crash()
        stage.platform = stage.platform.model_copy(update={"infrastructure": "kubevirt"})
        await stage.start()
        await stage.settle()

        assert await stage.objects_of() == before
        assert (await stage.get())["status"]["parameters"]["infrastructure"] == "simulated"
