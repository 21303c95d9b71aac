"""Protobuf bodies come out as the JSON upstream makes of them, and broken ones as a BadRequest that says why."""

import random
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from steelyard.kube import errors
from steelyard.kube.builtin import protobuf, tables
from steelyard.kube.objects import Object
from tests.kube.builtin import encoder

SAMPLES = cast("list[dict[str, Any]]", orjson.loads(Path(__file__).with_name("samples.json").read_bytes()))
"""Bytes and JSON of the same objects, both written by upstream's own serializers."""


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: cast("dict[str, Any]", sample)["json"]["kind"])
def test_upstreams_bytes_become_upstreams_json(sample: dict[str, Any]) -> None:
    assert protobuf.decode(bytes.fromhex(sample["hex"])) == sample["json"]


@pytest.mark.parametrize("kind", tables.kinds(), ids=lambda kind: cast(tables.BuiltinKind, kind).resource.kind)
def test_every_field_of_every_kind_survives(kind: tables.BuiltinKind) -> None:
    resource = kind.resource
    name = tables.type_name(resource.group, resource.version, resource.kind)
    assert name is not None
    filled: Object = {"kind": resource.kind, "apiVersion": resource.api_version, **encoder.example(name)}
    assert list(missing(filled, protobuf.decode(encoder.encode(filled)))) == []


def missing(wanted: Any, got: Any, path: str = "") -> Iterator[str]:
    """Paths at which something wanted is not there; more may be there, such as what is always written."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key, value in cast(Object, wanted).items():
            yield from missing(value, cast(Object, got).get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(got, list):
        for index, (left, right) in enumerate(zip_longest(cast("list[Any]", wanted), cast("list[Any]", got))):
            yield from missing(left, right, f"{path}[{index}]")
    elif wanted != got:
        yield f"{path}: {got!r} instead of {wanted!r}"


def test_kinds_of_every_group_are_found_in_any_group() -> None:
    body = encoder.encode({"apiVersion": "batch/v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"})
    assert protobuf.decode(body) == {
        "kind": "DeleteOptions",
        "apiVersion": "batch/v1",
        "propagationPolicy": "Orphan",
    }


def test_a_pointer_keeps_a_zero_and_a_plain_field_does_not() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 0, "minReadySeconds": 0}}
    spec = protobuf.decode(encoder.encode(deployment))["spec"]
    assert spec["replicas"] == 0
    assert "minReadySeconds" not in spec


def test_what_upstream_always_writes_is_there() -> None:
    empty = protobuf.decode(encoder.encode({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}))
    assert empty == {"kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {}, "rules": None}
    service = protobuf.decode(encoder.encode({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{}]}}))
    assert service["spec"] == {"ports": [{"port": 0, "targetPort": 0}]}
    assert service["status"] == {"loadBalancer": {}}


def test_fields_of_a_newer_client_are_skipped() -> None:
    newer = encoder.text(900, "new") + encoder.number(901, 5) + encoder.text(3, "Opaque")
    body = (
        protobuf.PREFIX
        + encoder.delimited(1, encoder.text(1, "v1") + encoder.text(2, "Secret"))
        + encoder.delimited(2, newer)
    )
    assert protobuf.decode(body)["type"] == "Opaque"


def test_packed_numbers_are_read_too() -> None:
    values = encoder.varint(1000) + encoder.varint(2000)
    context = encoder.delimited(4, values)
    name = "core/v1.PodSecurityContext"
    assert protobuf.message(name).read(context, 0, len(context)) == {"supplementalGroups": [1000, 2000]}


def body_of(kind: str, content: bytes, api_version: str = "v1") -> bytes:
    meta = encoder.text(1, api_version) + encoder.text(2, kind)
    return protobuf.PREFIX + encoder.delimited(1, meta) + encoder.delimited(2, content)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(b'{"kind": "Secret"}', "does not begin with the prefix", id="json"),
        pytest.param(b"", "does not begin with the prefix", id="nothing"),
        pytest.param(protobuf.PREFIX, 'no kind "" is registered', id="prefix-alone"),
        pytest.param(body_of("Gadget", b""), 'no kind "Gadget" is registered for version "v1"', id="unknown-kind"),
        pytest.param(body_of("ObjectMeta", b""), 'no kind "ObjectMeta"', id="a-type-that-is-no-kind"),
        pytest.param(body_of("Secret", b"\x0a\x7f"), "unexpected end of data", id="cut-off"),
        pytest.param(body_of("Secret", encoder.number(3, 1)), "has wire type 0", id="number-instead-of-text"),
        pytest.param(body_of("Secret", encoder.delimited(3, b"\xff")), "type: text is not UTF-8", id="not-utf-8"),
        pytest.param(body_of("Secret", b"\x18" + b"\xff" * 11), "wire type 0", id="endless-number"),
        pytest.param(
            body_of("Node", encoder.delimited(3, encoder.delimited(1, encoder.delimited(2, encoder.text(1, "much"))))),
            'status.capacity: "much" is not a quantity',
            id="not-a-quantity",
        ),
        pytest.param(
            body_of("ControllerRevision", encoder.delimited(2, encoder.delimited(1, b"{")), "apps/v1"),
            "data: embedded JSON cannot be read",
            id="not-json",
        ),
        pytest.param(
            body_of("Secret", encoder.delimited(1, encoder.delimited(8, encoder.number(1, 1 << 62)))),
            "metadata.creationTimestamp: 4611686018427387904 seconds after 1970",
            id="time-out-of-range",
        ),
    ],
)
def test_broken_bodies_are_refused_with_the_reason(body: bytes, complaint: str) -> None:
    with pytest.raises(errors.BadRequest) as refused:
        protobuf.decode(body)
    assert complaint in refused.value.message


def test_endless_nesting_is_refused() -> None:
    schema = b""
    for _ in range(3000):
        schema = encoder.delimited(28, schema)
    version = encoder.delimited(4, encoder.delimited(1, schema))
    body = body_of(
        "CustomResourceDefinition", encoder.delimited(2, encoder.delimited(7, version)), "apiextensions.k8s.io/v1"
    )
    with pytest.raises(errors.BadRequest, match="nested too deeply"):
        protobuf.decode(body)


def test_damaged_bodies_never_fail_otherwise() -> None:
    chance = random.Random(7)
    for sample in SAMPLES:
        whole = bytes.fromhex(sample["hex"])
        for _ in range(200):
            damaged = bytearray(whole[: chance.randrange(len(whole))] if chance.random() < 0.3 else whole)
            for _ in range(chance.randrange(4)):
                if len(damaged) > 4:
                    damaged[chance.randrange(4, len(damaged))] = chance.randrange(256)
            try:
                decoded = protobuf.decode(bytes(damaged))
            except errors.BadRequest:
                continue
            orjson.dumps(decoded)
