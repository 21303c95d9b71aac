"""Single decisions of the composition, each as a small case."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from steelyard import settings
from steelyard.api.workloadcluster import WorkloadClusterSpec
from steelyard.compose import names
from steelyard.compose.cluster import progress
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.compose.workloadcluster import effective
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases

PLATFORM = Platform()


def claim(**parameters: Any) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "dev", "namespace": "team-a", "uid": "u-1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def compose(obj: Object, observed: Observed = NOTHING, platform: Platform = PLATFORM) -> Composed:
    return cases.compose(obj, observed, platform)


def names_of(composed: Composed) -> dict[str, str]:
    return {part: objects.name(desired.object) for part, desired in composed.desired.items()}


def condition(composed: Composed, type_: str) -> Any:
    return next((each for each in composed.conditions if each.type == type_), None)


@pytest.mark.parametrize(
    ("asked", "field", "used"),
    [
        pytest.param({}, "worker_replicas", 2, id="from the environment"),
        pytest.param({"workerReplicas": 7}, "worker_replicas", 7, id="from the claim"),
        pytest.param({"workerReplicas": 0}, "worker_replicas", 0, id="zero is a choice"),
        pytest.param({"environment": "preprod"}, "control_plane_replicas", 3, id="another environment"),
        pytest.param({"kubernetesVersion": "1.31.4"}, "kubernetes_version", "v1.31.4", id="version gets its v"),
        pytest.param({"infrastructure": "metal3"}, "infrastructure", "metal3", id="infrastructure of the claim"),
        pytest.param({}, "infrastructure", "simulated", id="infrastructure of the platform"),
    ],
)
def test_what_is_used_for_a_parameter(asked: dict[str, Any], field: str, used: object) -> None:
    spec = WorkloadClusterSpec.model_validate(claim(**asked)["spec"])
    environment = PLATFORM.environments[spec.parameters.environment]

    assert getattr(effective.parameters(spec.parameters, PLATFORM, environment)[0], field) == used


def test_sizes_follow_the_platform_file() -> None:
    platform = settings.parse("environments: {dev: {cpuCores: 3, workerReplicas: 6}}")

    status = compose(claim(), platform=platform).status

    assert (status["parameters"]["cpuCores"], status["parameters"]["workerReplicas"]) == (3, 6)


def test_another_size_makes_new_templates_and_changes_nothing_else_by_name() -> None:
    before, after = names_of(compose(claim())), names_of(compose(claim(cpuCores=16)))

    changed = {part for part in before if before[part] != after[part]}
    assert changed == {"control-plane-machines", "worker-machines"}


def test_another_number_of_machines_keeps_every_template() -> None:
    assert names_of(compose(claim())) == names_of(compose(claim(workerReplicas=9, controlPlaneReplicas=3)))


def test_the_delays_of_the_simulator_do_not_replace_machines() -> None:
    platform = settings.parse("simulated: {bootSeconds: 60}")

    assert names_of(compose(claim())) == names_of(compose(claim(), platform=platform))


def test_references_name_the_objects_that_are_composed() -> None:
    parts = compose(claim()).desired
    composed = {(part.resource.group, part.resource.kind, objects.name(part.object)) for part in parts.values()}
    cluster, workers = parts["cluster"].object["spec"], parts["workers"].object["spec"]["template"]["spec"]
    control_plane = parts["control-plane"].object["spec"]

    references = [
        cluster["controlPlaneRef"],
        cluster["infrastructureRef"],
        workers["infrastructureRef"],
        workers["bootstrap"]["configRef"],
        control_plane["machineTemplate"]["spec"]["infrastructureRef"],
    ]
    assert {(each["apiGroup"], each["kind"], each["name"]) for each in references} <= composed


def test_each_part_comes_after_what_it_refers_to() -> None:
    order = list(compose(claim()).desired)

    assert order.index("infrastructure") < order.index("cluster")
    assert order.index("control-plane-machines") < order.index("control-plane") < order.index("cluster")
    assert max(order.index("cluster"), order.index("worker-machines"), order.index("worker-bootstrap")) < order.index(
        "workers"
    )


def test_only_the_cluster_is_owned_by_the_claim() -> None:
    owned = [part for part, desired in compose(claim()).desired.items() if objects.owner_references(desired.object)]

    assert owned == ["cluster"]


def test_a_claim_that_was_never_stored_can_be_composed() -> None:
    asked = claim()
    del asked["metadata"]["uid"]

    assert not objects.owner_references(compose(asked).desired["cluster"].object)


def test_every_object_says_whose_it_is() -> None:
    for desired in compose(claim()).desired.values():
        assert objects.matches(names.claim_labels(claim()), desired.object)


def test_an_infrastructure_of_a_later_version_is_refused_in_words() -> None:
    composed = compose(claim(infrastructure="metal3"))

    assert composed.refusal is not None
    assert composed.refusal.reason == "InfrastructureNotAvailable"
    assert "set spec.parameters.infrastructure to simulated" in composed.refusal.message
    assert composed.desired == {}


def test_a_claim_stays_with_its_composition_revision() -> None:
    asked = claim()
    asked["status"] = {"compositionRevision": "v1"}
    assert compose(asked).status["compositionRevision"] == "v1"

    asked["status"] = {"compositionRevision": "v99"}
    refusal = compose(asked).refusal
    assert refusal is not None
    assert refusal.reason == "UnknownCompositionRevision"
    assert "v99" in refusal.message


@pytest.mark.parametrize(
    ("pinned", "asked", "used"),
    [
        ("", "", "v2"),
        ("", "v1", "v1"),
        ("v1", "", "v1"),
        ("v1", "v2", "v2"),
        ("v2", "v2", "v2"),
        ("v2", "", "v2"),
        ("v2", "v1", "CompositionRevisionCannotGoBack"),
        ("v1", "v99", "UnknownCompositionRevision"),
        ("", "newest", "UnknownCompositionRevision"),
        ("v99", "v2", "UnknownCompositionRevision"),
    ],
)
def test_only_the_annotation_moves_a_claim_and_only_forwards(pinned: str, asked: str, used: str) -> None:
    wanted = claim()
    if pinned:
        wanted["status"] = {"compositionRevision": pinned}
    if asked:
        wanted["metadata"]["annotations"] = {"steelyard.dev/composition-revision": asked}
    composed = compose(wanted)
    found = composed.refusal.reason if composed.refusal is not None else composed.status["compositionRevision"]
    assert found == used


def test_a_claim_that_cannot_be_read_names_the_field() -> None:
    refusal = compose(claim(workerReplicas="many")).refusal

    assert refusal is not None
    assert refusal.reason == "InvalidClaim"
    assert "spec.parameters.workerReplicas" in refusal.message


def test_an_enabled_integration_that_is_not_there_yet_is_reported() -> None:
    platform = settings.parse("integrations: {kargo: {enabled: true}}")

    reported = condition(compose(claim(), platform=platform), "Integrated")

    assert reported.status == "False"
    assert "kargo" in reported.message
    assert condition(compose(claim()), "Integrated") is None


def test_the_connection_secret_waits_for_the_kubeconfig_and_is_kept_without_it() -> None:
    asked = claim()
    asked["spec"]["writeConnectionSecretToRef"] = {"name": "mine", "namespace": "argocd"}

    without = compose(asked)
    assert "connection" not in without.desired
    assert without.retained == {"connection"}

    control_plane: Object = {"apiVersion": "v1", "kind": "KubeadmControlPlane", "metadata": {"name": "p", "uid": "u"}}
    metadata: Object = {"name": "dev-kubeconfig", "namespace": "team-a"}
    kubeconfig: Object = {"metadata": metadata, "data": {"value": "e30="}}
    observed = Observed(resources={"control-plane": control_plane}, required={"kubeconfig": [kubeconfig]})
    strange = compose(asked, observed)
    assert "connection" not in strange.desired, "it has the name, and belongs to nobody"
    assert "kubeconfigSecret" not in strange.status
    metadata["ownerReferences"] = [objects.owner_reference(control_plane)]
    assert "connection" not in compose(asked, observed).desired, "an owner among others does not control it"
    metadata["ownerReferences"] = [objects.owner_reference(control_plane, controller=True)]
    composed = compose(asked, observed)
    secret = composed.desired["connection"].object
    assert (secret["metadata"]["namespace"], secret["data"]) == ("argocd", {"kubeconfig": "e30=", "value": "e30="})
    assert not objects.owner_references(secret), "an owner in another namespace would have it collected"
    assert composed.retained == frozenset()


def counted(desired: int, **status: Any) -> Observed:
    """The ready case, with the workers' object changed."""
    observed = cases.observed("ready")
    workers = objects.copy(observed.resources["workers"])
    workers["spec"]["replicas"] = desired
    workers["status"] |= status
    return Observed({**observed.resources, "workers": workers}, observed.required)


def older_template() -> Observed:
    observed = counted(2)
    workers = objects.copy(observed.resources["workers"])
    workers["spec"]["template"]["spec"]["infrastructureRef"]["name"] = "dev-cluster-md-0-0ld"
    return Observed({**observed.resources, "workers": workers}, observed.required)


@pytest.mark.parametrize(
    ("observed", "is_ready"),
    [
        pytest.param(counted(2), True, id="all there"),
        pytest.param(counted(2, readyReplicas=1), False, id="one not ready"),
        pytest.param(counted(2, upToDateReplicas=1), False, id="one of an older template"),
        pytest.param(counted(2, replicas=3, readyReplicas=3), False, id="one too many"),
        pytest.param(counted(2, observedGeneration=0), False, id="counts of an older generation"),
        pytest.param(counted(3), False, id="another number not yet applied"),
        pytest.param(older_template(), False, id="another template not yet applied"),
    ],
)
def test_up_to_date_means_exactly_what_was_asked_for(observed: Observed, is_ready: bool) -> None:
    asked = cases.load("ready", "claim.yaml")

    composed = compose(asked, observed)

    assert (condition(composed, "UpToDate").status == "True") is is_ready
    assert composed.rolling is not is_ready


def test_a_cluster_that_says_it_is_not_available_is_not_ready() -> None:
    observed = cases.observed("ready")
    cluster = objects.copy(observed.resources["cluster"])
    cluster["status"]["conditions"] = [{"type": "Available", "status": "False", "message": "etcd has no leader"}]

    composed = compose(
        cases.load("ready", "claim.yaml"), Observed({**observed.resources, "cluster": cluster}, observed.required)
    )

    assert condition(composed, "Ready").status == "False"
    assert "etcd has no leader" in condition(composed, "Ready").message


def machine(name: str, *, ready: bool = False, phase: str = "Provisioning", deleting: bool = False) -> Object:
    metadata: Object = {"name": name, "namespace": "team-a"}
    if deleting:
        metadata["deletionTimestamp"] = "2025-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "message": "no room on any host"}]
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}


def drained(name: str) -> Object:
    leaving = machine(name, ready=True, deleting=True)
    message = (
        "Drain not completed yet (started at 2025-01-01T00:00:00Z):\n"
        "* Pod shop/web: deletionTimestamp set, but still not removed from the Node"
    )
    leaving["status"]["conditions"].append(
        {"type": "Deleting", "status": "True", "reason": "DrainingNode", "message": message}
    )
    return leaving


@pytest.mark.parametrize(
    ("machines", "words"),
    [
        pytest.param([], "waiting for machines", id="none yet"),
        pytest.param([machine("a")], "waiting for machine a", id="one"),
        pytest.param(
            [machine("b"), machine("a"), machine("c", ready=True)], "waiting for machine a", id="first of two"
        ),
        pytest.param(
            [machine("a", ready=True, deleting=True)], "waiting for the removal of machine a", id="one is leaving"
        ),
        pytest.param(
            [machine("a", deleting=True), drained("b")],
            "waiting for the removal of machine b: Drain not completed yet (started at 2025-01-01T00:00:00Z): "
            "Pod shop/web: deletionTimestamp set, but still not removed from the Node",
            id="what a leaving one is held by",
        ),
        pytest.param(
            [machine("a", phase="Failed"), machine("b")],
            "machine a: it has failed: no room on any host",
            id="failure first",
        ),
    ],
)
def test_what_is_waited_for_is_named(machines: list[Object], words: str) -> None:
    cluster: Object = {"status": {"initialization": {"infrastructureProvisioned": True}}}

    found = progress.of(compose(claim()).desired, {"cluster": cluster}, machines)

    assert found.waiting_for == words


@pytest.mark.parametrize(("machines", "words"), [(3, ""), (2, "waiting for machines")])
def test_counts_that_are_behind_make_no_complete_cluster(machines: int, words: str) -> None:
    """The machine that is replaced has gone, the new one is not there yet, and nobody has counted since."""
    observed = cases.observed("ready")
    found = progress.of(
        compose(cases.load("ready", "claim.yaml"), observed).desired,
        observed.resources,
        [machine(str(number), ready=True) for number in range(machines)],
    )
    assert (str(found.control_plane), str(found.workers)) == ("1/1", "2/2")
    assert found.waiting_for == words


def test_an_ipv6_endpoint_is_written_in_brackets() -> None:
    cluster: Object = {"spec": {"controlPlaneEndpoint": {"host": "::1", "port": 6443}}}

    found = progress.of(compose(claim()).desired, {"cluster": cluster}, [])

    assert found.endpoint == "https://[::1]:6443"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        pytest.param(
            {"users": [{"name": "u", "user": {"exec": {"command": "sh"}}}]}, 'user "u" has exec', id="program"
        ),
        pytest.param(
            {"clusters": [{"name": "c", "cluster": {"server": "https://elsewhere"}}]},
            "its server is https://elsewhere, but the cluster is at https://127.0.0.1:6443",
            id="another server",
        ),
    ],
)
def test_a_kubeconfig_that_somebody_tampered_with_is_not_passed_on(config: Object, problem: str) -> None:
    asked = claim()
    asked["spec"]["writeConnectionSecretToRef"] = {"name": "mine", "namespace": "argocd"}
    value = base64.b64encode(json.dumps(config).encode()).decode()
    cluster: Object = {
        "apiVersion": "v1",
        "kind": "Cluster",
        "metadata": {"name": "dev", "uid": "u"},
        "spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 6443}},
    }
    owners = [objects.owner_reference(cluster, controller=True)]
    metadata: Object = {"name": "dev-kubeconfig", "namespace": "team-a", "ownerReferences": owners}
    secret: Object = {"metadata": metadata, "data": {"value": value}}
    composed = compose(asked, Observed({"cluster": cluster}, required={"kubeconfig": [secret]}))
    assert "connection" not in composed.desired
    assert composed.retained == {"connection"}, "what was passed on before stays"
    assert f"Secret dev-kubeconfig is not one to use: {problem}" in condition(composed, "Ready").message
