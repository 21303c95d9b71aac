"""CEL rules on values: when they run, what they see, and what a failure is called."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, validate
from steelyard.kube.schema.model import MISSING

NUMBER: Object = {"type": "integer"}
TEXT: Object = {"type": "string"}


def ruled(type_: Object, *rules: Object | str) -> Object:
    return {**type_, "x-kubernetes-validations": [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]}


def root(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


def said(document: Object, value: Object, old: Any = MISSING, warnings: list[str] | None = None) -> list[str]:
    causes = validate.validate(parse.from_openapi(document), value, old=old, warnings=warnings)
    return [f"{cause.field}: {cause.message}" for cause in causes]


@pytest.mark.parametrize(
    ("document", "value", "expected"),
    [
        pytest.param(
            ruled(root(a=NUMBER), "self.a > 1"),
            {"a": 1},
            '<nil>: Invalid value: "object": failed rule: self.a > 1',
            id="the-rule-is-the-message-at-the-root",
        ),
        pytest.param(
            root(a=ruled(NUMBER, {"rule": "self > 1", "message": " too small "})),
            {"a": 1},
            'a: Invalid value: "integer": too small',
            id="the-message-is-trimmed",
        ),
        pytest.param(
            root(
                a=ruled(NUMBER, {"rule": "self > 1", "message": "fixed", "messageExpression": "'got ' + string(self)"})
            ),
            {"a": 1},
            'a: Invalid value: "integer": got 1',
            id="the-expression-goes-before-the-message",
        ),
        pytest.param(
            root(a=ruled(TEXT, {"rule": "self == 'x'", "message": "fixed", "messageExpression": "self.substring(9)"})),
            {"a": "y"},
            'a: Invalid value: "string": fixed',
            id="a-failing-expression-leaves-the-message",
        ),
        pytest.param(
            root(a=ruled(TEXT, {"rule": "self == 'x'", "messageExpression": "' '"})),
            {"a": "y"},
            "a: Invalid value: \"string\": failed rule: self == 'x'",
            id="an-empty-expression-leaves-the-rule",
        ),
        pytest.param(
            root(a=ruled(root(b=NUMBER), {"rule": "self.b > 1", "fieldPath": ".b", "reason": "FieldValueRequired"})),
            {"a": {"b": 1}},
            "a.b: Required value: failed rule: self.b > 1",
            id="reason-required-and-path",
        ),
        pytest.param(
            root(a=ruled(NUMBER, {"rule": "self > 1", "reason": "FieldValueForbidden", "message": "no"})),
            {"a": 1},
            "a: Forbidden: no",
            id="reason-forbidden",
        ),
        pytest.param(
            root(a=ruled(NUMBER, {"rule": "self > 1", "reason": "FieldValueDuplicate", "message": "no"})),
            {"a": 1},
            'a: Duplicate value: "integer"',
            id="reason-duplicate",
        ),
        pytest.param(
            root(a=ruled({"type": "array", "items": NUMBER}, "self[3] == 1")),
            {"a": [1]},
            'a: Invalid value: "array": index out of bounds: 3 evaluating rule: self[3] == 1',
            id="an-error-is-told",
        ),
        pytest.param(
            root(a=ruled({"x-kubernetes-int-or-string": True}, {"rule": "self < 5", "message": "small"})),
            {"a": "x"},
            "a: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function "
            "or macro signature for rule: small",
            id="a-dynamic-value-of-the-wrong-type",
        ),
        pytest.param(
            root(a={"type": "object", "additionalProperties": ruled(NUMBER, "self > 1")}),
            {"a": {"k": 1}},
            'a[k]: Invalid value: "integer": failed rule: self > 1',
            id="entries-of-a-map",
        ),
        pytest.param(
            root(a={"type": "array", "items": ruled(NUMBER, "self > 1")}),
            {"a": [2, 1]},
            'a[1]: Invalid value: "integer": failed rule: self > 1',
            id="entries-of-a-list",
        ),
        pytest.param(
            ruled(root(), "self.metadata.name.startsWith('a')"),
            {"metadata": {"name": "b"}},
            "<nil>: Invalid value: \"object\": failed rule: self.metadata.name.startsWith('a')",
            id="a-resource-has-a-name",
        ),
        pytest.param(
            root(
                a={
                    **ruled(root(), "self.kind == 'A'"),
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            ),
            {"a": {"apiVersion": "v1", "kind": "B"}},
            "a: Invalid value: \"object\": failed rule: self.kind == 'A'",
            id="so-has-an-embedded-one",
        ),
        pytest.param(
            root(
                a=ruled(root(**{"my-field": NUMBER, "namespace": NUMBER}), "self.my__dash__field < self.__namespace__")
            ),
            {"a": {"my-field": 2, "namespace": 1}},
            'a: Invalid value: "object": failed rule: self.my__dash__field < self.__namespace__',
            id="escaped-names",
        ),
        pytest.param(
            root(a=ruled({"type": "string", "format": "duration"}, "self < duration('1h')")),
            {"a": "90m"},
            "a: Invalid value: \"string\": failed rule: self < duration('1h')",
            id="durations",
        ),
        pytest.param(
            root(
                a=ruled(
                    {"type": "array", "items": {"type": "string", "format": "date-time"}},
                    "self.all(t, t > timestamp('2020-01-01T00:00:00Z'))",
                )
            ),
            {"a": ["2019-01-01T00:00:00Z"]},
            "a: Invalid value: \"array\": failed rule: self.all(t, t > timestamp('2020-01-01T00:00:00Z'))",
            id="dates",
        ),
        pytest.param(
            root(a=ruled({"type": "string", "format": "byte"}, "self == b'abd'")),
            {"a": "YWJj"},
            "a: Invalid value: \"string\": failed rule: self == b'abd'",
            id="bytes",
        ),
    ],
)
def test_a_broken_rule_is_worded_as_upstream_does(document: Object, value: Object, expected: str) -> None:
    assert said(document, value) == [expected]


def test_rules_run_in_their_order_from_the_outside_in() -> None:
    document = ruled(root(a=ruled(NUMBER, "self > 3", "self > 2")), "self.a > 1", "self.a > 0")
    assert [text.rpartition("rule: ")[2] for text in said(document, {"a": 0})] == [
        "self.a > 1", "self.a > 0", "self > 3", "self > 2",
    ]  # fmt: skip


def test_null_and_absent_values_are_not_looked_at() -> None:
    document = root(a={**ruled(NUMBER, "false"), "nullable": True}, b=ruled(NUMBER, "false"))
    assert said(document, {"a": None}) == []


def test_rules_wait_for_a_value_of_the_right_shape() -> None:
    document = {**ruled(root(a=NUMBER), "self.a > 1"), "required": ["a", "b"]}
    assert said(document, {"a": 0})[-1] == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )


def test_a_bad_pattern_does_not_keep_rules_from_running() -> None:
    document = root(a={**ruled(TEXT, "self == 'b'"), "pattern": "^b$"})
    assert len(said(document, {"a": "c"})) == 2


KEYED: Object = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    "items": ruled(root(k=TEXT, v=NUMBER), "self.v >= oldSelf.v"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "value", "old", "expected"),
    [
        pytest.param(root(a=ruled(NUMBER, "self == oldSelf")), {"a": 1}, MISSING, [], id="no-transition-on-create"),
        pytest.param(
            root(a=ruled(NUMBER, "self == oldSelf")), {"a": 1}, {}, [], id="no-transition-without-an-old-value"
        ),
        pytest.param(
            root(a=ruled(NUMBER, "self == oldSelf")),
            {"a": 1},
            {"a": 2},
            ['a: Invalid value: "integer": failed rule: self == oldSelf'],
            id="a-transition",
        ),
        pytest.param(
            root(a=ruled(NUMBER, {"rule": "oldSelf.hasValue()", "optionalOldSelf": True})),
            {"a": 1},
            MISSING,
            ['a: Invalid value: "integer": failed rule: oldSelf.hasValue()'],
            id="optional-old-value-on-create",
        ),
        pytest.param(
            root(a=ruled(NUMBER, {"rule": "oldSelf.value() == 1", "optionalOldSelf": True})),
            {"a": 2},
            {"a": 1},
            [],
            id="optional-old-value-on-update",
        ),
        pytest.param(
            root(a=KEYED),
            {"a": [{"k": "n", "v": 0}, {"k": "y", "v": 1}, {"k": "x", "v": 1}]},
            {"a": [{"k": "x", "v": 2}, {"k": "y", "v": 1}]},
            ['a[2]: Invalid value: "object": failed rule: self.v >= oldSelf.v'],
            id="list-entries-correlate-by-key",
        ),
        pytest.param(
            root(a={"type": "object", "additionalProperties": ruled(NUMBER, "self >= oldSelf")}),
            {"a": {"x": 1, "y": 1}},
            {"a": {"x": 2}},
            ['a[x]: Invalid value: "integer": failed rule: self >= oldSelf'],
            id="map-entries-correlate-by-key",
        ),
        pytest.param(
            root(a={"type": "string", "format": "duration", **ruled({}, "self >= oldSelf")}),
            {"a": "60m"},
            {"a": "1h"},
            [],
            id="old-values-are-converted-too",
        ),
        pytest.param(
            root(a={**ruled({"type": "array", "items": TEXT}, "self == oldSelf"), "x-kubernetes-list-type": "set"}),
            {"a": ["x", "y"]},
            {"a": ["y", "x"]},
            [],
            id="sets-ignore-order",
        ),
    ],
)
def test_transition_rules(document: Object, value: Object, old: Any, expected: list[str]) -> None:
    assert said(document, value, old) == expected


BROKEN = root(spec=root(a=ruled(NUMBER, "self > 1"), b=TEXT, l={"type": "array", "items": ruled(NUMBER, "self > 1")}))


@pytest.mark.parametrize(
    ("value", "old", "fields", "warned"),
    [
        pytest.param({"spec": {"a": 1, "b": "new"}}, {"spec": {"a": 1, "b": "old"}}, [], ["spec.a"], id="unchanged"),
        pytest.param({"spec": {"a": 0}}, {"spec": {"a": 1}}, ["spec.a"], [], id="changed"),
        pytest.param({"spec": {"a": 1}}, {"spec": {}}, ["spec.a"], [], id="new"),
        pytest.param(
            {"spec": {"b": "new", "l": [1]}}, {"spec": {"b": "old", "l": [1]}}, [], ["spec.l[0]"], id="unchanged-list"
        ),
        pytest.param({"spec": {"l": [1, 2]}}, {"spec": {"l": [1]}}, ["spec.l[0]"], [], id="entry-of-a-changed-list"),
    ],
)
def test_what_an_update_leaves_unchanged_is_only_warned_about(
    value: Object, old: Object, fields: list[str], warned: list[str]
) -> None:
    warnings: list[str] = []
    found = said(BROKEN, value, old, warnings)
    assert [text.partition(": ")[0] for text in found] == fields
    assert [text.partition(": ")[0] for text in warnings] == warned


def test_a_schema_without_rules_compiles_nothing() -> None:
    schema = parse.from_openapi(root(a=NUMBER))
    assert validate.validate(schema, {"a": 1}) == []
    assert schema.compiled["rules-resource"] is None
