"""What a schema and its rules can be made to cost: every case is stopped long before anybody else would notice."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from steelyard.kube import effort
from steelyard.kube.errors import Cause
from steelyard.kube.schema import parse, validate

_FEW_SECONDS = 1.0
"""Ten times the budget: what is not stopped takes minutes."""
_COST = "operation cancelled: actual cost limit exceeded"
_BUDGET = "running out of cost budget"


@contextmanager
def soon() -> Generator[None]:
    before = time.thread_time()
    yield
    assert time.thread_time() - before < _FEW_SECONDS


def found(schema: dict[str, Any], value: Any) -> list[Cause]:
    parsed = parse.from_openapi({"type": "object", "properties": schema})
    with soon():
        return validate.validate(parsed, value, is_resource=False)


def ruled(rule: str, **schema: Any) -> dict[str, Any]:
    return {"x": {"x-kubernetes-validations": [{"rule": rule}], **schema}}


def texts() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}}


def integers() -> dict[str, Any]:
    return {"type": "array", "items": {"type": "integer"}}


COSTLY: list[tuple[str, dict[str, Any], Any]] = [
    (
        "macros within macros",
        ruled("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", **integers()),
        list(range(20_000)),
    ),
    ("a long text for every entry", ruled("self.map(a, self[0] + a).size() > 0", **texts()), ["a" * 500_000] * 1_000),
    ("a replacement that multiplies", ruled("self.replace('a', self).size() > 0", type="string"), "a" * 1_000_000),
    ("and one of nothing", ruled("self.replace('', self).size() > 0", type="string"), "a" * 1_000_000),
    ("a separator that multiplies", ruled("self.split('').join(self).size() > 0", type="string"), "é" * 1_000_000),
    ("doubled again and again", ruled(f"({' + '.join(['self'] * 200)}).size() > 0", type="string"), "a" * 1_000_000),
    ("a precision", ruled("'%.999999999f'.format([1.5]).size() < 2", type="string"), "a"),
    (
        "texts split for every entry",
        ruled("self.all(a, self[0].split('').size() > 0)", **texts()),
        ["a" * 99_999] * 999,
    ),
    ("texts compared for every entry", ruled("self.all(a, self[0] == a)", **texts()), ["a" * 2_000] * 200_000),
    (
        "an expression for every entry",
        ruled("self.all(a, a.matches('^(a+)+(b?c?){50}$'))", **texts()),
        ["a" * 500] * 9_000,
    ),
    ("all matches of an expression", ruled("self.findAll('a.*b|a').size() > 0", type="string"), "a" * 100_000),
    ("a set within a set", ruled("sets.contains(self, self.map(a, a + 1))", **integers()), list(range(100_000))),
    (
        "equal sets",
        ruled("self == self.map(a, a)", **integers(), **{"x-kubernetes-list-type": "set"}),
        list(range(99_999)),
    ),
    ("lists compared for every entry", ruled("self.all(a, self == self.map(b, b))", **integers()), list(range(50_000))),
    ("quantities", ruled("self.all(a, isQuantity(a))", **texts()), ["1" * 4_000] * 700),
    (
        "durations",
        ruled("self.all(a, a.matches('x') || duration(a) > duration('1s'))", **texts()),
        ["1" * 9_000 + "s"] * 300,
    ),
]


@pytest.mark.parametrize("schema,value", [case[1:] for case in COSTLY], ids=[case[0] for case in COSTLY])
def test_a_rule_is_stopped_that_takes_or_makes_too_much(schema: dict[str, Any], value: Any) -> None:
    found(schema, {"x": value})


def test_it_is_said_which_rule_was_stopped() -> None:
    rule = "self.all(a, self.all(b, a + b >= 0))"
    [cause] = found(ruled(rule, **integers()), {"x": list(range(20_000))})
    assert (cause.field, cause.reason) == ("x", "FieldValueInvalid")
    text = f"'{_COST}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
    assert cause.message == f'Invalid value: "array": {text}'


def test_all_rules_of_an_object_share_one_budget() -> None:
    rule = {"rule": "self.all(a, a + 1 > 0)"}
    items = {**integers(), "x-kubernetes-validations": [rule]}
    schema = {"x": {"type": "array", "items": items}}
    causes = found(schema, {"x": [list(range(1_000))] * 300})
    assert len(causes) == 1
    assert _COST in causes[0].message or _BUDGET in causes[0].message


def test_rules_that_fail_for_every_entry_of_a_large_list_end_as_well() -> None:
    items = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **ruled("false")["x"]}
    schema = {"x": {"type": "array", "items": items}}
    parsed = parse.from_openapi({"type": "object", "properties": schema})
    value = {"x": [{"n": number} for number in range(20_000)]}
    old = {"x": [{"n": number} for number in range(20_000)]}
    with soon():
        validate.validate(parsed, value, old=old, warnings=[])


def alternatives(depth: int) -> dict[str, Any]:
    if not depth:
        return {"pattern": "^x"}
    return {"anyOf": [alternatives(depth - 1) for _ in range(4)]}


SCHEMAS: list[tuple[str, dict[str, Any], Any]] = [
    (
        "alternatives within alternatives",
        {"type": "array", "items": {"type": "string", **alternatives(5)}},
        ["a"] * 9_999,
    ),
    (
        "many alternatives for a long list",
        {
            "type": "array",
            "items": {"type": "integer"},
            "anyOf": [{"items": {"minimum": 10 + n}} for n in range(2_000)],
        },
        [1] * 100_000,
    ),
    (
        "a slow pattern",
        {"type": "array", "items": {"type": "string", "pattern": "(a|b)*a(a|b){200}c"}},
        ["ab" * 5_000] * 90,
    ),
]


@pytest.mark.parametrize("schema,value", [case[1:] for case in SCHEMAS], ids=[case[0] for case in SCHEMAS])
def test_a_value_is_refused_that_takes_too_long_to_check(schema: dict[str, Any], value: Any) -> None:
    [cause] = found({"x": schema}, {"x": value})
    assert "takes too long" in cause.message


def test_a_text_that_is_too_long_for_its_pattern_is_told_of() -> None:
    [cause] = found({"x": {"type": "string", "pattern": "(a?b?){1000}c"}}, {"x": "ab" * 10_000})
    assert cause.message == "Invalid value: 20000: x in body is too long to be matched with '(a?b?){1000}c'"


def test_what_is_large_and_simple_is_taken() -> None:
    names = {"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}}
    entries = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    value = {"x": [f"name-{number}" for number in range(5_000)], "y": [{"a": "b"}] * 10_000}
    assert found({"x": names, "y": entries}, value) == []


def test_budgets_do_not_add_up() -> None:
    for _ in range(3):
        with effort.LIMITED:
            before = time.thread_time()
            while time.thread_time() - before < effort.SECONDS / 2:
                effort.spend(100_000)
