"""The CRDs made from the models: structural, complete, and accepting what the mission's documents print."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import yaml

from steelyard import app
from steelyard.api import clusterfields, resources, workloadcluster
from steelyard.api.clusterapi import definitions as clusterapi
from steelyard.compose import offering
from steelyard.compose.offering import STANDARD
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, prune, structural, validate

# As printed in the mission's document on Cluster API and KubeVirt.
PRINTED_CLAIM = """
apiVersion: compute.pnats.cloud/v1alpha1
kind: WorkloadCluster
metadata:
  name: dev-cluster
  namespace: crossplane-system
spec:
  parameters:
    environment: dev
    controlPlaneReplicas: 1
    workerReplicas: 2
    cpuCores: 8
    memoryGi: 32
    diskGb: 100
    kubernetesVersion: "v1.32.1"

  writeConnectionSecretToRef:
    name: dev-cluster-kubeconfig
    namespace: argocd
"""


def claim(**parameters: Any) -> Object:
    loaded = cast(Object, yaml.safe_load(PRINTED_CLAIM))
    loaded["spec"]["parameters"] = {"environment": "dev", **parameters}
    return loaded


def schema_of(kind: str) -> Object:
    definitions = offering.STANDARD.definitions("pnats.cloud")
    found = next(each for each in definitions if each["spec"]["names"]["kind"] == kind)
    return cast(Object, found["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def complaints(obj: Object) -> list[str]:
    schema = parse.from_openapi(schema_of(str(obj["kind"])))
    found = [f"{cause.field}: {cause.message}" for cause in validate.validate(schema, obj)]
    return [each for each in found if "some validation rules were not checked" not in each]


def nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    yield path, schema
    for name, child in objects.mapping(schema.get("properties")).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes(schema[keyword], f"{path}[]")


@pytest.mark.parametrize(
    "definition", offering.STANDARD.definitions("pnats.cloud"), ids=lambda each: each["metadata"]["name"]
)
def test_every_schema_is_structural(definition: Object) -> None:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    for path, node in nodes(schema):
        assert node.get("type"), f"{path} has no type"
        assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "title", "$defs", "const"} & set(node), path
        assert node.get("additionalProperties") is not False, path
        is_of_masking = ".masking." in path
        assert is_of_masking or "default" not in node, f"{path}: sizes come from the environment, never from the schema"
        assert not ("properties" in node and "additionalProperties" in node), path


@pytest.mark.parametrize(
    "definition",
    [
        *STANDARD.definitions("pnats.cloud"),
        *clusterapi.crds(),
        *(each for provider in app.PROVIDERS for each in provider.definitions()),
    ],
    ids=lambda each: each["metadata"]["name"],
)
def test_what_the_platform_vouches_for_passes_every_check(definition: Object) -> None:
    """At a start they are not checked again."""
    for version in definition["spec"]["versions"]:
        # With another description, since a platform may have been started in this process.
        schema = {**version["schema"]["openAPIV3Schema"], "description": "which nobody vouches for"}
        assert structural.check(schema, "schema") == []


def test_a_schema_that_nobody_vouches_for_is_checked() -> None:
    known: Object = {"type": "object", "properties": {"a": {"type": "string", "pattern": "vouched for ("}}}
    other: Object = {"type": "object", "properties": {"a": {"type": "string", "pattern": "like that ("}}}
    structural.vouch(known)
    assert structural.check(known, "schema") == []
    assert structural.check(other, "schema") != []


def test_the_printed_claim_is_accepted_as_it_stands() -> None:
    printed = cast(Object, yaml.safe_load(PRINTED_CLAIM))

    assert complaints(printed) == []
    assert prune.prune(parse.from_openapi(schema_of("WorkloadCluster")), objects.copy(printed)) == []


def test_the_fields_of_a_crossplane_claim_are_accepted_and_kept() -> None:
    asked = claim()
    asked["spec"] |= {
        "compositionSelector": {"matchLabels": {"crossplane.io/xrd": "xworkloadclusters.compute.pnats.cloud"}},
        "compositionRef": {"name": "workload-cluster-capi"},
        "compositionRevisionRef": {"name": "workload-cluster-capi-1"},
        "compositionUpdatePolicy": "Manual",
        "compositeDeletePolicy": "Foreground",
        "resourceRef": {"apiVersion": "compute.pnats.cloud/v1alpha1", "kind": "XWorkloadCluster", "name": "dev-x"},
    }

    assert complaints(asked) == []
    assert prune.prune(parse.from_openapi(schema_of("WorkloadCluster")), objects.copy(asked)) == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        pytest.param({"environment": "Prod"}, "spec.parameters.environment", id="no name for an environment"),
        pytest.param({"controlPlaneReplicas": 2}, "spec.parameters.controlPlaneReplicas", id="even control plane"),
        pytest.param({"workerReplicas": -1}, "spec.parameters.workerReplicas", id="negative workers"),
        pytest.param({"workerReplicas": 101}, "spec.parameters.workerReplicas", id="too many workers"),
        pytest.param({"cpuCores": 0}, "spec.parameters.cpuCores", id="no cores"),
        pytest.param({"memoryGi": "32"}, "spec.parameters.memoryGi", id="quoted number"),
        pytest.param({"diskGb": 1.5}, "spec.parameters.diskGb", id="part of a gigabyte"),
        pytest.param({"kubernetesVersion": "v1.32"}, "spec.parameters.kubernetesVersion", id="version without patch"),
        pytest.param({"infrastructure": "vmware"}, "spec.parameters.infrastructure", id="unknown infrastructure"),
        pytest.param(
            {"infrastructure": "metal3"}, "spec.parameters.infrastructure", id="infrastructure of a later version"
        ),
    ],
)
def test_a_wrong_parameter_is_refused_at_its_field(parameters: dict[str, Any], field: str) -> None:
    found = complaints(claim(**parameters))

    assert len(found) == 1
    assert found[0].startswith(f"{field}: ")


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({}, id="environment alone"),
        pytest.param({"workerReplicas": 0}, id="control plane alone"),
        pytest.param({"controlPlaneReplicas": 3, "workerReplicas": 100}, id="largest"),
        pytest.param({"kubernetesVersion": "1.32.1"}, id="version without v"),
        pytest.param({"infrastructure": "simulated"}, id="infrastructure that is offered"),
    ],
)
def test_what_may_be_asked_for_is_accepted(parameters: dict[str, Any]) -> None:
    assert complaints(claim(**parameters)) == []


def test_the_environment_is_required() -> None:
    asked = claim()
    asked["spec"]["parameters"] = {"workerReplicas": 2}

    assert complaints(asked) == ["spec.parameters.environment: Required value"]


@pytest.mark.parametrize("name", ["a" * 50, "with.dot", "Upper", "-dash"])
def test_a_name_that_leads_to_names_too_long_or_wrong_is_refused(name: str) -> None:
    asked = claim()
    asked["metadata"]["name"] = name

    assert any(found.startswith("metadata.name: ") for found in complaints(asked))


def test_the_longest_name_leaves_room_for_what_derives_from_it() -> None:
    assert len("a" * clusterfields.NAME_MAX + "-control-plane") == 63


def test_kinds_are_in_the_platforms_domain() -> None:
    names = [definition["metadata"]["name"] for definition in offering.STANDARD.definitions("pnats.cloud")]

    assert names == [
        "workloadclusters.compute.pnats.cloud",
        "kubernetesclusters.compute.pnats.cloud",
        "virtualclusters.compute.pnats.cloud",
        "postgresqlinstances.database.pnats.cloud",
        "postgresqlaccesses.database.pnats.cloud",
        "redisinstances.cache.pnats.cloud",
        "simulatedclusters.infrastructure.cluster.x-k8s.io",
        "simulatedmachines.infrastructure.cluster.x-k8s.io",
        "simulatedmachinetemplates.infrastructure.cluster.x-k8s.io",
        "kvmclusters.infrastructure.cluster.x-k8s.io",
        "kvmclustertemplates.infrastructure.cluster.x-k8s.io",
        "kvmmachines.infrastructure.cluster.x-k8s.io",
        "kvmmachinetemplates.infrastructure.cluster.x-k8s.io",
        "kvmhosts.infrastructure.cluster.x-k8s.io",
    ]
    assert resources.workload_clusters("pnats.cloud").api_version == "compute.pnats.cloud/v1alpha1"


def test_a_listing_shows_what_matters_first() -> None:
    columns = offering.STANDARD.definitions("steelyard.dev")[0]["spec"]["versions"][0]["additionalPrinterColumns"]

    assert [column["name"] for column in columns if not column.get("priority")] == [
        "Environment", "Version", "Control-Plane", "Workers", "State", "Ready", "Age"
    ]  # fmt: skip


def test_infrastructure_kinds_say_which_contract_they_keep() -> None:
    of_infrastructures = offering.STANDARD.definitions("steelyard.dev")[len(offering.STANDARD.kinds) :]
    for definition in of_infrastructures:
        if objects.name(definition).startswith("kvmhosts."):
            continue  # no kind of Cluster API's contract
        (version,) = definition["spec"]["versions"]
        assert definition["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"] == version["name"]


def test_a_machine_of_the_simulator_passes_its_own_schema() -> None:
    machine: Object = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "SimulatedMachine",
        "metadata": {"name": "a"},
        "spec": {"providerID": "simulated://ns/a", "cpuCores": 8, "memoryGi": 32, "diskGb": 100, "bootSeconds": 0.5},
        "status": {
            "initialization": {"provisioned": True},
            "phase": "Running",
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    }

    assert complaints(machine) == []
    assert prune.prune(parse.from_openapi(schema_of("SimulatedMachine")), objects.copy(machine)) == []


def test_the_status_that_is_written_survives_pruning() -> None:
    status = workloadcluster.WorkloadClusterStatus.model_validate(
        {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "A",
                    "message": "",
                    "lastTransitionTime": "2025-01-01T00:00:00Z",
                }
            ],
            "controlPlane": {"desired": 1, "ready": 1, "summary": "1/1"},
            "inventory": [{"resourceName": "a", "apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "x"}],
        }
    ).to_json()
    obj = {**claim(), "status": status}

    assert complaints(obj) == []
    assert prune.prune(parse.from_openapi(schema_of("WorkloadCluster")), objects.copy(obj)) == []


def test_a_schema_without_end_is_nobodys_to_vouch_for() -> None:
    structural.vouch({"type": "object"})
    endless: Object = {"type": "object"}
    for _ in range(3000):
        endless = {"type": "object", "properties": {"a": endless}}
    with pytest.raises(RecursionError):
        structural.check(endless, "schema")
