"""The definitions of Cluster API's kinds are complete, and free of everything that is not a fact."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from steelyard.api.clusterapi import definitions, resources
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource


def version_of(definition: Object) -> Object:
    versions = cast("list[Object]", objects.at(definition, "spec", "versions"))
    assert len(versions) == 1
    return versions[0]


def schemas(schema: Object) -> Iterator[Object]:
    yield schema
    for inner in objects.mapping(schema.get("properties")).values():
        yield from schemas(objects.mapping(inner))
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield from schemas(objects.mapping(schema[keyword]))
    for keyword in ("allOf", "anyOf", "oneOf"):
        for inner in objects.sequence(schema.get(keyword)):
            yield from schemas(objects.mapping(inner))


def schema_of(resource: Resource) -> Object:
    return objects.mapping(objects.at(version_of(definitions.crd(resource)), "schema", "openAPIV3Schema"))


@pytest.mark.parametrize("resource", resources.ALL, ids=lambda resource: cast(Resource, resource).plural)
def test_definition_matches_its_resource(resource: Resource) -> None:
    definition = definitions.crd(resource)
    spec = objects.mapping(definition["spec"])
    assert objects.name(definition) == resource.group_resource
    assert (spec["group"], spec["scope"]) == (resource.group, "Namespaced")
    assert (spec["names"]["plural"], spec["names"]["kind"]) == (resource.plural, resource.kind)
    version = version_of(definition)
    assert (version["name"], version["served"], version["storage"]) == (resource.version, True, True)


@pytest.mark.parametrize("resource", resources.ALL, ids=lambda resource: cast(Resource, resource).plural)
def test_schema_carries_no_prose_and_no_rules(resource: Resource) -> None:
    for schema in schemas(schema_of(resource)):
        assert not isinstance(schema.get("description"), str)
        assert "x-kubernetes-validations" not in schema


def test_definitions_say_which_contract_they_speak() -> None:
    providers = {
        resources.CORE_GROUP: "cluster-api",
        resources.ADDONS_GROUP: "cluster-api",
        resources.BOOTSTRAP_GROUP: "bootstrap-kubeadm",
        resources.CONTROL_PLANE_GROUP: "control-plane-kubeadm",
    }
    for resource in resources.ALL:
        assert objects.labels(definitions.crd(resource)) == {
            "cluster.x-k8s.io/provider": providers[resource.group],
            "cluster.x-k8s.io/v1beta2": "v1beta2",
            "clusterctl.cluster.x-k8s.io": "",
        }


@pytest.mark.parametrize(
    "resource",
    [resources.MACHINE_SETS, resources.MACHINE_DEPLOYMENTS, resources.KUBEADM_CONTROL_PLANES],
    ids=lambda resource: cast(Resource, resource).plural,
)
def test_replicated_kinds_can_be_scaled(resource: Resource) -> None:
    subresources = version_of(definitions.crd(resource))["subresources"]
    assert subresources["status"] == {}
    assert subresources["scale"] == {
        "labelSelectorPath": ".status.selector",
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
    }


def test_printer_columns_keep_what_printing_needs() -> None:
    columns = cast("list[dict[str, Any]]", version_of(definitions.crd(resources.MACHINES))["additionalPrinterColumns"])
    phase = next(column for column in columns if column["name"] == "Phase")
    assert phase == {"name": "Phase", "type": "string", "jsonPath": ".status.phase"}
    assert all(set(column) <= {"name", "type", "format", "jsonPath", "priority"} for column in columns)


def test_conditions_merge_by_type() -> None:
    conditions = objects.at(schema_of(resources.CLUSTERS), "properties", "status", "properties", "conditions")
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_a_field_named_description_stays() -> None:
    tokens = objects.at(
        schema_of(resources.KUBEADM_CONFIGS),
        *("properties", "spec", "properties", "initConfiguration", "properties", "bootstrapTokens", "items"),
    )
    assert objects.at(tokens, "properties", "description", "type") == "string"


def test_definitions_are_listed_once_each() -> None:
    names = [objects.name(definition) for definition in definitions.crds()]
    assert names == [resource.group_resource for resource in resources.ALL]
