"""Checks of strings, numbers and enumerated values."""

from __future__ import annotations

from typing import Any, Final

import orjson

from steelyard.kube import fields
from steelyard.kube.schema import formats, patterns
from steelyard.kube.schema.junctors import Check, Findings
from steelyard.kube.schema.model import Schema

_INT64: Final = (-(1 << 63), (1 << 63) - 1)


def enforced_format(schema: Schema) -> str:
    """The format, unless it is one that upstream only documents."""
    if schema.int_or_string or not schema.format:
        return ""
    return schema.format if formats.recognised(schema.format) else ""


def constrains_strings(schema: Schema) -> bool:
    return bool(schema.min_length or schema.max_length is not None or schema.pattern or enforced_format(schema))


_NO_LIMIT: Final = 1 << 62


def lengths(schema: Schema) -> tuple[int, int] | None:
    """The lengths of the strings that are valid, if nothing but the length of a string counts."""
    if schema.type != "string" or schema.pattern or enforced_format(schema) or _has_more(schema):
        return None
    return schema.min_length or 0, _NO_LIMIT if schema.max_length is None else schema.max_length


def range_of(schema: Schema) -> tuple[float, float] | None:
    """The integers that are valid, if they are one range."""
    has_gaps = schema.exclusive_minimum or schema.exclusive_maximum or schema.multiple_of is not None
    if schema.type != "integer" or has_gaps or _has_more(schema):
        return None
    low, high = _INT64
    return (
        low if schema.minimum is None else max(low, schema.minimum),
        high if schema.maximum is None else min(high, schema.maximum),
    )


def _has_more(schema: Schema) -> bool:
    rules = (schema.enum, schema.all_of, schema.any_of, schema.one_of, schema.negated, schema.reference)
    return schema.int_or_string or any(rules)


def string_check(schema: Schema) -> Check | None:
    if not constrains_strings(schema):
        return None
    low, high, pattern = schema.min_length or 0, schema.max_length, schema.pattern
    format_ = enforced_format(schema)
    format_check = formats.checker(format_) if format_ else None

    def check(value: str, path: str, found: Findings) -> None:
        if high is not None and len(value) > high:
            found.append((path, fields.too_long(path, high)))
        elif len(value) < low:
            found.append((path, fields.invalid(path, value, f"{path} in body should be at least {low} chars long")))
        elif pattern:
            # The compiled pattern is not kept here: how many are is for `patterns` to say.
            try:
                if not patterns.compiled(pattern).matches(value):
                    found.append((path, fields.invalid(path, value, f"{path} in body should match '{pattern}'")))
            except patterns.BadPattern as error:
                detail = f"{path} in body should match '{pattern}, but pattern is invalid: {error}'"
                found.append((path, fields.invalid(path, value, detail)))
            except patterns.TooLong:
                detail = f"{path} in body is too long to be matched with '{pattern}'"
                found.append((path, fields.invalid(path, len(value), detail)))
        if format_check is not None and not format_check(value):
            detail = f"{path} in body must be of type {format_}: {fields.quote(value)}"
            found.append((path, fields.type_invalid(path, value, detail)))

    return check


def number_check(schema: Schema) -> Check | None:
    low, high, factor = schema.minimum, schema.maximum, schema.multiple_of
    is_integer = schema.type == "integer"
    if low is None and high is None and factor is None and not is_integer:
        return None
    smallest, largest = _INT64
    below_low, above_high = _bounds(schema)
    is_above, is_below = schema.exclusive_minimum, schema.exclusive_maximum

    def check(value: float, path: str, found: Findings) -> None:
        if is_integer and not smallest <= value <= largest:
            text = f"Checked value must be of type integer (default format) in {path}"
            found.append((path, fields.invalid("", "", text)))
        if factor is not None and not _is_multiple(value, factor):
            detail = f"{path} in body should be a multiple of {fields.number(factor)}"
            found.append((path, fields.invalid(path, value, detail)))
        if low is not None and (value < low or (is_above and value == low)):
            found.append((path, fields.invalid(path, value, f"{path} in body should be {below_low}")))
        if high is not None and (value > high or (is_below and value == high)):
            found.append((path, fields.invalid(path, value, f"{path} in body should be {above_high}")))

    return check


def _bounds(schema: Schema) -> tuple[str, str]:
    at_least = "greater than" if schema.exclusive_minimum else "greater than or equal to"
    at_most = "less than" if schema.exclusive_maximum else "less than or equal to"
    return f"{at_least} {fields.number(schema.minimum or 0)}", f"{at_most} {fields.number(schema.maximum or 0)}"


def _is_multiple(value: float, factor: float) -> bool:
    if factor <= 0:
        return False
    if isinstance(value, int) and factor == int(factor):
        return value % int(factor) == 0
    quotient = value / factor
    return abs(quotient - round(quotient)) < 1e-9 * max(1.0, abs(quotient))


def enum_check(schema: Schema) -> Check | None:
    if schema.enum is None:
        return None
    strings = frozenset(value for value in schema.enum if isinstance(value, str))
    others = tuple(value for value in schema.enum if not isinstance(value, str) and value is not None)
    listed = [value if isinstance(value, str) else orjson.dumps(value).decode() for value in schema.enum]

    def check(value: Any, path: str, found: Findings) -> None:
        if isinstance(value, str):
            if value in strings:
                return
        elif any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in others):
            return
        found.append((path, fields.not_supported(path, value, listed)))

    return check
