"""What other settings would change for a claim, as a table."""

from __future__ import annotations

from steelyard import settings
from steelyard.compose import changes
from steelyard.kube.objects import Object

DEFAULTS = settings.Platform()


def claim(**parameters: object) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "shop", "namespace": "default", "uid": "1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def with_dev(text: str) -> settings.Platform:
    return settings.parse(f"environments: {{dev: {text}}}\n")


def test_a_larger_machine_replaces_all_machines_and_names_every_part_that_changes() -> None:
    change = changes.of(claim(), DEFAULTS, with_dev("{memoryGi: 64}"))
    assert change is not None
    assert change.parameters == ["memoryGi 32 -> 64"]
    assert (change.replaces_control_plane, change.replaces_workers) == (True, True)
    kinds = [part.partition(" ")[0] for part in change.parts]
    assert kinds == [
        "SimulatedMachineTemplate",
        "KubeadmControlPlane",
        "SimulatedMachineTemplate",
        "MachineDeployment",
    ]


def test_another_version_replaces_machines() -> None:
    change = changes.of(claim(), DEFAULTS, with_dev("{kubernetesVersion: v1.33.0}"))
    assert change is not None
    assert (change.replaces_control_plane, change.replaces_workers) == (True, True)


def test_fewer_workers_remove_machines_and_replace_none() -> None:
    change = changes.of(claim(), DEFAULTS, with_dev("{workerReplicas: 0}"))
    assert change is not None
    assert (change.replaces_control_plane, change.replaces_workers, change.removed_workers) == (False, False, 2)
    assert change.parts == ["MachineDeployment shop-md-0"]


def test_what_the_claim_itself_says_is_not_changed_by_the_platform() -> None:
    assert changes.of(claim(memoryGi=16), DEFAULTS, with_dev("{memoryGi: 64}")) is None


def test_settings_of_another_environment_and_delays_change_nothing() -> None:
    other = settings.parse("environments: {production: {memoryGi: 64}}\nsimulated: {bootSeconds: 9}\n")
    assert changes.of(claim(), DEFAULTS, other) is None


def test_an_infrastructure_that_is_not_there_is_told_as_such() -> None:
    # As an older version had stored it: none is written so any more.
    change = changes.of(claim(infrastructure="kvm"), DEFAULTS, settings.parse("simulated: {bootSeconds: 1}"))
    assert change is None
    change = changes.of(claim(), DEFAULTS, DEFAULTS.model_copy(update={"infrastructure": "kvm"}))
    assert change is not None
    assert "kvm" in change.refusal
    assert not change.replaces_workers
