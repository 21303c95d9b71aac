"""Rules that could cost too much are refused when a CRD is written, with upstream's estimates."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.kube.schema import parse, rulechecks

ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
TEXTS = {"type": "array", "items": {"type": "string"}}
NUMBERS = {"type": "array", "items": {"type": "integer"}}


def complaints(schema: dict[str, Any], *rules: str, message: str = "") -> list[str]:
    entries: list[dict[str, Any]] = [{"rule": rule} for rule in rules]
    if message:
        entries[0]["messageExpression"] = message
    node = {**schema, "x-kubernetes-validations": entries}
    root = parse.from_openapi({"type": "object", "properties": {"x": node}})
    found = rulechecks.check(root, "s")
    return [f"{cause.field}: {cause.message}".replace(f" {ADVICE}", "") for cause in found]


RULE = "s.properties[x].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of"


@pytest.mark.parametrize(
    "schema,rule,factor",
    [
        ({**NUMBERS, "maxItems": 1200}, "self.all(x, self.exists(y, x == y + 1))", "1.008600x"),
        ({**NUMBERS, "maxItems": 3000}, "self.all(x, self.exists(y, x == y + 1))", "6.3x"),
        ({**NUMBERS, "maxItems": 1050}, "self.all(x, self.exists(y, x != y))", ""),
        ({**TEXTS, "maxItems": 3}, "self.all(x, x.startsWith('a'))", ""),
        ({"type": "string", "maxLength": 100}, "self.matches('^[a-z]+$')", ""),
    ],
    ids=["a loop in a loop", "a larger loop in a loop", "a smaller loop in a loop", "a bounded list", "a bounded text"],
)
def test_a_rule_costs_what_its_loops_and_texts_can_grow_to(schema: dict[str, Any], rule: str, factor: str) -> None:
    assert complaints(schema, rule) == ([f"{RULE} {factor}"] if factor else [])


def test_an_unbounded_list_in_itself_costs_far_too_much() -> None:
    rule, *rest = complaints(TEXTS, "self.all(x, self.exists_one(y, x == y))")
    assert rule == f"{RULE} more than 100x"
    assert rest == [
        "s.properties[x].x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total "
        "exceeding cost limit for entire OpenAPIv3 schema",
        "s: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget "
        "by factor of more than 100x",
    ]


def test_a_message_may_not_grow_beyond_bounds() -> None:
    found = complaints({"type": "integer"}, "self > 1", message="'is ' + string(self)")
    assert "estimated messageExpression cost exceeds budget by factor of more than 100x" in found[0]
    assert complaints({"type": "string", "maxLength": 9}, "self > 'a'", message="'is ' + self") == []


def test_a_schema_that_is_stored_already_is_not_judged_rule_by_rule() -> None:
    node = {**NUMBERS, "maxItems": 1500, "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, x == y))"}]}
    root = parse.from_openapi({"type": "object", "properties": {"x": node}})
    assert len(rulechecks.check(root, "s")) == 1
    assert rulechecks.check(root, "s", is_known=True) == []
