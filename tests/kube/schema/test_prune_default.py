from typing import Any

import pytest

from steelyard.kube.schema import default, parse, prune
from steelyard.kube.schema.model import Schema

PRUNING: list[tuple[str, dict[str, Any], Any, Any, list[str]]] = [
    (
        "unknown fields go, at any depth",
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
                    },
                }
            },
        },
        {"spec": {"list": [{"a": "1", "b": "2"}], "more": 1}, "extra": {}},
        {"spec": {"list": [{"a": "1"}]}},
        ["extra", "spec.list[0].b", "spec.more"],
    ),
    (
        "type and metadata of the object stay though the schema does not mention them",
        {"type": "object"},
        {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}},
        [],
    ),
    (
        "unknown fields of metadata go",
        {"type": "object"},
        {"metadata": {"name": "a", "clusterName": "b"}},
        {"metadata": {"name": "a"}},
        ["metadata.clusterName"],
    ),
    (
        "preserved fields stay, described ones below them are pruned again",
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
                }
            },
        },
        {"spec": {"free": {"x": 1}, "known": {"a": "1", "b": "2"}}},
        {"spec": {"free": {"x": 1}, "known": {"a": "1"}}},
        ["spec.known.b"],
    ),
    (
        "an embedded object keeps its type and metadata",
        {
            "type": "object",
            "properties": {
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                }
            },
        },
        {"template": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "odd": 1}, "other": 1}},
        {"template": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}}},
        ["template.metadata.odd", "template.other"],
    ),
    (
        "a map keeps every key and prunes its values",
        {
            "type": "object",
            "properties": {
                "m": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}},
                }
            },
        },
        {"m": {"k": {"a": "1", "b": "2"}}},
        {"m": {"k": {"a": "1"}}},
        ["m.k.b"],
    ),
    (
        "additionalProperties true describes nothing inside its values",
        {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": True}}},
        {"m": {"k": {"a": "1"}, "s": "text"}},
        {"m": {"k": {}, "s": "text"}},
        ["m.k.a"],
    ),
]


@pytest.mark.parametrize(
    "schema,value,expected,removed", [case[1:] for case in PRUNING], ids=[case[0] for case in PRUNING]
)
def test_pruning(schema: dict[str, Any], value: Any, expected: Any, removed: list[str]) -> None:
    assert prune.prune(parse.from_openapi(schema), value) == removed
    assert value == expected


DEFAULTING: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("a missing field", {"a": {"type": "integer", "default": 3}}, {}, {"a": 3}),
    ("a field that is there stays", {"a": {"type": "integer", "default": 3}}, {"a": 4}, {"a": 4}),
    (
        "not inside an absent object",
        {"a": {"type": "object", "properties": {"b": {"type": "integer", "default": 3}}}},
        {},
        {},
    ),
    (
        "inside an object that is itself a default",
        {"a": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}}},
        {},
        {"a": {"b": 3}},
    ),
    ("null where it is not allowed", {"a": {"type": "string", "default": "x"}}, {"a": None}, {"a": "x"}),
    (
        "null stays where it is allowed",
        {"a": {"type": "string", "default": "x", "nullable": True}},
        {"a": None},
        {"a": None},
    ),
    ("null without a default disappears", {"a": {"type": "string"}}, {"a": None}, {}),
    ("null in a field nobody describes stays", {}, {"a": None}, {"a": None}),
    (
        "in the entries of a list",
        {
            "a": {
                "type": "array",
                "items": {"type": "object", "properties": {"b": {"type": "boolean", "default": False}}},
            }
        },
        {"a": [{}, {"b": True}]},
        {"a": [{"b": False}, {"b": True}]},
    ),
    (
        "in the values of a map",
        {
            "a": {
                "type": "object",
                "additionalProperties": {"type": "object", "properties": {"b": {"type": "string", "default": ""}}},
            }
        },
        {"a": {"k": {}}},
        {"a": {"k": {"b": ""}}},
    ),
]


@pytest.mark.parametrize(
    "properties,value,expected", [case[1:] for case in DEFAULTING], ids=[case[0] for case in DEFAULTING]
)
def test_defaulting(properties: dict[str, Any], value: Any, expected: Any) -> None:
    default.apply_defaults(parse.from_openapi({"type": "object", "properties": properties}), value)
    assert value == expected


def test_objects_do_not_share_a_default() -> None:
    schema = parse.from_openapi({"type": "object", "properties": {"a": {"type": "object", "default": {"b": [1]}}}})
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    default.apply_defaults(schema, first)
    first["a"]["b"].append(2)
    default.apply_defaults(schema, second)
    assert second == {"a": {"b": [1]}}


def test_a_type_that_contains_itself_is_walked() -> None:
    def props() -> Schema:
        return node

    node = Schema(
        type="object",
        properties={"not": Schema(reference=props), "flag": Schema(type="boolean", default=False)},
    )
    value: dict[str, Any] = {"not": {"not": {"odd": 1}}}
    assert prune.prune(node, value) == ["not.not.odd"]
    default.apply_defaults(node, value)
    assert value == {"flag": False, "not": {"flag": False, "not": {"flag": False}}}
