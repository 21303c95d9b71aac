from typing import Any

import orjson
import pytest

from steelyard.kube import errors, resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.bodies import decoding, gotimes, typechecks
from steelyard.kube.server.call import Call, Payload, User

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
SERVICES = Resource("", "v1", "services", "Service")
QUANTITIES = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

WRONG: list[tuple[str, Resource, Object, str]] = [
    (
        "a text for a number",
        DEPLOYMENTS,
        {"spec": {"replicas": "3"}},
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "a fraction for an integer",
        DEPLOYMENTS,
        {"spec": {"replicas": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "a number too large",
        DEPLOYMENTS,
        {"spec": {"replicas": 3000000000}},
        "json: cannot unmarshal number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    (
        "a number for a label",
        resources.SECRETS,
        {"metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    ),
    (
        "a text for a list",
        DEPLOYMENTS,
        {"spec": {"template": {"spec": {"containers": "x"}}}},
        "json: cannot unmarshal string into Go struct field PodSpec.spec.template.spec.containers of type "
        "[]v1.Container",
    ),
    (
        "a list for an object",
        DEPLOYMENTS,
        {"spec": []},
        "json: cannot unmarshal array into Go struct field Deployment.spec of type v1.DeploymentSpec",
    ),
    (
        "a text for a boolean",
        resources.CONFIG_MAPS,
        {"immutable": "yes"},
        "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool",
    ),
    (
        "an object for a map of texts",
        resources.CONFIG_MAPS,
        {"data": {"a": {"b": "c"}}},
        "json: cannot unmarshal object into Go struct field ConfigMap.data of type string",
    ),
    ("text that is not base64", resources.SECRETS, {"data": {"a": "no!"}}, "illegal base64 data at input byte 2"),
    (
        "a quantity without digits",
        DEPLOYMENTS,
        {"spec": {"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}}}},
        QUANTITIES,
    ),
    (
        "a time that is none",
        resources.LEASES,
        {"metadata": {"creationTimestamp": "today"}},
        'parsing time "today" as "2006-01-02T15:04:05Z07:00": cannot parse "today" as "2006"',
    ),
    (
        "a boolean for a port",
        SERVICES,
        {"spec": {"ports": [{"targetPort": True}]}},
        "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
    ),
]


@pytest.mark.parametrize("resource,obj,expected", [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_type_is_refused(resource: Resource, obj: Object, expected: str) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        read(resource, orjson.dumps(obj))
    kind = resource.kind
    assert raised.value.message == f'{kind} in version "v1" cannot be handled as a {kind}: {expected}'


def read(resource: Resource, data: bytes) -> Object:
    call = Call("create", "", "v1", "x", User("jane"), payload=Payload("application/json", data))
    return decoding.read(resource, call)


def test_what_go_reads_is_accepted() -> None:
    obj: Object = {
        "metadata": {"name": "a", "creationTimestamp": None, "labels": None, "unknown": 5},
        "spec": {
            "replicas": 3,
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1.5Gi"}}}]}},
        },
    }
    assert read(DEPLOYMENTS, orjson.dumps(obj)) == obj


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"finalizers": "a"}, "string into Go struct field ObjectMeta.finalizers of type []string"),
        ({"name": 1, "labels": {"a": 2}}, "number into Go struct field ObjectMeta.labels of type string"),
        ([], "array into Go value of type v1.ObjectMeta"),
    ],
)
def test_a_custom_resource_has_its_metadata_checked(metadata: Any, expected: str) -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget")
    fine: Object = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"x": 1}}
    decoding.check_custom(widgets, fine, str)
    with pytest.raises(decoding.Undecodable) as raised:
        decoding.check_custom(widgets, {**fine, "metadata": metadata}, str)
    assert raised.value.reason == f"json: cannot unmarshal {expected}"


UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
PARSE = f"{UNRECOGNIZED}couldn't get version/kind; json parse error: "


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", f"{PARSE}unexpected end of JSON input (<empty>)"),
        (b"{", f"{PARSE}unexpected end of JSON input ({{)"),
        (b"{'a': 1}", f"{PARSE}invalid character '\\'' looking for beginning of object key string ({{'a': 1}})"),
        (b'{"a":1,}', f"{PARSE}invalid character '}}' looking for beginning of object key string ({{\"a\":1,}})"),
        (b'{"a":tru}', f"{PARSE}invalid character '}}' in literal true (expecting 'e') ({{\"a\":tru}})"),
        (
            b"kind: ConfigMap",
            f"{PARSE}invalid character 'k' looking for beginning of value (6b696e643a20436f6e6669674d6170)",
        ),
        (
            b'{"kind":3}',
            f'{PARSE}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":3}})',
        ),
        (b'{"apiVersion":"a/b/c"}', f'{UNRECOGNIZED}unexpected GroupVersion string: a/b/c ({{"apiVersion":"a/b/c"}})'),
        (
            b'{"apiVersion":"v1","kind":"Secret"}',
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            b'{"apiVersion":"v2","kind":"ConfigMap"}',
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: '
            'no kind "ConfigMap" is registered for version "v2" in scheme "pkg/runtime/scheme.go:110"',
        ),
        (
            b'{"immutable":1e3}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal number into Go struct field ConfigMap.immutable of type bool",
        ),
    ],
)
def test_a_body_that_is_no_config_map_is_refused_in_upstreams_words(data: bytes, message: str) -> None:
    with pytest.raises(errors.BadRequest) as raised:
        read(resources.CONFIG_MAPS, data)
    assert raised.value.message == message


@pytest.mark.parametrize("literal", ["3.0", "1e3", "100000000000000000000"])
def test_numbers_are_quoted_as_they_were_written(literal: str) -> None:
    with pytest.raises(errors.BadRequest, match=f"cannot unmarshal number {literal} into Go struct field"):
        read(DEPLOYMENTS, b'{"spec":{"replicas":%b}}' % literal.encode())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2024-01-01T00:00:00Z", ""),
        ("2024-02-29T23:59:59.5+02:00", ""),
        ("", 'as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        ("2024-01-01", 'as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2024-13-01T00:00:00Z", "month out of range"),
        ("2023-02-29T00:00:00Z", "day out of range"),
        ("2024-01-01T25:00:00Z", "hour out of range"),
        ("2024-01-01T00:00:00", 'as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2024-01-01T00:00:00Zx", 'extra text: "x"'),
    ],
)
def test_times_are_read_as_go_reads_them(text: str, problem: str) -> None:
    found = gotimes.problem(text)
    assert found.removeprefix(f'parsing time "{text}"').lstrip(": ") == problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1", ""), ("1.5Gi", ""), (".5", ""), ("1e3", ""), (2, ""), (1.5, ""), ("-1m", ""), ("1E", ""),
        ("lots", QUANTITIES), ("", QUANTITIES), ("1.5.5", QUANTITIES), ("1Qi", QUANTITIES), (True, QUANTITIES),
        ("1ki", "unable to parse quantity's suffix"), ("1e", "unable to parse quantity's suffix"),
    ],
)  # fmt: skip
def test_quantities(value: Any, problem: str) -> None:
    assert typechecks.quantity_problem(value) == problem


@pytest.mark.parametrize(
    ("value", "place"),
    [("YQ==", -1), ("YQ==\n", -1), ("ab", 0), ("abcdefg", 4), ("abc=d", 4), ("not base64!", 3), ("&&&", 0)],
)
def test_base64_tells_where_it_is_broken(value: str, place: int) -> None:
    expected = f"illegal base64 data at input byte {place}" if place >= 0 else ""
    assert typechecks.base64_problem(value) == expected
