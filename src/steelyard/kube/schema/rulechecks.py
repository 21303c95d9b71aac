"""Whether the CEL rules of a CRD compile, and speak of old values only where there can be one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from steelyard.kube import fields
from steelyard.kube.errors import Cause
from steelyard.kube.schema import rules
from steelyard.kube.schema.model import Rule, Schema


def check(schema: Schema, path: str) -> list[Cause]:
    """For a schema that is structural; `path` is where it stands in the CRD."""
    return list(_check(schema, path, is_resource=True, uncorrelatable=""))


def _check(schema: Schema, path: str, *, is_resource: bool, uncorrelatable: str) -> Iterator[Cause]:
    additional, items = schema.additional, schema.items
    if additional is not None:
        is_embedded = additional.embedded_resource
        place = f"{path}.additionalProperties"
        yield from _check(additional, place, is_resource=is_embedded, uncorrelatable=uncorrelatable)
    for name, child in schema.properties.items():
        place = f"{path}.properties[{name}]"
        yield from _check(child, place, is_resource=child.embedded_resource, uncorrelatable=uncorrelatable)
    if items is not None:
        inside = uncorrelatable
        if not inside and schema.list_type != "map":
            inside = path
        yield from _check(items, f"{path}.items", is_resource=items.embedded_resource, uncorrelatable=inside)
    if schema.rules:
        yield from _check_rules(schema, path, is_resource=is_resource, uncorrelatable=uncorrelatable)


def _check_rules(schema: Schema, path: str, *, is_resource: bool, uncorrelatable: str) -> Iterator[Cause]:
    for index, compiled in enumerate(rules.compile_rules(schema, is_resource=is_resource)):
        place = f"{path}.x-kubernetes-validations[{index}]"
        rule = compiled.rule
        if compiled.problem:
            yield _invalid(f"{place}.rule", rule, compiled.problem)
        if compiled.message_problem:
            yield _invalid(f"{place}.messageExpression", rule, compiled.message_problem)
        if compiled.uses_old and uncorrelatable:
            text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
            yield fields.invalid(f"{place}.rule", rule.rule, text)
        elif not compiled.uses_old and not compiled.problem and rule.optional_old_self:
            text = "may not be set if oldSelf is not used in rule"
            yield fields.invalid(f"{place}.optionalOldSelf", True, text)


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
