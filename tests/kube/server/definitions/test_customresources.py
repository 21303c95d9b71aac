import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.kube.objects import Object
from steelyard.kube.server.definitions import crdstatus, customresources

CRDS = Path(__file__).parents[5] / "shared" / "crds"
NOW = "2024-01-02T03:04:05Z"


def widget(**schema: Any) -> Object:
    crd: Object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}},
                        }
                    },
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                    "additionalPrinterColumns": [{"name": "X", "type": "string", "jsonPath": ".spec.x"}],
                }
            ],
        },
    }
    if schema:
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] = schema
    customresources.prepare_create(crd)
    return crd


def complaints(crd: Object) -> list[str]:
    return [f"{cause.field}: {cause.message}" for cause in customresources.validate_create(crd)]


def version(crd: Object) -> Object:
    found: Object = crd["spec"]["versions"][0]
    return found


def root(crd: Object) -> Object:
    found: Object = version(crd)["schema"]["openAPIV3Schema"]
    return found


def test_defaults_are_filled_in() -> None:
    crd = widget()
    assert crd["spec"]["names"]["singular"] == "widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert complaints(crd) == []


X = "spec.validation.openAPIV3Schema.properties[spec].properties[x]"
FIELD_RULES: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "a field needs a type",
        {"description": "untyped"},
        [f"{X}.type: Required value: must not be empty for specified object fields"],
    ),
    (
        "an unknown type",
        {"type": "text"},
        [
            f'{X}.type: Unsupported value: "text": supported values: "array", "boolean", "integer", "number", '
            '"object", "string"'
        ],
    ),
    ("a list needs items", {"type": "array"}, [f"{X}.items: Required value: must be specified"]),
    (
        "types may not be said under a junctor",
        {"type": "string", "anyOf": [{"type": "string"}]},
        [f"{X}.anyOf[0].type: Forbidden: must be empty to be structural"],
    ),
    (
        "int-or-string may repeat its types",
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        [],
    ),
    (
        "int-or-string may repeat its types under allOf",
        {
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "a"}],
        },
        [],
    ),
    (
        "properties exclude additionalProperties",
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "additionalProperties": {"type": "string"},
        },
        [f"{X}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    (
        "uniqueItems is too slow",
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        [
            f"{X}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes "
            "quadratic"
        ],
    ),
    (
        "references are not supported",
        {"type": "object", "$ref": "#/a"},
        [f"{X}.$ref: Forbidden: $ref is not supported"],
    ),
    (
        "preserve-unknown-fields is true or absent",
        {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
        [f"{X}.x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
    ),
    (
        "a default must be valid",
        {"type": "string", "default": 5},
        [f'{X}.default: Invalid value: "integer":  in body must be of type string: "integer"'],
    ),
    (
        "a default must be known",
        {"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}},
        [f'{X}.default: Invalid value: {{"b":1}}: must not have unknown fields'],
    ),
    (
        "keys of a map-like list exist",
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
        },
        [f'{X}.x-kubernetes-list-map-keys: Invalid value: ["name"]: entries must all be names of item properties'],
    ),
    (
        "keys of a map-like list are required or have a default",
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
        [
            f"{X}.items.properties[name].default: Required value: this property is in x-kubernetes-list-map-keys, so "
            "it must have a default or be a required property"
        ],
    ),
    (
        "objects in a set are atomic",
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
        [
            f"{X}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with "
            "x-kubernetes-list-type=set"
        ],
    ),
    (
        "map keys need a map",
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-map-keys": ["a"]},
        [
            f"{X}.x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ],
    ),
    (
        "an embedded object describes something",
        {"type": "object", "x-kubernetes-embedded-resource": True},
        [
            f"{X}.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        ],
    ),
    (
        "a CEL rule says something",
        {"type": "string", "x-kubernetes-validations": [{"rule": " "}]},
        [f"{X}.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
    ),
    ("a CEL rule is kept", {"type": "string", "x-kubernetes-validations": [{"rule": "self.size() > 2"}]}, []),
]


@pytest.mark.parametrize("schema,expected", [case[1:] for case in FIELD_RULES], ids=[case[0] for case in FIELD_RULES])
def test_schemas_must_be_structural(schema: dict[str, Any], expected: list[str]) -> None:
    assert complaints(widget(**schema)) == expected


def test_a_schema_without_end_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        schema = {"type": "object", "properties": {"a": schema}}
    assert complaints(widget(**schema)) == [
        "spec.validation.openAPIV3Schema: Forbidden: the schema is nested too deeply"
    ]


def test_a_pattern_must_compile() -> None:
    found = complaints(widget(type="string", pattern="(?=a)"))
    assert found[0].startswith(f'{X}.pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn\'t: ')


def _no_schema(crd: Object) -> None:
    del version(crd)["schema"]


def _two_storage_versions(crd: Object) -> None:
    other = copy.deepcopy(version(crd))
    other["name"] = "v2"
    crd["spec"]["versions"].append(other)
    crd["status"]["storedVersions"].append("v2")


def _metadata_described(crd: Object) -> None:
    root(crd)["properties"]["metadata"] = {"type": "object", "properties": {"labels": {"type": "object"}}}


def _default_in_metadata(crd: Object) -> None:
    root(crd)["properties"]["metadata"] = {"type": "object", "properties": {"name": {"type": "string", "default": "a"}}}


DEFINITION_RULES: list[tuple[str, Callable[[Object], object], str]] = [
    (
        "the name is made of plural and group",
        lambda crd: crd["metadata"].update(name="other.example.com"),
        'metadata.name: Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group',
    ),
    (
        "the group is a domain",
        lambda crd: (crd["spec"].update(group="example"), crd["metadata"].update(name="widgets.example")),
        'spec.group: Invalid value: "example": should be a domain with at least one dot',
    ),
    (
        "the scope is one of two",
        lambda crd: crd["spec"].update(scope="Global"),
        'spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced"',
    ),
    (
        "a schema is required",
        _no_schema,
        "spec.versions[0].schema.openAPIV3Schema: Required value",
    ),
    (
        "lists have a kind of their own",
        lambda crd: crd["spec"]["names"].update(listKind="Widget"),
        'spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same',
    ),
    (
        "the root may not be nullable",
        lambda crd: (root(crd).update(nullable=True), version(crd)["subresources"].pop("status")),
        "spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
    ),
    (
        "metadata is described implicitly",
        _metadata_described,
        "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name "
        "and generateName, but metadata is implicitly specified",
    ),
    (
        "no defaults in metadata",
        _default_in_metadata,
        "spec.validation.openAPIV3Schema.properties[metadata].properties[name].default: Forbidden: must not be set in "
        "top-level metadata",
    ),
    (
        "replicas are counted under spec",
        lambda crd: version(crd)["subresources"]["scale"].update(specReplicasPath=".status.replicas"),
        'spec.subresources.scale.specReplicasPath: Invalid value: ".status.replicas": should be a json path under '
        ".spec",
    ),
    (
        "a column has a known type",
        lambda crd: version(crd)["additionalPrinterColumns"][0].update(type="text"),
        'spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of '
        "boolean,date,integer,number,string",
    ),
    (
        "unknown fields are kept by the schema only",
        lambda crd: crd["spec"].update(preserveUnknownFields=True),
        "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields "
        "to true in spec.versions[*].schema instead",
    ),
    (
        "a webhook needs an address",
        lambda crd: crd["spec"].update(
            conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
        ),
        "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
    ),
    (
        "groups of the project need a review",
        lambda crd: (crd["spec"].update(group="a.k8s.io"), crd["metadata"].update(name="widgets.a.k8s.io")),
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
        'annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
    ),
    (
        "a stored version stays",
        lambda crd: crd["status"]["storedVersions"].append("v0"),
        'status.storedVersions[1]: Invalid value: "v0": missing from spec.versions; v0 was previously a storage '
        "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 "
        "and removes v0 from status.storedVersions",
    ),
    (
        "a selectable field is a scalar",
        lambda crd: version(crd).update(selectableFields=[{"jsonPath": ".spec"}]),
        'spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or '
        "integer. Enum string fields and strings with formats are allowed.",
    ),
]


@pytest.mark.parametrize(
    "change,expected", [case[1:] for case in DEFINITION_RULES], ids=[case[0] for case in DEFINITION_RULES]
)
def test_definitions_follow_the_rules(change: Callable[[Object], object], expected: str) -> None:
    crd = widget()
    change(crd)
    assert complaints(crd) == [expected]


def test_a_field_under_a_junctor_is_described_outside_of_it() -> None:
    crd = widget()
    del version(crd)["subresources"]["status"]
    root(crd)["oneOf"] = [{"properties": {"spec": {"properties": {"y": {"maxLength": 1}}}}}]
    place = "spec.validation.openAPIV3Schema"
    inside = f"{place}.oneOf[0].properties[spec].properties[y]"
    assert complaints(crd) == [
        f"{place}.properties[spec].properties[y]: Required value: because it is defined in {inside}"
    ]


def test_exactly_one_version_is_stored() -> None:
    crd = widget()
    _two_storage_versions(crd)
    found = complaints(crd)
    assert len(found) == 1
    assert found[0].endswith("must have exactly one version marked as storage version")


def test_a_rule_broken_by_one_of_two_different_versions_is_reported_there() -> None:
    crd = widget()
    other = copy.deepcopy(version(crd))
    other.update(name="v2", storage=False)
    other["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["x"] = {}
    crd["spec"]["versions"].append(other)
    assert complaints(crd) == [
        "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[x].type: Required value: must not be "
        "empty for specified object fields"
    ]


def establish(crd: Object, *others: Object) -> None:
    crd["status"] = crdstatus.accept_names(crd, others, NOW)
    crd["status"] = crdstatus.established(crd, NOW)


def test_what_names_the_stored_objects_is_immutable() -> None:
    old = widget()
    establish(old)
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Gadget"
    found = [f"{cause.field}: {cause.message}" for cause in customresources.validate_update(new, old)]
    assert found == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Gadget": field is immutable',
    ]


def test_a_definition_is_established_and_served() -> None:
    crd = widget()
    assert customresources.served_versions(crd) == ()
    establish(crd)
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
    assert [(each["type"], each["status"], each["reason"]) for each in crd["status"]["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    (served,) = customresources.served_versions(crd)
    assert served.resource.path("a", "b") == "/apis/example.com/v1/namespaces/a/widgets/b"
    assert served.has_status
    assert served.scale == customresources.ScalePaths(".spec.replicas", ".status.replicas")
    assert served.short_names == ("wd",)
    assert served.is_storage
    assert crdstatus.is_settled(crd)
    assert crdstatus.accept_names(crd, [], "2025-01-02T03:04:05Z") == crd["status"], "nothing changed"


def test_a_taken_name_is_reported_and_nothing_is_served() -> None:
    first = widget()
    establish(first)
    second = widget()
    second["metadata"]["name"] = "gadgets.example.com"
    second["spec"]["names"].update(plural="gadgets", singular="gadget", kind="Gadget", listKind="GadgetList")
    establish(second, first)
    names_accepted, established = second["status"]["conditions"]
    assert (names_accepted["reason"], names_accepted["message"]) == ("ShortNamesConflict", '"wd" is already in use')
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")
    assert customresources.served_versions(second) == ()
    establish(second)
    assert len(customresources.served_versions(second)) == 1


def test_a_negative_scale_is_rejected() -> None:
    crd = widget()
    establish(crd)
    (served,) = customresources.served_versions(crd)
    found = customresources.validate_object(served, {"spec": {"replicas": -1}})
    assert [f"{cause.field}: {cause.message}" for cause in found] == [
        ".spec.replicas: Invalid value: -1: should be a non-negative integer"
    ]


def test_unknown_formats_are_warned_about() -> None:
    assert customresources.warnings(widget(type="string", format="colour")) == ('unrecognized format "colour"',)


_INCOMPLETE_UPSTREAM = {
    # Its conversion webhook names no Service: that is filled in when the provider is installed.
    "objects.kubernetes.crossplane.io.yaml": [
        "spec.conversion.webhookClientConfig.service.name: Required value",
        "spec.conversion.webhookClientConfig.service.namespace: Required value",
    ]
}


@pytest.mark.skipif(not CRDS.is_dir(), reason="the upstream definitions are not beside the repository")
@pytest.mark.parametrize("project", sorted(each.name for each in CRDS.glob("*/")) if CRDS.is_dir() else ["none"])
def test_upstream_definitions_are_accepted(project: str) -> None:
    for file in sorted((CRDS / project).glob("*.yaml")):
        crd: Object = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        customresources.prepare_create(crd)
        assert complaints(crd) == _INCOMPLETE_UPSTREAM.get(file.name, []), file.name
        if file.name in _INCOMPLETE_UPSTREAM:
            continue
        establish(crd)
        assert customresources.served_versions(crd), file.name
