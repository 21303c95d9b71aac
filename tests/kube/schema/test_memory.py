"""What is made of a definition goes with it: nothing waits for Python to look for garbage, nothing is made twice."""

import gc
from typing import Any

from steelyard.kube.schema import default, parse, prune, validate
from steelyard.kube.server.apply import shape

_ANSWER: dict[str, Any] = {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 9, "default": 4}


def every_sort_of_node() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "text": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
            "answer": _ANSWER,
            "choice": {"type": "string", "enum": ["a", "b"]},
            "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"deep": _ANSWER}}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": _ANSWER}},
            "ruled": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
                    "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size > 1", "message": "too small"}],
                },
            },
        },
        "x-kubernetes-validations": [{"rule": "oldSelf.text == self.text || self.answer > 2"}],
    }


def use(document: dict[str, Any]) -> list[str]:
    schema = parse.from_openapi(document)
    value: dict[str, Any] = {
        "text": "X",
        "answer": 12,
        "set": ["a", "a"],
        "map": {"k": {}},
        "ruled": [{"name": "n", "size": 1}],
    }
    prune.prune(schema, value)
    default.apply_defaults(schema, value)
    found = validate.validate(schema, value, old={"text": "x"})
    assert shape.of(schema).child("ruled").merges_list
    return [cause.field for cause in found]


def test_what_was_made_of_a_definition_goes_with_it() -> None:
    use(every_sort_of_node())  # what is made once for all definitions
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        found = use(every_sort_of_node())
        assert gc.collect() == 0
    finally:
        if was_enabled:
            gc.enable()
    assert {"text", "answer", "set[1]"} <= set(found)


def test_many_fields_that_are_alike_take_little() -> None:
    fields = {f"field{number}": {"type": "string", "description": f"The {number}th."} for number in range(1000)}
    nodes = parse.from_openapi({"type": "object", "properties": fields}).properties
    assert len({id(node) for node in nodes.values()}) == 1
    assert validate.validate(parse.from_openapi({"type": "object", "properties": fields}), {"field7": "x"}) == []


def test_fields_that_only_look_alike_are_told_apart() -> None:
    fields = {"a": {"type": "integer", "minimum": 1}, "b": {"type": "integer", "minimum": True}}
    schema = parse.from_openapi({"type": "object", "properties": fields})
    assert [cause.field for cause in validate.validate(schema, {"a": 0, "b": 0})] == ["a"]
