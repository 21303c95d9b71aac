"""Objects come out as Go would write them."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube import objects
from steelyard.kube.builtin import encoding, quantities


def settled(name: str, value: dict[str, Any]) -> dict[str, Any]:
    encoding.settle(name, value)
    return value


CASES: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "structures are there though nobody sent them",
        "apps/v1.Deployment",
        {},
        {
            "metadata": {},
            "spec": {
                "selector": None,
                "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": None}},
            },
            "status": {},
        },
    ),
    (
        "empty values that Go omits are gone",
        "core/v1.ConfigMap",
        {"metadata": {"labels": {}, "name": "a", "namespace": ""}, "data": {}, "binaryData": None},
        {"metadata": {"name": "a"}},
    ),
    (
        "a pointer tells zero from absent",
        "core/v1.ConfigMap",
        {"metadata": {}, "immutable": False},
        {"metadata": {}, "immutable": False},
    ),
    (
        "an empty pointer to a structure stays",
        "core/v1.PodSpec",
        {"containers": [], "securityContext": {}, "hostNetwork": False},
        {"containers": None, "securityContext": {}},
    ),
    (
        "a null in a list or map is the zero value",
        "core/v1.PodSpec",
        {"containers": [None], "nodeSelector": {"a": None}},
        {"containers": [{"name": "", "resources": {}}], "nodeSelector": {"a": ""}},
    ),
    (
        "an empty list that may be none is none",
        "rbac/v1.ClusterRole",
        {"metadata": {}, "rules": []},
        {"metadata": {}, "rules": None},
    ),
    (
        "the empty list of managers stays a request to forget them",
        "meta/v1.ObjectMeta",
        {"managedFields": [], "finalizers": []},
        {"managedFields": []},
    ),
    (
        "quantities and times have one notation",
        "core/v1.ContainerStatus",
        {"name": "c", "allocatedResources": {"cpu": "1000m", "memory": 2048}},
        {
            "name": "c", "allocatedResources": {"cpu": "1", "memory": "2048"}, "state": {}, "lastState": {},
            "ready": False, "restartCount": 0, "image": "", "imageID": "",
        },
    ),
    (
        "a time is shown in UTC",
        "coordination/v1.LeaseSpec",
        {"renewTime": "2026-01-01T02:00:00.5+02:00"},
        {"renewTime": "2026-01-01T00:00:00.500000Z"},
    ),
    (
        "schemas within schemas are read too",
        "apiextensions/v1.JSONSchemaProps",
        {"type": "object", "nullable": False, "additionalProperties": {"type": "string", "format": ""}},
        {"type": "object", "additionalProperties": {"type": "string"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_object_is_brought_into_the_form_that_go_writes(
    name: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert encoding.stored(name, settled(name, given)) == expected


def test_a_given_empty_list_is_kept_until_the_object_is_stored() -> None:
    assert settled("rbac/v1.ClusterRole", {"metadata": {}, "rules": []})["rules"] == []


@pytest.mark.parametrize(("name", "given", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_form_is_stable(name: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    del given
    assert settled(name, objects.copy(expected)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("2048Mi", "2Gi"), (100000, "100k"), ("1e3", "1e3"), ("-5", "-5"),
        ("1500m", "1500m"), ("1.5Gi", "1536Mi"), ("0.1Gi", "107374182400m"), ("1023Ki", "1023Ki"), ("0Gi", "0"),
        ("+1", "1"), ("0.0000000001", "1n"), ("1000Mi", "1000Mi"), ("12e6", "12e6"),
    ],
)  # fmt: skip
def test_a_quantity_has_one_notation(given: str | int, expected: str) -> None:
    assert quantities.canonical(given) == expected
