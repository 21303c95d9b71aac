from typing import Any

import pytest

from steelyard.kube import objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema import parse
from steelyard.kube.server.strategies import metadata

ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
SERVICES = Resource("", "v1", "services", "Service")
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
OWNER: Object = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1"}

CREATE: list[tuple[str, Resource, Object, list[str]]] = [
    ("a name is needed", resources.SECRETS, {}, ["metadata.name: Required value: name or generateName is required"]),
    (
        "an upper case name",
        resources.SECRETS,
        {"name": "A"},
        [f'metadata.name: Invalid value: "A": {SUBDOMAIN}'],
    ),
    (
        "a name that is too long",
        resources.SECRETS,
        {"name": "a" * 254},
        [f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters'],
    ),
    (
        "a namespace with a dot",
        resources.NAMESPACES,
        {"name": "a.b"},
        ['metadata.name: Invalid value: "a.b": must not contain dots'],
    ),
    (
        "a namespace with a space",
        resources.NAMESPACES,
        {"name": "a b"},
        [f'metadata.name: Invalid value: "a b": {LABEL}'],
    ),
    ("a role may have colons", ROLES, {"name": "system:Admin"}, []),
    ("but no slash", ROLES, {"name": "a/b"}, ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
    (
        "a prefix may end in a dash",
        resources.SECRETS,
        {"name": "a-bcdfg", "generateName": "a-"},
        [],
    ),
    (
        "an invalid prefix",
        resources.SECRETS,
        {"name": "a", "generateName": "A_"},
        [f'metadata.generateName: Invalid value: "A_": {SUBDOMAIN}'],
    ),
    (
        "a namespace where there is none",
        resources.NODES,
        {"name": "a", "namespace": "b"},
        ["metadata.namespace: Forbidden: not allowed on this type"],
    ),
    (
        "a label key with a space",
        resources.SECRETS,
        {"name": "a", "labels": {"a b": "c"}},
        [f'metadata.labels: Invalid value: "a b": {KEY}'],
    ),
    (
        "a label value with a space",
        resources.SECRETS,
        {"name": "a", "labels": {"a": "b c"}},
        [f'metadata.labels: Invalid value: "b c": {VALUE}'],
    ),
    (
        "a label with an empty prefix",
        resources.SECRETS,
        {"name": "a", "labels": {"/a": "b"}},
        ['metadata.labels: Invalid value: "/a": prefix part must be non-empty'],
    ),
    (
        "an annotation's key may have upper case letters before the slash",
        resources.SECRETS,
        {"name": "a", "annotations": {"Example.com/A": "any thing"}},
        [],
    ),
    (
        "annotations are limited in size",
        resources.SECRETS,
        {"name": "a", "annotations": {"a": "x" * 262144}},
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
    (
        "a finalizer is a qualified name",
        resources.SECRETS,
        {"name": "a", "finalizers": ["x/a b"]},
        [f'metadata.finalizers: Invalid value: "x/a b": {KEY}'],
    ),
    (
        "a finalizer of a kind of Kubernetes' own needs a prefix",
        resources.SECRETS,
        {"name": "a", "finalizers": ["orphan", "mine"]},
        [
            'metadata.finalizers[1]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully '
            "qualified"
        ],
    ),
    (
        "a finalizer of a definition needs none",
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        {"name": "a", "finalizers": ["mine"]},
        [],
    ),
    (
        "owners are orphaned or deleted first",
        resources.SECRETS,
        {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
        [
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
            "foregroundDeletion cannot be both set"
        ],
    ),
    (
        "an owner is named completely",
        resources.SECRETS,
        {"name": "a", "ownerReferences": [{"apiVersion": "v1"}]},
        [
            'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
            'metadata.ownerReferences.name: Invalid value: "": must not be empty',
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ],
    ),
    (
        "an owner's version has at most a group before it",
        resources.SECRETS,
        {"name": "a", "ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
        ['metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty'],
    ),
    (
        "only one owner controls",
        resources.SECRETS,
        {"name": "a", "ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "name": "b", "controller": True}]},
        [
            'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Node","name":"a","uid":"1",'
            '"controller":true},{"apiVersion":"v1","kind":"Node","name":"b","uid":"1","controller":true}]: Only one '
            'reference can have Controller set to true. Found "true" in references for Node/a and Node/b'
        ],
    ),
    (
        "an event owns nothing",
        resources.SECRETS,
        {"name": "a", "ownerReferences": [{**OWNER, "kind": "Event"}]},
        [
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"a","uid":"1"}: '
            "/v1, Kind=Event is disallowed from being an owner"
        ],
    ),
]


@pytest.mark.parametrize("resource,meta,expected", [case[1:] for case in CREATE], ids=[case[0] for case in CREATE])
def test_metadata_of_a_new_object(resource: Resource, meta: Object, expected: list[str]) -> None:
    if resource.namespaced:
        meta = {"namespace": "default", **meta}
    found = metadata.validate_create(meta, resource)
    assert [f"{cause.field}: {cause.message}" for cause in found] == expected


STORED: Object = {
    "name": "a",
    "namespace": "default",
    "uid": "1",
    "resourceVersion": "5",
    "generation": 2,
    "creationTimestamp": "2024-01-01T00:00:00Z",
}
UPDATE: list[tuple[str, Object, Object, list[str]]] = [
    ("nothing changed", {}, {}, []),
    ("another uid", {}, {"uid": "2"}, ['metadata.uid: Invalid value: "2": field is immutable']),
    ("another name", {}, {"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
    (
        "no resourceVersion",
        {},
        {"resourceVersion": ""},
        ['metadata.resourceVersion: Invalid value: "": must be specified for an update'],
    ),
    (
        "deleted by an update",
        {},
        {"deletionTimestamp": "2024-01-01T00:00:00Z"},
        ['metadata.deletionTimestamp: Invalid value: "2024-01-01T00:00:00Z": field is immutable'],
    ),
    (
        "a finalizer added while it is deleted",
        {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]},
        {"finalizers": ["a/b", "c/d"]},
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
            'finalizers []string{"c/d"}'
        ],
    ),
    (
        "a finalizer removed while it is deleted",
        {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]},
        {"finalizers": []},
        [],
    ),
    (
        "a period of grace of its own",
        {},
        {"deletionGracePeriodSeconds": 0},
        ["metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable"],
    ),
    ("values the server owns are put back", {}, {"generation": 7, "creationTimestamp": None, "uid": ""}, []),
]


@pytest.mark.parametrize("stored,changes,expected", [case[1:] for case in UPDATE], ids=[case[0] for case in UPDATE])
def test_metadata_of_an_update(stored: Object, changes: Object, expected: list[str]) -> None:
    old: Object = {"metadata": {**STORED, **stored}}
    new: Object = {"metadata": {**STORED, **stored, **changes}}
    metadata.keep_owned(new, old)
    found = metadata.validate_update(objects.metadata(new), objects.metadata(old), resources.SECRETS)
    told = [f"{cause.field}: {cause.message}" for cause in found]
    assert list(dict.fromkeys(told)) == expected
    assert len(told) == 2 * len(expected), "upstream looks twice at what changed"


def test_the_server_fills_in_its_part_of_a_new_object() -> None:
    obj: Object = {"metadata": {"name": "a", "uid": "mine", "selfLink": "/x", "deletionTimestamp": "x"}}
    metadata.fill_create(obj, "2024-01-01T00:00:00Z", "1-2-3")
    assert obj == {"metadata": {"name": "a", "uid": "1-2-3", "creationTimestamp": "2024-01-01T00:00:00Z"}}


def test_a_generated_name_fits_a_label() -> None:
    assert metadata.generate_name("web-", "bcdfg") == "web-bcdfg"
    assert len(metadata.generate_name("x" * 80, "bcdfg")) == 63


def test_services_are_named_like_hosts() -> None:
    assert metadata.validate_create({"name": "1a", "namespace": "b"}, SERVICES)
    assert not metadata.validate_create({"name": "a1", "namespace": "b"}, SERVICES)


SCHEMA = parse.from_openapi(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}}}
)


def test_unknown_fields_are_named_and_left_alone() -> None:
    obj: Object = {"metadata": {"name": "a", "y": 1}, "spec": {"x": "1", "foo": 1}}
    assert metadata.unknown_fields(SCHEMA, obj) == ['unknown field "metadata.y"', 'unknown field "spec.foo"']
    assert obj["spec"] == {"x": "1", "foo": 1}
    error = metadata.strict_error(Resource("example.com", "v1", "widgets", "Widget"), ['unknown field "spec.foo"'])
    assert error.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.foo"'
    )


@pytest.mark.parametrize(
    "body,value,expected",
    [
        (b'{"a":1,"b":[{"c":1,"c":2}],"a":2}', {"a": 2, "b": [{"c": 2}]}, ["b[0].c", "a"]),
        (b'{"a" : 1, "a" : 2}', {"a": 2}, ["a"]),
        (b'{"a":"x\\":y"}', {"a": 'x":y'}, []),
        (b'{"a":{"b":1},"c":{"b":1}}', {"a": {"b": 1}, "c": {"b": 1}}, []),
    ],
    ids=["at any depth", "with blanks", "what looks like a key inside a text", "the same key in two objects"],
)
def test_duplicate_fields_are_found(body: bytes, value: Any, expected: list[str]) -> None:
    assert metadata.duplicate_fields(body, value) == [f'duplicate field "{path}"' for path in expected]


def test_advice_about_finalizers() -> None:
    obj: Object = {"metadata": {"finalizers": ["example.com/a", "mine", "orphan", "example.com"]}}
    assert metadata.finalizer_warnings(obj, {"metadata": {"finalizers": ["mine"]}}) == (
        'metadata.finalizers: "example.com": prefer a domain-qualified finalizer name including a path (/) to avoid '
        "accidental conflicts with other finalizer writers",
    )
