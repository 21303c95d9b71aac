"""The document of version 2: both its forms say the same, and nothing in it makes kubectl refuse what is served."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, cast

import orjson
import pytest
import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.server.catalogue.registry import Registry
from steelyard.kube.server.openapi.openapi import OpenApi
from tests.kube.server.openapi.test_openapi import SCHEMA, references, widgets

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
SERVED_AS = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
WIDGET = "com.example.shop.v1.Widget"


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.serve("widgets.shop.example.com", widgets())
    return registry


def read(registry: Registry) -> Object:
    document = OpenApi(registry).document("/openapi/v2", "")
    assert document is not None
    assert document.content_type == "application/json"
    return cast(Object, orjson.loads(document.body))


def encoded(registry: Registry) -> bytes:
    document = OpenApi(registry).document("/openapi/v2", PROTOBUF)
    assert document is not None
    assert document.content_type == SERVED_AS
    return document.body


def with_spec(spec: Object, **root: Any) -> Registry:
    registry = Registry()
    schema: Object = {"type": "object", "properties": {"spec": spec}, **root}
    registry.serve("widgets.shop.example.com", widgets(schema))
    return registry


def published(spec: Object) -> Object:
    return objects.mapping(read(with_spec(spec))["definitions"][WIDGET]["properties"]["spec"])


# A reader of the wire format that knows nothing of how it was written.


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack("<d", data[position : position + 8])[0]
            position += 8
        else:
            assert key & 7 == 2
            length = varint()
            assert position + length <= len(data)
            yield key >> 3, data[position : position + length]
            position += length


def only(data: bytes, number: int) -> Any:
    ((found, value),) = fields(data)
    assert found == number
    return value


def pairs(data: bytes, number: int) -> dict[str, bytes]:
    """A list of names and values, as the messages Definitions, Properties, Paths and Responses have it."""
    named = [dict(fields(value)) for found, value in fields(data) if found == number]
    return {each[1].decode(): each.get(2, b"") for each in named}


def any_value(data: bytes) -> Any:
    return yaml.safe_load(only(data, 2).decode())


TEXTS = {1: "$ref", 2: "format", 3: "title", 4: "description", 13: "pattern"}
NUMBERS = {
    6: "multipleOf", 7: "maximum", 9: "minimum", 11: "maxLength", 12: "minLength", 14: "maxItems", 15: "minItems",
    17: "maxProperties", 18: "minProperties",
}  # fmt: skip
FLAGS = {8: "exclusiveMaximum", 10: "exclusiveMinimum", 16: "uniqueItems"}


def schema(data: bytes) -> Object:
    out: Object = {}
    for number, value in fields(data):
        if number in TEXTS:
            out[TEXTS[number]] = value.decode()
        elif number in NUMBERS:
            out[NUMBERS[number]] = value
        elif number in FLAGS:
            out[FLAGS[number]] = bool(value)
        elif number == 19:
            out.setdefault("required", []).append(value.decode())
        elif number == 20:
            out.setdefault("enum", []).append(any_value(value))
        elif number == 21:
            ((kind, inner),) = fields(value)
            out["additionalProperties"] = schema(inner) if kind == 1 else bool(inner)
        elif number == 22:
            out["type"] = only(value, 1).decode()
        elif number == 23:
            out["items"] = schema(only(value, 1))
        elif number == 25:
            out["properties"] = {name: schema(inner) for name, inner in pairs(value, 1).items()}
        else:
            assert number == 31
            extension = dict(fields(value))
            out[extension[1].decode()] = any_value(extension[2])
    return out


def definitions(body: bytes) -> dict[str, Object]:
    return {name: schema(data) for name, data in pairs(dict(fields(body))[9], 1).items()}


def without_zeros(value: Any) -> Any:
    """What proto3 cannot say: a limit of zero is no limit."""
    if isinstance(value, dict):
        return {
            key: without_zeros(inner)
            for key, inner in cast(Object, value).items()
            if not (key in NUMBERS.values() and inner == 0)
        }
    return value


def test_every_kind_is_defined(registry: Registry) -> None:
    document = read(registry)
    found = document["definitions"]
    assert document["swagger"] == "2.0"
    assert found[WIDGET]["properties"]["spec"]["properties"]["size"]["minimum"] == 1
    assert found["io.k8s.apimachinery.pkg.api.resource.Quantity"]["type"] == "string"
    assert set(references(document)) <= {f"#/definitions/{name}" for name in found}


def test_both_forms_define_the_same(registry: Registry) -> None:
    document, body = read(registry), encoded(registry)
    expected = {name: without_zeros(each) for name, each in document["definitions"].items()}
    assert definitions(body) == expected
    head = dict(fields(body))
    assert head[1] == b"2.0"
    assert dict(fields(head[2])) == {1: b"Kubernetes", 2: document["info"]["version"].encode()}
    assert set(pairs(head[8], 2)) == set(document["paths"])


def test_every_keyword_survives_in_both_forms() -> None:
    spec: Object = {
        "type": "object",
        "title": "A title",
        "description": "Ümlaut\nand a second line",
        "minProperties": 1,
        "maxProperties": 300,
        "required": ["text"],
        "properties": {
            "text": {"type": "string", "format": "hostname", "pattern": "^a+$", "minLength": 1, "maxLength": 5000},
            "word": {"type": "string", "enum": ["Yes", "No", "1", "null"]},
            "number": {
                "type": "number",
                "minimum": -0.5,
                "maximum": 1e9,
                "multipleOf": 0.25,
                "exclusiveMinimum": True,
                "exclusiveMaximum": True,
            },
            "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 9},
            "flag": {"type": "boolean"},
            "odd": {"type": "string", "enum": ['a"\\\t\x7f\x85\u2028\ufeff😀', "#c", "", "-", "a: b"]},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "additionalProperties": True},
        },
        "x-kubernetes-validations": [{"rule": "self.text != 'it''s'", "message": "no: never"}],
    }
    assert published(spec) == spec
    assert definitions(encoded(with_spec(spec)))[WIDGET]["properties"]["spec"] == spec


def test_defaults_are_left_to_version_3() -> None:
    assert published({"type": "string", "default": "a"}) == {"type": "string"}


def test_operations_say_which_patches_they_take(registry: Registry) -> None:
    """From here kubectl reads whether a kind can be patched strategically."""
    document, body = read(registry), encoded(registry)
    encoded_paths = pairs(dict(fields(body))[8], 2)
    for path, strategic in (
        ("/apis/apps/v1/namespaces/{namespace}/deployments/{name}", True),
        ("/apis/shop.example.com/v1/namespaces/{namespace}/widgets/{name}", False),
    ):
        patch = document["paths"][path]["patch"]
        assert ("application/strategic-merge-patch+json" in patch["consumes"]) is strategic
        operation = [*fields(dict(fields(encoded_paths[path]))[8])]
        assert [value.decode() for number, value in operation if number == 7] == patch["consumes"]
        assert [value.decode() for number, value in operation if number == 5] == [patch["operationId"]]
        assert len([value for number, value in operation if number == 8]) == len(patch["parameters"])
        extensions = [dict(fields(value)) for number, value in operation if number == 13]
        kinds = {each[1].decode(): any_value(each[2]) for each in extensions}
        assert kinds["x-kubernetes-group-version-kind"] == patch["x-kubernetes-group-version-kind"]
        responses = pairs(dict(operation)[9], 1)
        assert set(responses) == set(patch["responses"])


def test_what_may_be_null_has_no_type_and_is_not_required() -> None:
    inner: Object = {"type": "object", "nullable": True, "properties": {"a": {"type": "string"}}}
    assert published({"type": "object", "required": ["one", "two"], "properties": {"one": inner, "two": inner}}) == {
        "type": "object",
        "properties": {"one": {}, "two": {}},
    }


def test_what_may_hold_unknown_fields_names_none() -> None:
    open_: Object = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    assert published(open_) == {"x-kubernetes-preserve-unknown-fields": True}
    root = read(with_spec({"type": "object"}, **{"x-kubernetes-preserve-unknown-fields": True}))["definitions"][WIDGET]
    assert set(root) == {"type", "x-kubernetes-group-version-kind"}


def test_alternatives_are_left_out() -> None:
    number: Object = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert published(number) == {"x-kubernetes-int-or-string": True}
    chosen: Object = {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]}
    assert published(chosen) == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_an_object_without_named_fields_takes_any() -> None:
    assert published({"type": "object", "properties": {}}) == {"type": "object"}


@pytest.mark.parametrize(
    ("accept", "served"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        (PROTOBUF, SERVED_AS),
        (SERVED_AS, SERVED_AS),
        (f"application/json;q=0.5, {PROTOBUF}", SERVED_AS),
        (f"{PROTOBUF};q=0.5, application/json", "application/json"),
        (f"text/html, {PROTOBUF}, */*", SERVED_AS),
    ],
)
def test_the_form_is_the_one_the_client_prefers(registry: Registry, accept: str, served: str) -> None:
    document = OpenApi(registry).document("/openapi/v2", accept)
    assert document is not None
    assert document.content_type == served


def test_the_tag_changes_with_the_definitions_and_only_then(registry: Registry) -> None:
    documents = OpenApi(registry)

    def tag() -> str:
        document = documents.document("/openapi/v2", PROTOBUF)
        assert document is not None
        return document.etag

    first = tag()
    assert tag() == first
    registry.serve("widgets.shop.example.com", widgets({**SCHEMA, "description": "Something else."}))
    assert tag() != first
    registry.serve("widgets.shop.example.com", ())
    assert WIDGET not in definitions(encoded(registry))


def test_servers_with_the_same_definitions_share_the_document() -> None:
    assert OpenApi(Registry()).document("/openapi/v2", PROTOBUF) is OpenApi(Registry()).document(
        "/openapi/v2", PROTOBUF
    )
    served = widgets()
    one, other = Registry(), Registry()
    for each in (one, other):
        each.serve("widgets.shop.example.com", served)
    assert OpenApi(one).document("/openapi/v2", "") is OpenApi(other).document("/openapi/v2", "")
