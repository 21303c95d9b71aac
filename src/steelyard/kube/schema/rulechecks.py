"""Whether the CEL rules of a CRD compile, cost no more than they may, and speak of old values only where there can be
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from steelyard.frozen import frozen
from steelyard.kube import fields
from steelyard.kube.cel import costs, types
from steelyard.kube.errors import Cause
from steelyard.kube.schema import rulecosts, rules, ruletypes
from steelyard.kube.schema.model import Rule, Schema


def check(schema: Schema, path: str, *, is_known: bool = False) -> list[Cause]:
    """For a schema that is structural; `path` is where it stands in the CRD.

    `is_known` says that it was accepted before as it is: then no single rule is found too expensive any more.
    """
    checker = _Checker(is_known=is_known)
    found = list(checker.visit(schema, path, _Place(is_resource=True)))
    return found + checker.budget.causes(path)


@frozen
class _Place:
    """Where a node stands: whether it is an object, which list keeps it from being told apart, how often it occurs."""

    is_resource: bool = False
    uncorrelatable: str = ""
    entries: int | None = 1


class _Checker:
    def __init__(self, *, is_known: bool) -> None:
        self._is_known = is_known
        self.budget = rulecosts.Budget()

    def visit(self, schema: Schema, path: str, place: _Place) -> Iterator[Cause]:
        below = replace(place, entries=rulecosts.entries_below(schema, place.entries))
        additional, items = schema.additional, schema.items
        if additional is not None:
            inner = replace(below, is_resource=additional.embedded_resource)
            yield from self.visit(additional, f"{path}.additionalProperties", inner)
        for name, child in schema.properties.items():
            inner = replace(below, is_resource=child.embedded_resource)
            yield from self.visit(child, f"{path}.properties[{name}]", inner)
        if items is not None:
            inside = below.uncorrelatable or (path if schema.list_type != "map" else "")
            inner = replace(below, is_resource=items.embedded_resource, uncorrelatable=inside)
            yield from self.visit(items, f"{path}.items", inner)
        if schema.rules:
            yield from self._rules(schema, path, place)

    def _rules(self, schema: Schema, path: str, at: _Place) -> Iterator[Cause]:
        for index, compiled in enumerate(rules.compile_rules(schema, is_resource=at.is_resource)):
            place = f"{path}.x-kubernetes-validations[{index}]"
            rule = compiled.rule
            if not compiled.problem:
                yield from self._cost(schema, rule.rule, rule, f"{place}.rule", "estimated rule cost", at)
            if compiled.problem:
                yield _invalid(f"{place}.rule", rule, compiled.problem)
            if compiled.message_problem:
                yield _invalid(f"{place}.messageExpression", rule, compiled.message_problem)
            elif compiled.message is not None:
                name, alone = "estimated messageExpression cost", replace(at, entries=1)
                expression = rule.message_expression
                yield from self._cost(schema, expression, rule, f"{place}.messageExpression", name, alone)
            if compiled.uses_old and at.uncorrelatable:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {at.uncorrelatable}"
                yield fields.invalid(f"{place}.rule", rule.rule, text)
            elif not compiled.uses_old and not compiled.problem and rule.optional_old_self:
                text = "may not be set if oldSelf is not used in rule"
                yield fields.invalid(f"{place}.optionalOldSelf", True, text)

    def _cost(self, schema: Schema, expression: str, rule: Rule, place: str, name: str, at: _Place) -> Iterator[Cause]:
        known = rulecosts.known_of(schema, is_resource=at.is_resource)
        self_type = ruletypes.type_of(schema, is_resource=at.is_resource)
        if known is None or self_type is None:
            return
        old = types.optional_of(self_type) if rule.optional_old_self else self_type
        cost = costs.estimate(expression, {"self": self_type, "oldSelf": old}, known)
        cost = rulecosts.times(cost, at.entries, known)
        if not self._is_known:
            yield from rulecosts.refusal(place, name, cost)
        self.budget.spend(cost, place)


def _invalid(path: str, rule: Rule, detail: str) -> Cause:
    """With the whole rule as the value, as upstream prints it."""
    shown: dict[str, Any] = {
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason or None,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self or None,
    }
    return fields.invalid(path, fields.Ordered(shown), detail)
