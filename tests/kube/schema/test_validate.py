"""Each row: a schema, a value, and the field, reason and message a user of kube-apiserver gets to see."""

from typing import Any

import pytest

from steelyard.kube.errors import Cause
from steelyard.kube.schema import parse, validate

INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"
TYPE, ENUM = "FieldValueTypeInvalid", "FieldValueNotSupported"


def spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def causes_of(schema: dict[str, Any], value: Any, **options: Any) -> list[tuple[str, str, str]]:
    found: list[Cause] = validate.validate(parse.from_openapi(schema), value, **options)
    return [(cause.field, cause.reason, cause.message) for cause in found]


FIELD_CASES: list[tuple[dict[str, Any], Any, tuple[str, str]]] = [
    ({"type": "integer"}, "abc", (TYPE, 'Invalid value: "string": spec.x in body must be of type integer: "string"')),
    ({"type": "string"}, 5, (TYPE, 'Invalid value: "integer": spec.x in body must be of type string: "integer"')),
    ({"type": "string"}, None, (TYPE, 'Invalid value: "null": spec.x in body must be of type string: "null"')),
    ({"type": "boolean"}, "true", (TYPE, 'Invalid value: "string": spec.x in body must be of type boolean: "string"')),
    ({"type": "integer"}, 1.5, (TYPE, 'Invalid value: "number": spec.x in body must be of type integer: "number"')),
    ({"type": "integer"}, True, (TYPE, 'Invalid value: "boolean": spec.x in body must be of type integer: "boolean"')),
    (
        {"type": "object", "properties": {}},
        [],
        (TYPE, 'Invalid value: "array": spec.x in body must be of type object: "array"'),
    ),
    (
        {"x-kubernetes-int-or-string": True},
        True,
        (TYPE, 'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"'),
    ),
    (
        {"type": "string", "enum": ["a", "b"]},
        "c",
        (ENUM, 'Unsupported value: "c": supported values: "a", "b"'),
    ),
    ({"type": "integer", "enum": [1, 2]}, 3, (ENUM, 'Unsupported value: 3: supported values: "1", "2"')),
    ({"type": "string", "maxLength": 3}, "abcd", ("FieldValueTooLong", "Too long: may not be more than 3 bytes")),
    ({"type": "string", "maxLength": 1}, "ab", ("FieldValueTooLong", "Too long: may not be more than 1 byte")),
    (
        {"type": "string", "minLength": 1},
        "",
        (INVALID, 'Invalid value: "": spec.x in body should be at least 1 chars long'),
    ),
    (
        {"type": "string", "pattern": "^[a-z]+$"},
        "A",
        (INVALID, "Invalid value: \"A\": spec.x in body should match '^[a-z]+$'"),
    ),
    (
        {"type": "integer", "minimum": 1},
        0,
        (INVALID, "Invalid value: 0: spec.x in body should be greater than or equal to 1"),
    ),
    (
        {"type": "integer", "maximum": 10, "exclusiveMaximum": True},
        10,
        (INVALID, "Invalid value: 10: spec.x in body should be less than 10"),
    ),
    (
        {"type": "number", "minimum": 0.5},
        0.25,
        (INVALID, "Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5"),
    ),
    (
        {"type": "integer", "multipleOf": 5},
        7,
        (INVALID, "Invalid value: 7: spec.x in body should be a multiple of 5"),
    ),
    (
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        [],
        (INVALID, "Invalid value: 0: spec.x in body should have at least 1 items"),
    ),
    (
        {"type": "array", "items": {"type": "string"}, "maxItems": 1},
        ["a", "b"],
        ("FieldValueTooMany", "Too many: 2: must have at most 1 item"),
    ),
    (
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ["a", "a"],
        (INVALID, 'Invalid value: "": spec.x in body shouldn\'t contain duplicates'),
    ),
    (
        {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
        {"a": "1", "b": "2"},
        ("FieldValueTooMany", "Too many: 2: must have at most 1 item"),
    ),
    (
        {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        {},
        (INVALID, "Invalid value: 0: spec.x in body should have at least 1 properties"),
    ),
    (
        {"type": "string", "format": "ipv4"},
        "1.2.3",
        (TYPE, 'Invalid value: "1.2.3": spec.x in body must be of type ipv4: "1.2.3"'),
    ),
    (
        {"type": "string", "format": "date-time"},
        "yesterday",
        (TYPE, 'Invalid value: "yesterday": spec.x in body must be of type date-time: "yesterday"'),
    ),
]


@pytest.mark.parametrize("schema,value,expected", FIELD_CASES, ids=[case[2][1] for case in FIELD_CASES])
def test_a_wrong_field_is_reported_as_upstream_words_it(
    schema: dict[str, Any], value: Any, expected: tuple[str, str]
) -> None:
    assert causes_of(spec(x=schema), {"spec": {"x": value}}) == [("spec.x", *expected)]


VALID_CASES: list[tuple[str, dict[str, Any], Any]] = [
    ("a float without fraction is an integer", {"type": "integer"}, 3.0),
    ("an integer is a number", {"type": "number"}, 3),
    ("null where nullable", {"type": "string", "nullable": True}, None),
    ("a number as int-or-string", {"x-kubernetes-int-or-string": True}, 80),
    ("a percentage as int-or-string", {"x-kubernetes-int-or-string": True}, "80%"),
    (
        "int-or-string with the customary anyOf",
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "http",
    ),
    ("anything below preserve-unknown-fields", {"x-kubernetes-preserve-unknown-fields": True}, [{"a": [1]}]),
    ("a format upstream does not check", {"type": "string", "format": "colour"}, "anything"),
    ("length counts characters", {"type": "string", "maxLength": 3}, "äöü"),
    ("a number that differs only in type from an enumerated one", {"type": "number", "enum": [1, 2]}, 1.0),
    ("the first of two alternatives", {"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 3}]}, 6),
    ("a value the negated schema rejects", {"type": "integer", "not": {"minimum": 5}}, 4),
    ("an integer at the edge of int32", {"type": "integer", "format": "int32"}, 2147483647),
]


@pytest.mark.parametrize("schema,value", [case[1:] for case in VALID_CASES], ids=[case[0] for case in VALID_CASES])
def test_valid(schema: dict[str, Any], value: Any) -> None:
    assert causes_of(spec(x=schema), {"spec": {"x": value}}) == []


WHOLE_CASES: list[tuple[str, dict[str, Any], Any, list[str]]] = [
    (
        "no alternative fits",
        {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]},
        3,
        [
            '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
            "spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5",
        ],
    ),
    (
        "two alternatives fit where one must",
        {"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]},
        3,
        [
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
            "Found 2 valid alternatives"
        ],
    ),
    (
        "the failures of the closest alternative are shown",
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["c"]}, {"properties": {"a": {"maxLength": 1}}, "required": ["a"]}],
        },
        {"a": "long"},
        [
            '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
            "spec.x.a: Too long: may not be more than 1 byte",
        ],
    ),
    (
        "one of all does not fit",
        {"type": "integer", "allOf": [{"minimum": 1}, {"minimum": 5}]},
        3,
        [
            "spec.x: Invalid value: 3: spec.x in body should be greater than or equal to 5",
            '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)',
        ],
    ),
    (
        "the negated schema fits",
        {"type": "integer", "not": {"minimum": 1}},
        3,
        ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
    ),
    (
        "formats of numbers are for readers only",
        {"type": "integer", "format": "int32"},
        2147483648,
        [],
    ),
    (
        "a missing field is reported under its own path",
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {},
        ["spec.x.a: Required value"],
    ),
    (
        "entries of lists and maps have paths",
        {
            "type": "array",
            "items": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        [{}, {"k": "v"}],
        ['spec.x[1].k: Invalid value: "string": spec.x[1].k in body must be of type integer: "string"'],
    ),
    (
        "an entry appears twice in a set",
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        ["a", "b", "a"],
        ['spec.x[2]: Duplicate value: "a"'],
    ),
    (
        "a key appears twice in a map-like list",
        {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        [{"name": "a", "n": 1}, {"name": "a", "n": 2}],
        ['spec.x[1]: Duplicate value: {"name":"a"}'],
    ),
    (
        "an embedded object must say what it is",
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        {"kind": "Pod!", "metadata": {"labels": {"a b": "c"}}},
        [
            "spec.x.apiVersion: Required value",
            'spec.x.kind: Invalid value: "Pod!": may have mixed case, but should otherwise match: a DNS-1035 label '
            "must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end "
            "with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
            "'[a-z]([-a-z0-9]*[a-z0-9])?')",
            "spec.x.metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
            "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    ),
]


@pytest.mark.parametrize(
    "schema,value,expected", [case[1:] for case in WHOLE_CASES], ids=[case[0] for case in WHOLE_CASES]
)
def test_complaints_about_more_than_a_value(schema: dict[str, Any], value: Any, expected: list[str]) -> None:
    found = causes_of(spec(x=schema), {"spec": {"x": value}})
    assert [f"{field}: {message}" for field, _, message in found] == expected


def test_bounds_that_make_no_sense_are_no_bounds() -> None:
    schema = spec(
        x={"type": "object", "additionalProperties": {"type": "string", "maxLength": "5"}, "maxProperties": []}
    )
    assert causes_of(schema, {"spec": {"x": {"a": "b"}}}) == []


def test_the_given_path_stands_in_front_of_the_fields() -> None:
    schema = {"type": "object", "properties": {"phase": {"type": "string"}}, "required": ["ready"]}
    found = causes_of(schema, {"phase": 1}, path="status")
    assert found == [
        ("status.phase", TYPE, 'Invalid value: "integer": phase in body must be of type string: "integer"'),
        ("status.ready", REQUIRED, "Required value"),
    ]


def test_a_part_is_told_of_by_its_own_paths_and_the_rest_is_left_alone() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"a": {"type": "string"}}},
            "status": {"type": "object", "properties": {"b": {"type": "integer"}}},
        },
    }
    assert causes_of(schema, {"spec": {"a": 1}, "status": {"b": "x"}}, part="status") == [
        ("status.b", TYPE, 'Invalid value: "string": b in body must be of type integer: "string"')
    ]
    assert causes_of(schema, {"spec": {"a": 1}, "status": []}, part="status") == [
        ("status", TYPE, 'Invalid value: "array":  in body must be of type object: "array"')
    ]
    assert causes_of(schema, {"spec": {"a": 1}}, part="status") == []


def test_an_update_may_keep_what_was_wrong_before() -> None:
    schema = spec(
        x={"type": "string", "maxLength": 1},
        y={"type": "string"},
        list={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 5}},
            },
        },
    )
    old = {"spec": {"x": "long", "y": "a", "list": [{"name": "a", "size": 1}, {"name": "b", "size": 9}]}}
    new = {"spec": {"x": "long", "y": "b", "list": [{"name": "b", "size": 2}, {"name": "a", "size": 1}]}}
    assert [cause[0] for cause in causes_of(schema, new, old=old)] == ["spec.list[0].size"]
    assert [cause[0] for cause in causes_of(schema, new)] == ["spec.x", "spec.list[0].size", "spec.list[1].size"]


def test_an_update_may_keep_duplicates_that_were_there_before() -> None:
    schema = spec(x={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
    assert causes_of(schema, {"spec": {"x": ["a", "a", "b"]}}, old={"spec": {"x": ["a", "a"]}}) == []
