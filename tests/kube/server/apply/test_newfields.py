"""What a create sets is the same whether it was found out before or not."""

from __future__ import annotations

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.schema import parse
from steelyard.kube.server.apply import newfields, shape
from steelyard.kube.server.apply.fieldset import FieldSet

SCHEMA = parse.from_openapi(
    {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "whole": {
                        "type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {"type": "string"}},
                    },
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)  # fmt: skip
IGNORED = FieldSet.of(("status",))


def found(obj: Object, blank: Object | None = None) -> object:
    return newfields.find(shape.of(SCHEMA), blank if blank is not None else BLANK, obj, IGNORED)


BLANK: Object = {"metadata": {}}


@pytest.mark.parametrize(
    "first, second, fields",
    [
        pytest.param(
            {"spec": {"map": {"a": "1"}}},
            {"spec": {"map": {"a": "2"}}},
            {"f:spec": {".": {}, "f:map": {".": {}, "f:a": {}}}},
            id="other values",
        ),
        pytest.param(
            {"spec": {"map": {"a": "1"}}}, {"spec": {"map": {}}}, {"f:spec": {".": {}, "f:map": {}}}, id="an empty map"
        ),
        pytest.param(
            {"spec": {"map": {"a": "1"}}}, {"spec": {"map": None}}, {"f:spec": {".": {}, "f:map": {}}}, id="a null"
        ),
        pytest.param(
            {"spec": {"set": ["a"]}},
            {"spec": {"set": ["b"]}},
            {"f:spec": {".": {}, "f:set": {".": {}, 'v:"b"': {}}}},
            id="other items of a set",
        ),
        pytest.param(
            {"spec": {"map": {"x": "1"}}},
            {"spec": {"whole": {"x": "1"}}},
            {"f:spec": {".": {}, "f:whole": {}}},
            id="an atomic field",
        ),
        pytest.param({"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, {}, id="what nobody manages"),
        pytest.param({"status": {"a": 1}}, {"status": {"a": 2}}, {}, id="what the endpoint ignores"),
    ],
)
def test_the_second_of_two_objects_gets_its_own_fields(first: Object, second: Object, fields: Object) -> None:
    found(first)
    assert found(second) == fields
    assert found(second) == fields


def test_a_value_that_the_kind_has_anyway_is_not_managed() -> None:
    blank: Object = {"spec": {"map": None}}
    assert found({"spec": {"map": {"a": "1"}}}, blank) == {"f:spec": {"f:map": {"f:a": {}}}}
    assert found({"spec": {"map": None}}, blank) == {}
