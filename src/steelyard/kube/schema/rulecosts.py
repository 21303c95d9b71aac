"""What the CEL rules of a CRD can cost, and the refusal of those that could cost too much.

A rule under a list or map runs once for every entry, so its cost is multiplied by the largest number of entries there
can be: those that the schema allows, or as many as fit into the largest request.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube import fields
from steelyard.kube.cel.sizes import Known, add, multiply
from steelyard.kube.errors import Cause
from steelyard.kube.schema import ruletypes
from steelyard.kube.schema.model import MISSING, Schema

_LARGEST_REQUEST: Final = 3 * 1024 * 1024
_LIMIT: Final = 10_000_000
_LIMIT_OF_ALL: Final = 100_000_000
_WORTH_TELLING: Final = _LIMIT_OF_ALL // 100
_TOLD: Final = 4
_ADVICE: Final = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared"
)
_DATES: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
"""The most characters and the fewest bytes of strings of these formats."""


class Budget:
    """What all rules of a schema may cost together."""

    def __init__(self) -> None:
        self._total = 0
        self._dearest: list[tuple[int, str]] = []

    def spend(self, cost: int, place: str) -> None:
        self._total = add(self._total, cost)
        if cost >= _WORTH_TELLING:
            self._dearest = sorted((*self._dearest, (cost, place)), key=lambda each: -each[0])[:_TOLD]

    def causes(self, path: str) -> list[Cause]:
        if self._total <= _LIMIT_OF_ALL:
            return []
        text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        found = [fields.forbidden(place, text) for _, place in self._dearest]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [*found, fields.forbidden(path, _exceeded(name, self._total, _LIMIT_OF_ALL))]


def times(cost: int, entries: int | None, known: Known) -> int:
    """The cost of a rule that runs for so many entries; None stands for as many as a request can have."""
    return multiply(cost, entries if entries is not None else _LARGEST_REQUEST // (known.bytes + 1))


def refusal(place: str, name: str, cost: int) -> list[Cause]:
    return [fields.forbidden(place, _exceeded(name, cost, _LIMIT))] if cost > _LIMIT else []


def _exceeded(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} ({_ADVICE})"


def entries_below(schema: Schema, entries: int | None) -> int | None:
    """How many values stand below a node that itself stands in so many places."""
    most: int | None = 1
    if schema.type == "object" and schema.additional is not None:
        most = schema.max_properties
    elif schema.type == "array":
        most = schema.max_items
    return None if entries is None or most is None else multiply(entries, max(0, int(most)))


def known_of(schema: Schema, *, is_resource: bool = False) -> Known | None:
    """The sizes of a value; None where rules cannot speak of it."""
    if schema.int_or_string:
        return Known(_longest(schema), 1)
    match schema.type:
        case "object":
            return _object(schema, is_resource=is_resource)
        case "array":
            inner = known_of(schema.items, is_resource=schema.items.embedded_resource) if schema.items else None
            if inner is None:
                return None
            most = schema.max_items if schema.max_items is not None else (_LARGEST_REQUEST - 2) // (inner.bytes + 1)
            return Known(max(0, int(most)), 2, entry=inner)
        case "string":
            return _string(schema)
        case "boolean":
            return Known(0, 4)
        case "integer" | "number":
            return Known(0, 1)
        case _:
            return None


def _object(schema: Schema, *, is_resource: bool) -> Known | None:
    properties = dict(schema.properties)
    if is_resource:
        properties |= ruletypes.RESOURCE
    elif schema.additional is not None and schema.additional != Schema():
        inner = known_of(schema.additional, is_resource=schema.additional.embedded_resource)
        if inner is None:
            return None
        most = schema.max_properties
        limit = most if most is not None else (_LARGEST_REQUEST - 2) // (inner.bytes + 6)
        return Known(max(0, int(limit)), 2, entry=inner, key=Known(0, 2))
    found: dict[str, Known] = {}
    least = 2
    for name, child in properties.items():
        known = known_of(child, is_resource=child.embedded_resource)
        if known is None:
            continue
        if (escaped := ruletypes.escape(name)) is not None:
            found[escaped] = known
        if name in schema.required and child.default is MISSING:
            least += len(name.encode()) + known.bytes + 4
    return Known(0, least, found)


def _string(schema: Schema) -> Known:
    if schema.format in _DATES:
        return Known(*_DATES[schema.format])
    if schema.format == "byte":
        most = schema.max_length if schema.max_length is not None else _LARGEST_REQUEST - 2
        return Known(max(0, int(most)), 2)
    return Known(_longest(schema), 2)


def _longest(schema: Schema) -> int:
    """In bytes, of which a character takes up to four."""
    if schema.max_length is not None:
        return max(0, int(schema.max_length)) * 4
    if schema.enum and not schema.int_or_string:
        return max(len(each.encode()) if isinstance(each, str) else 0 for each in schema.enum)
    return _LARGEST_REQUEST - 2
