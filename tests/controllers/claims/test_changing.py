"""Changing a claim: scaling, other sizes, another Secret, and what goes when."""

from __future__ import annotations

from steelyard.api import resources
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.kube.resources import SECRETS
from tests.controllers.claims.stage import NAMESPACE, Stage


async def test_scaling_changes_counts_and_no_template(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    templates = await stage.objects_of(resources.SIMULATED_MACHINE_TEMPLATES)

    await stage.change({"spec": {"parameters": {"workerReplicas": 4, "controlPlaneReplicas": 3}}})

    assert await stage.condition("Ready") == (
        "True",
        "Scaling",
        "control plane 1/3, workers 2/4: waiting for machines",
    )
    assert await stage.objects_of(resources.SIMULATED_MACHINE_TEMPLATES) == templates
    await stage.machines_are(True)
    await stage.settle()
    assert await stage.condition("Ready") == ("True", "Available", "control plane 3/3, workers 4/4")


async def test_ready_never_speaks_of_the_state_before_the_change(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()

    await stage.change({"spec": {"parameters": {"cpuCores": 16}}})

    claim = await stage.get()
    assert (await stage.condition("Ready"))[:2] == ("True", "Updating")
    assert (await stage.condition("UpToDate"))[:2] == ("False", "Updating")
    assert claim["status"]["observedGeneration"] == claim["metadata"]["generation"]


async def test_old_templates_stay_until_the_machines_are_replaced(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    old = await stage.objects_of(resources.SIMULATED_MACHINE_TEMPLATES)

    await stage.change({"spec": {"parameters": {"cpuCores": 16}}})
    during = await stage.objects_of(resources.SIMULATED_MACHINE_TEMPLATES)
    assert set(old) < set(during)
    assert len(during) == 4

    await stage.machines_are(True, up_to_date=False)
    await stage.settle()
    assert await stage.objects_of(resources.SIMULATED_MACHINE_TEMPLATES) == during

    await stage.machines_are(True)
    await stage.settle()
    after = await stage.objects_of(resources.SIMULATED_MACHINE_TEMPLATES)
    assert set(after) == set(during) - set(old)
    recorded = {entry["name"] for entry in (await stage.get())["status"]["inventory"]}
    assert not recorded & {entry.split("/")[1] for entry in old}


async def test_a_change_taken_back_leads_to_the_first_template(stage: Stage) -> None:
    await stage.claim()
    await stage.becomes_ready()
    before = await stage.objects_of()

    await stage.change({"spec": {"parameters": {"memoryGi": 64}}})
    await stage.change({"spec": {"parameters": {"memoryGi": None}}})
    await stage.machines_are(True)
    await stage.settle()

    after = await stage.objects_of()
    assert after == before


async def test_another_version_is_handed_to_control_plane_and_workers(stage: Stage) -> None:
    await stage.claim()
    await stage.change({"spec": {"parameters": {"kubernetesVersion": "1.33.0"}}})

    control_plane = await stage.client.get(clusterapi_resources.KUBEADM_CONTROL_PLANES, "dev-control-plane", NAMESPACE)
    workers = await stage.client.get(clusterapi_resources.MACHINE_DEPLOYMENTS, "dev-md-0", NAMESPACE)
    assert control_plane["spec"]["version"] == "v1.33.0"
    assert workers["spec"]["template"]["spec"]["version"] == "v1.33.0"


async def test_another_name_for_the_secret_moves_it(stage: Stage) -> None:
    await stage.namespace("argocd")
    await stage.claim(connection={"name": "first", "namespace": "argocd"})
    await stage.becomes_ready()

    await stage.change({"spec": {"writeConnectionSecretToRef": {"name": "second"}}})
    await stage.settle()
    assert await stage.objects_of(SECRETS) == ["Secret/second"]

    await stage.change({"spec": {"writeConnectionSecretToRef": None}})
    assert await stage.objects_of(SECRETS) == []
    assert (await stage.condition("Ready"))[0] == "True"


async def test_the_secret_stays_while_the_kubeconfig_is_missing(stage: Stage) -> None:
    await stage.claim(connection={"name": "copy"})
    await stage.becomes_ready()
    await stage.client.delete(SECRETS, "dev-kubeconfig", NAMESPACE)
    await stage.settle()

    assert await stage.objects_of(SECRETS) == ["Secret/copy"]
    assert (await stage.condition("Ready"))[2].endswith("waiting for Secret dev-kubeconfig")
