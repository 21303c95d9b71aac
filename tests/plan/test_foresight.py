"""What other settings would change for a claim, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard import settings
from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.compose import offering
from steelyard.compose.composed import Requirement
from steelyard.compose.effects import Disruption
from steelyard.kube.objects import Object
from steelyard.plan import foresight
from steelyard.plan.foresight import Foreseen
from steelyard.settings import Platform

DEFAULTS = settings.Platform()
KIND = offering.STANDARD.kinds[0]


def claim(**parameters: object) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "shop", "namespace": "default", "uid": "1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def machine(name: str, **labels: str) -> Object:
    return {"kind": "Machine", "metadata": {"name": name, "labels": labels}}


def running(requirement: Requirement) -> Sequence[Object]:
    """One control-plane machine and one worker."""
    if requirement.resource != MACHINES:
        return ()
    return (
        machine("shop-control-plane-1", **{wellknown.CONTROL_PLANE_LABEL: ""}),
        machine("shop-md-0-1", **{wellknown.MACHINE_DEPLOYMENT_LABEL: "shop-md-0"}),
    )


def with_dev(text: str) -> settings.Platform:
    return settings.parse(f"environments: {{dev: {text}}}\n")


def foreseen(new: Platform, **parameters: object) -> Foreseen | None:
    return foresight.of(KIND, claim(**parameters), DEFAULTS, new, running)


def test_a_larger_machine_replaces_all_machines_and_names_every_part_that_changes() -> None:
    found = foreseen(with_dev("{memoryGi: 64}"))
    assert found is not None
    assert found.parameters == ["memoryGi 32 -> 64"]
    assert list(map(str, found.effects)) == [
        "control plane: replaces 1 machine (shop-control-plane-1), surge 1: memoryGi 32 -> 64",
        "pool md-0: replaces 1 machine (shop-md-0-1), surge 1: memoryGi 32 -> 64",
    ]
    kinds = [part.partition(" ")[0] for part in found.parts]
    assert kinds == [
        "SimulatedMachineTemplate",
        "KubeadmControlPlane",
        "SimulatedMachineTemplate",
        "MachineDeployment",
    ]


def test_another_version_replaces_machines() -> None:
    found = foreseen(with_dev("{kubernetesVersion: v1.33.0}"))
    assert found is not None
    assert [(each.disruption, each.count) for each in found.effects] == [(Disruption.ROLLING, 1)] * 2
    assert {each.reason for each in found.effects} == {"version v1.32.1 -> v1.33.0"}


def test_fewer_workers_remove_machines_and_replace_none() -> None:
    found = foreseen(with_dev("{workerReplicas: 0}"))
    assert found is not None
    assert list(map(str, found.effects)) == ["pool md-0: removes 2 machines (shop-md-0-1)"]
    assert found.parts == ["MachineDeployment shop-md-0"]


def test_what_the_claim_itself_says_is_not_changed_by_the_platform() -> None:
    assert foreseen(with_dev("{memoryGi: 64}"), memoryGi=16) is None


def test_settings_of_another_environment_and_delays_change_nothing() -> None:
    other = settings.parse("environments: {production: {memoryGi: 64}}\nsimulated: {bootSeconds: 9}\n")
    assert foreseen(other) is None


def test_an_infrastructure_that_is_not_there_is_told_as_such() -> None:
    # As an older version had stored it: none is written so any more.
    assert foreseen(settings.parse("simulated: {bootSeconds: 1}"), infrastructure="metal3") is None
    found = foreseen(DEFAULTS.model_copy(update={"infrastructure": "metal3"}))
    assert found is not None
    assert "metal3" in found.refusal
    assert not found.effects


def test_an_environment_that_is_taken_away_leaves_everything_as_it_is() -> None:
    own = settings.parse("environments: {qa: {like: dev}}")
    found = foresight.of(KIND, claim(environment="qa"), own, DEFAULTS, running)
    assert found is not None
    assert "no environment qa" in found.refusal
