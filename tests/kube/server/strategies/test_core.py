import base64
from typing import Any

import pytest

from steelyard.kube import objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.strategies import lookup
from steelyard.kube.server.strategies.base import Strategy

SERVICE_ACCOUNT_NAME = "kubernetes.io/service-account.name"
PRIORITIES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
STORAGE = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def created(resource: Resource, obj: Object) -> tuple[Object, list[str]]:
    strategy = lookup.of(resource)
    obj.setdefault("metadata", {"name": "a", "namespace": "default"})
    strategy.prepare_create(obj)
    strategy.complete_create(obj)
    return obj, [f"{cause.field}: {cause.message}" for cause in strategy.validate_create(obj)]


def updated(resource: Resource, old: Object, new: Object) -> tuple[Object, list[str]]:
    strategy: Strategy = lookup.of(resource)
    old, _ = created(resource, old)
    before = objects.copy(old)
    new.setdefault("metadata", {"name": "a", "namespace": "default"})
    strategy.prepare_update(new, old)
    found = [f"{cause.field}: {cause.message}" for cause in strategy.validate_update(new, old)]
    assert old == before, "the stored object is shared and must not change"
    return new, found


def test_a_namespace_is_active_and_selectable_by_its_name() -> None:
    namespace, found = created(resources.NAMESPACES, {"metadata": {"name": "team", "labels": {"a": "b"}}})
    assert found == []
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}
    assert namespace["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "team"}


def test_the_finalizers_of_a_namespace_survive_an_update() -> None:
    namespace, _ = updated(resources.NAMESPACES, {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}, "spec": {}})
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}


def test_string_data_of_a_secret_becomes_data() -> None:
    secret, found = created(resources.SECRETS, {"data": {"a": encoded("1"), "b": ""}, "stringData": {"b": "2"}})
    assert found == []
    assert secret["data"] == {"a": encoded("1"), "b": encoded("2")}
    assert secret["type"] == "Opaque"
    assert "stringData" not in secret


SECRETS: list[tuple[str, Object, list[str]]] = [
    ("tls needs both files", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key]: Required value"]),
    (
        "basic-auth needs one of two",
        {"type": "kubernetes.io/basic-auth"},
        ["data[username]: Required value", "data[password]: Required value"],
    ),
    ("basic-auth with a user", {"type": "kubernetes.io/basic-auth", "data": {"username": ""}}, []),
    ("ssh-auth needs a key", {"type": "kubernetes.io/ssh-auth"}, ["data[ssh-privatekey]: Required value"]),
    (
        "dockerconfigjson is there",
        {"type": "kubernetes.io/dockerconfigjson"},
        ["data[.dockerconfigjson]: Required value"],
    ),
    (
        "dockerconfigjson is JSON, and never shown",
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": encoded("no")}},
        [
            'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": '
            "invalid character 'o' in literal null (expecting 'u')"
        ],
    ),
    (
        "a token names its account",
        {"type": "kubernetes.io/service-account-token"},
        [f"metadata.annotations[{SERVICE_ACCOUNT_NAME}]: Required value"],
    ),
    ("an unknown type may hold anything", {"type": "example.com/x"}, []),
    (
        "keys are file names",
        {"data": {"..a": ""}},
        ["data[..a]: Invalid value: \"..a\": must not start with '..'"],
    ),
    (
        "a megabyte at most",
        {"data": {"a": encoded("x" * (1024 * 1024 + 1))}},
        ["data: Too long: may not be more than 1048576 bytes"],
    ),
    ("a megabyte", {"data": {"a": encoded("x" * (1024 * 1024))}}, []),
]


@pytest.mark.parametrize("obj,expected", [case[1:] for case in SECRETS], ids=[case[0] for case in SECRETS])
def test_secrets(obj: Object, expected: list[str]) -> None:
    assert created(resources.SECRETS, obj)[1] == expected


FROZEN = "Forbidden: field is immutable when `immutable` is set"
UPDATES: list[tuple[str, Resource, Object, Object, list[str]]] = [
    (
        "a secret's type",
        resources.SECRETS,
        {"type": "a/b"},
        {"type": "c/d"},
        ['type: Invalid value: "c/d": field is immutable'],
    ),
    (
        "an immutable secret",
        resources.SECRETS,
        {"immutable": True, "data": {"a": ""}},
        {"data": {"a": encoded("1")}},
        [f"immutable: {FROZEN}", f"data: {FROZEN}"],
    ),
    (
        "an immutable config map",
        resources.CONFIG_MAPS,
        {"immutable": True, "data": {"a": "1"}},
        {"immutable": True, "data": {"a": "1"}, "binaryData": {"b": ""}},
        [f"binaryData: {FROZEN}"],
    ),
    ("a mutable config map", resources.CONFIG_MAPS, {"data": {"a": "1"}}, {"data": {"b": "2"}}, []),
    (
        "a node's provider id",
        resources.NODES,
        {"spec": {"providerID": "a://1"}},
        {"spec": {"providerID": "a://2"}},
        ['spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'],
    ),
    ("a node's first provider id", resources.NODES, {"spec": {}}, {"spec": {"providerID": "a://2"}}, []),
    (
        "a node's pod range",
        resources.NODES,
        {"spec": {"podCIDRs": ["10.0.0.0/24"]}},
        {"spec": {"podCIDRs": ["10.0.1.0/24"]}},
        ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
    ),
    (
        "a priority",
        PRIORITIES,
        {"value": 1},
        {"value": 2, "preemptionPolicy": "Never"},
        [
            "value: Forbidden: may not be changed in an update.",
            'preemptionPolicy: Invalid value: "Never": field is immutable',
        ],
    ),
    (
        "a storage class",
        STORAGE,
        {"provisioner": "a/b"},
        {"provisioner": "c/d"},
        ['provisioner: Invalid value: "c/d": field is immutable'],
    ),
]


@pytest.mark.parametrize("resource,old,new,expected", [case[1:] for case in UPDATES], ids=[case[0] for case in UPDATES])
def test_what_an_update_may_not_change(resource: Resource, old: Object, new: Object, expected: list[str]) -> None:
    assert updated(resource, old, new)[1] == expected


CREATES: list[tuple[str, Resource, Object, list[str]]] = [
    (
        "a key in both maps",
        resources.CONFIG_MAPS,
        {"data": {"a": "1"}, "binaryData": {"a": ""}},
        ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
    ),
    (
        "taints are unique by key and effect",
        resources.NODES,
        {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}},
        [
            'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: '
            "taints must be unique by key and effect pair"
        ],
    ),
    (
        "a lease lasts",
        resources.LEASES,
        {"spec": {"leaseDurationSeconds": 0}},
        ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    ),
    (
        "an event is where its object is",
        resources.EVENTS,
        {"involvedObject": {"namespace": "other"}},
        ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
    ),
    ("an event about a node", resources.EVENTS, {"involvedObject": {"kind": "Node"}}, []),
    (
        "a priority above what users may set",
        PRIORITIES,
        {"value": 1000000001},
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    ("a storage class needs a provisioner", STORAGE, {}, ["provisioner: Required value"]),
]


@pytest.mark.parametrize("resource,obj,expected", [case[1:] for case in CREATES], ids=[case[0] for case in CREATES])
def test_rules_of_small_kinds(resource: Resource, obj: Object, expected: list[str]) -> None:
    assert created(resource, obj)[1] == expected


@pytest.mark.parametrize(
    "resource,obj,expected",
    [
        (PRIORITIES, {}, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}),
        (STORAGE, {"provisioner": "a/b"}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        (resources.CONFIG_MAPS, {"data": {"a": None}}, {"data": {"a": ""}}),
    ],
    ids=["priority class", "storage class", "null is an empty text"],
)
def test_defaults_of_small_kinds(resource: Resource, obj: Object, expected: dict[str, Any]) -> None:
    result, found = created(resource, obj)
    assert found == []
    assert {key: result[key] for key in expected} == expected


def test_a_node_may_be_created_with_its_status() -> None:
    assert lookup.of(resources.NODES).keeps_status
    assert not lookup.of(resources.SECRETS).keeps_status
