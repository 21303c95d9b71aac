"""What may be written as a label selector inside an object; the words are upstream's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from steelyard.kube import fields, namerules, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def validate(selector: Object, place: str) -> Iterable[Cause]:
    for key, value in objects.mapping(selector.get("matchLabels")).items():
        for text in namerules.qualified_name(key):
            yield fields.invalid(f"{place}.matchLabels", key, text)
        for text in namerules.label_value(str(value)):
            yield fields.invalid(f"{place}.matchLabels", value, text)
    for index, expression in enumerate(map(objects.mapping, objects.sequence(selector.get("matchExpressions")))):
        yield from _expression(expression, f"{place}.matchExpressions[{index}]")


def _expression(expression: Object, place: str) -> Iterable[Cause]:
    operator: Any = expression.get("operator")
    values = [str(each) for each in objects.sequence(expression.get("values"))]
    if operator not in _OPERATORS:
        yield fields.invalid(f"{place}.operator", operator or "", "not a valid selector operator")
    elif operator in ("In", "NotIn") and not values:
        yield fields.required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist") and values:
        yield fields.forbidden(f"{place}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    key = str(expression.get("key") or "")
    for text in namerules.qualified_name(key):
        yield fields.invalid(f"{place}.key", key, text)
    for index, value in enumerate(values):
        for text in namerules.label_value(value):
            yield fields.invalid(f"{place}.values[{index}]", value, text)
