"""What is KubernetesCluster's own: sizes as texts, live migration, the network plugin, and the status as printed."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard import settings
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases, printed

PLATFORM = Platform()


def claim(**parameters: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "KubernetesCluster",
        "metadata": {"name": "shop", "namespace": "team-a"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def compose(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    return cases.compose(obj, observed, platform)


def sizes(composed: Composed, part: str) -> Object:
    return composed.desired[part].object["spec"]["template"]["spec"]


def test_control_plane_and_workers_have_sizes_of_their_own() -> None:
    composed = compose(
        claim(
            controlPlaneCPU="2",
            controlPlaneMemory="4Gi",
            workerCPU="16",
            workerMemory="64Gi",
            workerStorage="500Gi",
        )
    )

    assert sizes(composed, "control-plane-machines") == {"cpuCores": 2, "memoryGi": 4, "diskGb": 50}
    assert sizes(composed, "worker-machines") == {"cpuCores": 16, "memoryGi": 64, "diskGb": 500}


def test_what_is_left_out_is_the_environments() -> None:
    platform = settings.parse("environments: {dev: {cpuCores: 6, memoryGi: 12, diskGb: 77, workerReplicas: 4}}")
    composed = compose(claim(), platform=platform)

    assert sizes(composed, "worker-machines") == {"cpuCores": 6, "memoryGi": 12, "diskGb": 77}
    assert composed.status["parameters"] | {"kubernetesVersion": ""} == {
        "environment": "dev",
        "infrastructure": "simulated",
        "controlPlaneNodes": 1,
        "workerNodes": 4,
        "controlPlaneCPU": "6",
        "controlPlaneMemory": "12Gi",
        "workerCPU": "6",
        "workerMemory": "12Gi",
        "workerStorage": "77Gi",
        "kubernetesVersion": "",
        "podCidr": "10.243.0.0/16",
        "serviceCidr": "10.95.0.0/16",
    }


@pytest.mark.parametrize(
    ("asked", "platform", "plugin"),
    [
        pytest.param({}, "", "kube-ovn", id="by default"),
        pytest.param({}, "kubevirt: {networkPlugin: calico}", "calico", id="the platform's"),
        pytest.param({"networkPlugin": "cilium"}, "kubevirt: {networkPlugin: calico}", "cilium", id="the claim's"),
    ],
)
def test_the_network_plugin(asked: Object, platform: str, plugin: str) -> None:
    composed = compose(claim(infrastructure="kubevirt", **asked), platform=settings.parse(platform))

    assert composed.status["parameters"]["networkPlugin"] == plugin


@pytest.mark.parametrize("moves", [True, False])
def test_live_migration_is_a_matter_of_disk_strategy_and_annotation(moves: bool) -> None:
    composed = compose(claim(infrastructure="kubevirt", enableLiveMigration=moves))

    for part in ("control-plane-machines", "worker-machines"):
        machine = sizes(composed, part)["virtualMachineTemplate"]["spec"]
        volume = machine["dataVolumeTemplates"][0]["spec"]["pvc"]
        assert volume["accessModes"] == (["ReadWriteMany"] if moves else ["ReadWriteOnce"])
        assert ("evictionStrategy" in machine["template"]["spec"]) is moves
        assert ("metadata" in machine["template"]) is moves


def test_what_has_no_effect_says_so() -> None:
    asked = claim(enableLiveMigration=True, networkPlugin="calico", vaultPath="secret/clusters/dev")
    told = {each.type: each for each in compose(asked).conditions}["InForce"]

    assert told.status == "False"
    for field in ("enableLiveMigration: ", "networkPlugin: ", "vaultPath: "):
        assert field in told.message
    assert "InForce" not in {each.type for each in compose(claim()).conditions}
    kubevirt = claim(infrastructure="kubevirt", enableLiveMigration=True, networkPlugin="calico")
    assert "InForce" not in {each.type for each in compose(kubevirt).conditions}


def test_the_status_is_as_claims_for_crossplane_are_read() -> None:
    first = compose(claim())
    assert first.status["clusterReady"] is False
    assert "clusterEndpoint" not in first.status

    cluster, plane = (objects.copy(first.desired[name].object) for name in ("cluster", "control-plane"))
    cluster["spec"]["controlPlaneEndpoint"] = {"host": "10.0.0.1", "port": 6443}
    plane["metadata"]["uid"] = "u"
    secret: Object = {
        "metadata": {
            "name": "shop-kubeconfig",
            "namespace": "team-a",
            "ownerReferences": [objects.owner_reference(plane, controller=True)],
        },
        "data": {"value": "e30="},
    }
    found = Observed(resources={"cluster": cluster, "control-plane": plane}, required={"kubeconfig": [secret]})
    status = compose(claim(), found).status
    assert status["clusterEndpoint"] == "https://10.0.0.1:6443"
    assert status["kubeconfig"] == "team-a/shop-kubeconfig"


@pytest.mark.parametrize("infrastructure", ["simulated", "kubevirt"])
@pytest.mark.parametrize("title", list(printed.CLUSTERS))
def test_what_a_printed_claim_for_a_cluster_says_is_what_is_used(title: str, infrastructure: str) -> None:
    asked = printed.CLUSTERS[title]
    platform = settings.parse(f"domain: {printed.domain_of(asked)}\ninfrastructure: {infrastructure}")

    used = compose(asked, platform=platform).status["parameters"]

    said = asked["spec"]["parameters"]
    without_effect = {"vaultPath"}
    if infrastructure == "simulated":
        without_effect |= {"enableLiveMigration", "networkPlugin"}
    assert {name: used.get(name) for name in said if name not in without_effect} == {
        name: value for name, value in said.items() if name not in without_effect
    }
