"""Clusters that other programs are told of: without their kinds, with them, with an integration that is turned off, and
at the end of a cluster. The tests play Argo CD, External Secrets and Cluster API by writing statuses."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from steelyard import settings
from steelyard.api.clusterapi import resources as clusterapi
from steelyard.api.crossplane import PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.compose import names
from steelyard.compose.infrastructures import kubevirt
from steelyard.compose.integrations import argocd, inside, sharedservices
from steelyard.compose.networkpolicies import NETWORK_POLICIES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from tests.controllers.claims import stage as stages
from tests.controllers.claims import test_kubevirt
from tests.controllers.claims.stage import NAMESPACE, Stage
from tests.controllers.claims.test_data_services import install

HOME = names.external(NAMESPACE, "dev")
EVERYTHING = """
integrations:
  argocd: {enabled: true}
  vault: {enabled: true}
  externalSecrets: {enabled: true}
  sharedServices: {enabled: true, dns: 10.96.0.10}
  istio: {enabled: true}
  backstage: {enabled: true}
"""
SPACES = ("argocd", "crossplane-system", "backstage", "shared-services")
OF_OTHERS = (argocd.APPLICATIONS, PUSH_SECRETS, sharedservices.SERVICE_ENTRIES, VAULT_ENTRIES)
KUBECONFIG = test_kubevirt.KUBECONFIG.replace(b"192.168.0.225:6443", b"127.0.0.1:40001")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.kube.runtime.informer._MISSING_DELAY", 0.05)


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stages.opened(tmp_path, EVERYTHING) as opened:
        for each in SPACES:
            await opened.namespace(each)
        yield opened


async def comes_up(stage: Stage) -> None:
    await stage.infrastructure_is_there()
    await stage.machines_are(True)
    await stage.kubeconfig_is_there(value=encoded(KUBECONFIG))
    await stage.settle()


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


async def programs_are_done(stage: Stage, *kinds: Resource) -> None:
    """Each says so in its own words."""
    condition: Object = {
        "status": "True",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "reason": "Done",
        "message": "",
    }
    said: dict[Resource, Object] = {
        argocd.APPLICATIONS: {"sync": {"status": "Synced"}, "health": {"status": "Healthy"}},
        inside.CLUSTER_RESOURCE_SETS: {"conditions": [{"type": "ResourcesApplied", **condition}]},
        PUSH_SECRETS: {"conditions": [{"type": "Ready", **condition}]},
        VAULT_ENTRIES: {"conditions": [{"type": "Ready", **condition}]},
    }
    for kind in kinds or said:
        for obj in (await stage.client.list(kind)).items:
            patch: Object = {"status": said[kind]}
            await stage.client.patch(kind, objects.name(obj), patch, objects.namespace(obj), subresource="status")
    await stage.settle()


async def made(stage: Stage) -> set[str]:
    """`namespace/Kind` of what there is for other programs."""
    return {
        f"{objects.namespace(obj)}/{kind.kind}"
        for kind in (*OF_OTHERS, inside.CLUSTER_RESOURCE_SETS, NETWORK_POLICIES, CONFIG_MAPS, SECRETS)
        for obj in (await stage.client.list(kind)).items
        if names.CLAIM_NAME in objects.labels(obj)
    }


async def test_a_cluster_is_made_without_the_programs_and_says_what_to_install(stage: Stage) -> None:
    await stage.claim()
    await comes_up(stage)

    status, _, message = await stage.condition("Synced")
    assert status == "False"
    assert message.endswith("install External Secrets, or turn integrations.vault off in the platform file")
    assert stage.manager.problem() is None
    assert await stage.find(clusterapi.CLUSTERS, "dev") is not None
    assert await stage.find(SECRETS, f"cluster-{HOME}", "argocd") is not None, "what can be told is"

    await stage.client.delete(stages.CLAIMS, "dev", NAMESPACE)
    for _ in range(100):
        if await stage.find(stages.CLAIMS, "dev") is None:
            break
        await stage.look_again()
    assert await stage.find(stages.CLAIMS, "dev") is None
    left = [*(await stage.client.list(SECRETS)).items, *(await stage.client.list(CONFIG_MAPS)).items]
    assert not [each for each in left if names.CLAIM_NAME in objects.labels(each)]


async def test_ready_waits_for_each_program_and_an_idle_cluster_causes_no_write(stage: Stage) -> None:
    await install(stage, *OF_OTHERS)
    await stage.claim()
    await comes_up(stage)
    assert (await stage.condition("Synced"))[0] == "True"
    assert await made(stage) == {
        "/VaultEntry",
        "argocd/Secret",
        "argocd/Application",
        "backstage/ConfigMap",
        "crossplane-system/PushSecret",
        "crossplane-system/Secret",
        f"{NAMESPACE}/ClusterResourceSet",
        f"{NAMESPACE}/Secret",
        f"{NAMESPACE}/ServiceEntry",
    }

    for kind, waiting in (
        (PUSH_SECRETS, "waiting for PushSecret"),
        (argocd.APPLICATIONS, "waiting for Argo CD to install External Secrets"),
        (inside.CLUSTER_RESOURCE_SETS, "waiting for the store of secrets inside the cluster"),
    ):
        status, reason, message = await stage.condition("Ready")
        assert (status, reason) == ("False", "Creating")
        assert waiting in message
        await programs_are_done(stage, kind)
    assert (await stage.condition("Ready"))[:2] == ("True", "Available")
    assert await stage.condition("Integrated") == ("None", "None", "None")
    assert (await stage.condition("VaultConfigured"))[:2] == ("False", "Configuring")
    await programs_are_done(stage, VAULT_ENTRIES)
    assert (await stage.condition("VaultConfigured"))[:2] == ("True", "Configured")

    revision = stage.store.revision
    await stage.look_again()
    assert stage.store.revision == revision


async def test_programs_forget_a_cluster_before_it_goes(stage: Stage) -> None:
    await install(stage, *OF_OTHERS)
    await stage.claim()
    await comes_up(stage)
    await programs_are_done(stage)
    await stage.lifecycle_takes_over()
    pushed = [objects.name(each) for each in (await stage.client.list(PUSH_SECRETS)).items]
    for name in pushed:
        await stage.client.patch(PUSH_SECRETS, name, {"metadata": {"finalizers": ["external/secrets"]}}, SPACES[1])
    await stage.client.delete(stages.CLAIMS, "dev", NAMESPACE)
    await stage.look_again()

    assert not objects.is_being_deleted(await stage.client.get(clusterapi.CLUSTERS, "dev", NAMESPACE))
    assert await stage.find(SECRETS, f"cluster-{HOME}", "argocd") is None
    assert await stage.find(SECRETS, f"kubeconfig-{HOME}", SPACES[1]) is not None, "until Vault has let go of it"
    for name in pushed:
        await stage.client.patch(PUSH_SECRETS, name, {"metadata": {"finalizers": None}}, SPACES[1])
    await stage.look_again()
    assert objects.is_being_deleted(await stage.client.get(clusterapi.CLUSTERS, "dev", NAMESPACE))
    assert await stage.find(inside.CLUSTER_RESOURCE_SETS, "dev-secret-store") is not None, "it goes with the cluster"

    await stage.lifecycle_lets_go()
    for _ in range(100):
        if await stage.find(stages.CLAIMS, "dev") is None:
            break
        await stage.look_again()
    assert await stage.find(stages.CLAIMS, "dev") is None
    assert await made(stage) == set()


async def test_what_is_turned_off_is_taken_away_and_the_cluster_stays_ready(stage: Stage) -> None:
    await install(stage, *OF_OTHERS)
    await stage.claim()
    await comes_up(stage)
    await programs_are_done(stage)
    machines = await stage.client.get(clusterapi.KUBEADM_CONTROL_PLANES, "dev-control-plane", NAMESPACE)
    await stage.crash()
    stage.platform = settings.parse("integrations: {backstage: {enabled: true}}")
    await stage.start()
    await stage.look_again()

    assert await made(stage) == {"backstage/ConfigMap"}
    assert (await stage.condition("Ready"))[:2] == ("True", "Available")
    now = await stage.client.get(clusterapi.KUBEADM_CONTROL_PLANES, "dev-control-plane", NAMESPACE)
    assert objects.generation(now) == objects.generation(machines)


async def test_a_kubeconfig_that_somebody_changed_does_not_get_into_vault(stage: Stage) -> None:
    await install(stage, *OF_OTHERS)
    await stage.claim()
    await comes_up(stage)
    before = await stage.client.get(SECRETS, f"kubeconfig-{HOME}", SPACES[1])
    elsewhere = encoded(KUBECONFIG.replace(b"127.0.0.1:40001", b"evil.example.org:443"))
    await stage.kubeconfig_is_there(value=elsewhere)
    await stage.settle()

    assert await stage.client.get(SECRETS, f"kubeconfig-{HOME}", SPACES[1]) == before
    assert "its server is https://evil.example.org:443" in (await stage.condition("Ready"))[2]


async def test_somebody_elses_push_to_the_same_path_is_left_alone(stage: Stage) -> None:
    """Objects are called after paths: two claims cannot write to one."""
    await install(stage, *OF_OTHERS)
    await stage.claim()
    await comes_up(stage)
    theirs = next(iter((await stage.client.list(PUSH_SECRETS)).items))
    name = objects.name(theirs)
    await stage.crash()
    labels = {names.CLAIM_NAMESPACE: "team-b"}
    await stage.client.patch(PUSH_SECRETS, name, {"metadata": {"labels": labels}}, SPACES[1])
    theirs = await stage.client.get(PUSH_SECRETS, name, SPACES[1])
    await stage.start()
    await stage.look_again()

    status, _, message = await stage.condition("Synced")
    assert status == "False"
    assert f"PushSecret {SPACES[1]}/{name}: it exists and was not made for this claim" in message
    assert await stage.client.get(PUSH_SECRETS, name, SPACES[1]) == theirs


async def test_a_network_plugin_comes_from_manifests_that_are_there_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.controllers.claims.reconcile._LOOK_AGAIN_UNTOLD", 1.0)
    platform = "kubevirt: {networkManifests: {cilium: [{name: cilium}]}}"
    async with stages.opened(tmp_path, platform) as stage:
        await stage.namespace("steelyard-system")
        await install(stage, kubevirt.CLUSTERS, kubevirt.MACHINE_TEMPLATES)
        await stage.claim(infrastructure="kubevirt")
        assert (await stage.condition("NetworkInstalled"))[:2] == ("False", "ManifestsNotUsable")
        await test_kubevirt.lifecycle_brings_it_about(stage)
        assert (await stage.condition("Ready"))[0] == "False"

        config: Object = {"name": "cilium", "namespace": "steelyard-system"}
        data = {"cilium.yaml": "range: ${POD_CIDR}"}
        await stage.client.create(
            CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": config, "data": data}
        )
        for _ in range(100):
            await stage.settle()
            if await stage.find(inside.CLUSTER_RESOURCE_SETS, "dev-network-plugin", HOME) is not None:
                break
        copy = await stage.client.get(SECRETS, "dev-network-plugin", HOME)
        assert copy["data"] == {"cilium.yaml": encoded(b"range: 10.243.0.0/16")}
        await programs_are_done(stage, inside.CLUSTER_RESOURCE_SETS)
        assert (await stage.condition("Ready"))[:2] == ("True", "Available")
        assert await stage.condition("NetworkInstalled") == ("None", "None", "None")
