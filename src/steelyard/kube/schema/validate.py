"""Checks a value against a schema and words what is wrong as kube-apiserver does.

A schema is compiled to closures on first use and the closures stay with it, so that validating an object of usual size
takes tens of microseconds. A closure holds what it needs of its schema, never the schema: that would be a cycle, and
what was made of a large definition would stay in memory until the next look for garbage. Checks on values of the right
type are inlined where the fields are looped over; a path is put together only for values that need a closer look.

An update may keep what was already wrong (ratcheting): complaints about a value that the update leaves as it was are
dropped where old and new value can be told to be the same field or list entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from steelyard.kube import effort, fields
from steelyard.kube.errors import Cause
from steelyard.kube.schema import default, embedded, junctors, listtypes, ratchet, rules, scalars
from steelyard.kube.schema.junctors import Check, Findings
from steelyard.kube.schema.model import MISSING, Schema

_NAME: Final = "validate"
_MAIN: Final = "validate-main"
_TOO_MUCH: Final = (
    "checking it against its schema takes too long: the lists or texts in it are too large for the alternatives "
    "and patterns of the schema"
)


def validate(
    schema: Schema,
    value: Any,
    path: str = "",
    *,
    old: Any = MISSING,
    warnings: list[str] | None = None,
    is_resource: bool = True,
    part: str = "",
    found: Iterable[Cause] = (),
) -> list[Cause]:
    """Everything wrong with the value; `path` is put in front of the fields. `old` is the stored value on an update.

    `warnings` takes what is wrong by CEL rules but was so before. A resource has a kind and a name that rules may use.
    Of an update to a `part`, which the status is, only that part is looked at, and told of by its own paths; rules and
    list types count as a whole. What was `found` elsewhere decides with the rest whether rules can be asked.
    """
    with effort.LIMITED:
        try:
            causes = _checked(schema, value, old, path) if not part else _checked_part(schema, value, old, part)
        except effort.Exhausted:
            return [fields.invalid(path or fields.NO_PATH, schema.type, _TOO_MUCH)]
        causes += embedded.validate(schema, value, path)
        duplicates = listtypes.validate(schema, value, path)
        if duplicates and (old is MISSING or not listtypes.validate(schema, old, path)):
            causes += duplicates
        rules.validate(
            schema, value, path, old=old, before=found, found=causes, warnings=warnings, is_resource=is_resource
        )
    return causes


def prepare(schema: Schema) -> None:
    """Compiles what the schema asks for, ahead of the first value."""
    checker(schema)
    default.prepare(schema)
    embedded.validate(schema, None)
    listtypes.validate(schema, None)
    rules.prepare(schema)


def _checked(schema: Schema, value: Any, old: Any, path: str) -> list[Cause]:
    found = Findings()
    checker(schema)(value, "", found)
    if found and old is not MISSING:
        found = ratchet.without_unchanged(found, schema, value, old)
    return [_placed(cause, path) for _, cause in _distinct(found)]


def _checked_part(schema: Schema, value: Any, old: Any, part: str) -> list[Cause]:
    child = schema.child(part)
    if child is None or part not in value:
        return []
    return _checked(child, value[part], MISSING if old is MISSING else old.get(part, MISSING), part)


def checker(schema: Schema) -> Check:
    """The compiled check of a schema node. One that stands for a named type is looked up when first needed."""
    found = schema.compiled.get(_NAME)
    if found is None:
        found = schema.compiled[_NAME] = _deferred(schema) if schema.reference is not None else _compile(schema)
    return cast(Check, found)


def _deferred(schema: Schema) -> Check:
    def check(value: Any, path: str, found: Findings) -> None:
        checker(schema.resolve())(value, path, found)

    return check


def _distinct(found: Findings) -> Findings:
    seen: set[tuple[str, str]] = set()
    kept = Findings()
    for node, cause in found:
        if (cause.field, cause.message) not in seen:
            seen.add((cause.field, cause.message))
            kept.append((node, cause))
    return kept


def _placed(cause: Cause, path: str) -> Cause:
    inner = cause.field.removeprefix(".")
    return Cause(fields.child(path, inner) if inner else path or fields.NO_PATH, cause.reason, cause.message)


class _Never:
    """A type no JSON value has: marks fields for which no type alone is good enough."""


def _accepted_type(schema: Schema) -> type:
    """The Python type of which every value is valid, which lets the loop over fields skip the check."""
    has_more = schema.enum or schema.all_of or schema.any_of or schema.one_of or schema.negated or schema.reference
    if has_more:
        return _Never
    if schema.type == "boolean":
        return bool
    if schema.type == "string" and not scalars.constrains_strings(schema):
        return str
    return _Never


def _field_check(schema: Schema) -> tuple[type, type, Check, Check]:
    """For a loop over fields: the type of which every value is valid, the usual type and its check, the full check."""
    full = checker(schema)
    expected, main = cast("tuple[type, Check]", schema.compiled.get(_MAIN, (_Never, full)))
    return _accepted_type(schema), expected, main, full


def _compile(schema: Schema) -> Check:
    check_type = _type_check(schema)
    parts = _parts(schema)
    check_junctors = junctors.compile_junctors(schema, checker)
    check_enum = scalars.enum_check(schema)
    nullable = schema.nullable or not (schema.type or schema.int_or_string)
    wanted = _types(schema)
    expected = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}.get(schema.type, _Never)
    main = parts.get(expected)

    def check(value: Any, path: str, found: Findings) -> None:
        kind = value.__class__
        if kind is expected:
            if main is not None:
                main(value, path, found)
        elif value is None:
            if not nullable:
                found.append((path, _wrong_type(path, wanted, "null")))
            if check_enum is not None:
                check_enum(value, path, found)
            return
        else:
            if check_type is not None:
                check_type(value, path, found)
            part = parts.get(kind)
            if part is not None:
                part(value, path, found)
        if check_junctors is not None:
            check_junctors(value, path, found)
        if check_enum is not None:
            check_enum(value, path, found)

    if check_junctors is None and check_enum is None and main is not None:
        schema.compiled[_MAIN] = (expected, main)
    return check


def _types(schema: Schema) -> str:
    return "integer,string" if schema.int_or_string else schema.type


def _wrong_type(path: str, wanted: str, actual: str) -> Cause:
    return fields.type_invalid(path, actual, f"{path} in body must be of type {wanted}: {fields.quote(actual)}")


_JSON_TYPES: Final[dict[type, str]] = {
    dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number",
}  # fmt: skip
_NATIVE_FORMATS: Final[dict[type, str]] = {int: "int64", float: "float64"}


def _type_check(schema: Schema) -> Check | None:
    wanted = _types(schema)
    if not wanted:
        return None
    format_ = scalars.enforced_format(schema)
    accepted = set(wanted.split(","))
    if "number" in accepted:
        accepted.add("integer")

    def check(value: Any, path: str, found: Findings) -> None:
        kind = value.__class__
        actual = _JSON_TYPES[kind]
        if actual in accepted or (kind is float and value.is_integer() and "integer" in accepted):
            return
        if format_ and actual not in ("string", "array"):
            found.append((path, _wrong_type(path, format_, _NATIVE_FORMATS.get(kind, ""))))
        else:
            found.append((path, _wrong_type(path, wanted, actual)))

    return check


def _parts(schema: Schema) -> dict[type, Check]:
    """The checks that apply to values of each Python type, whatever type the schema asks for."""
    parts: dict[type, Check] = {}
    candidates: tuple[tuple[type, Callable[[Schema], Check | None]], ...] = (
        (dict, _object_check),
        (list, _array_check),
        (str, scalars.string_check),
        (int, scalars.number_check),
        (float, scalars.number_check),
    )
    for type_, compile_ in candidates:
        compiled = compile_(schema)
        if compiled is not None:
            parts[type_] = compiled
    return parts


def _object_check(schema: Schema) -> Check | None:
    checks = {id(child): _field_check(child) for child in schema.properties.values()}
    properties = {name: checks[id(child)] for name, child in schema.properties.items()}
    additional = checker(schema.additional) if schema.additional is not None else None
    additional_type = _accepted_type(schema.additional) if schema.additional is not None else _Never
    lengths = {
        name: found for name, child in schema.properties.items() if (found := scalars.lengths(child)) is not None
    }
    ranges = {
        name: found for name, child in schema.properties.items() if (found := scalars.range_of(child)) is not None
    }
    required, low, high = schema.required, schema.min_properties, schema.max_properties
    empty_is_absent = schema.empty_is_absent
    if not (properties or additional or required or low or high is not None):
        return None

    def check(value: dict[str, Any], path: str, found: Findings) -> None:
        if low is not None and len(value) < low:
            detail = f"{path} in body should have at least {low} properties"
            found.append((path, fields.invalid(path, len(value), detail)))
        if high is not None and len(value) > high:
            found.append((path, fields.too_many(path, len(value), high)))
        for key, item in value.items():
            kind = item.__class__
            if kind is str:
                if empty_is_absent and not item:
                    continue
                length = lengths.get(key)
                if length is not None and length[0] <= len(item) <= length[1]:
                    continue
            elif kind is int:
                bounds = ranges.get(key)
                if bounds is not None and bounds[0] <= item <= bounds[1]:
                    continue
            known = properties.get(key)
            if known is not None:
                accepted, expected, main, full = known
                if kind is expected:
                    main(item, f"{path}.{key}" if path else key, found)
                elif kind is not accepted:
                    full(item, f"{path}.{key}" if path else key, found)
            elif additional is not None and type(item) is not additional_type:
                additional(item, f"{path}.{key}", found)
        for key in required:
            if key not in value or (empty_is_absent and value[key] in ("", None)):
                found.append((path, fields.required(f"{path}.{key}")))

    return check


def _anything(value: Any, path: str, found: Findings) -> None:
    del value, path, found


_NO_ITEMS: Final = (_Never, _Never, _anything, _anything)


def _array_check(schema: Schema) -> Check | None:
    accepted, expected, main, full = _field_check(schema.items) if schema.items is not None else _NO_ITEMS
    low, high, unique = schema.min_items, schema.max_items, schema.unique_items
    if schema.items is None and low is None and high is None and not unique:
        return None

    def check(value: list[Any], path: str, found: Findings) -> None:
        for index, item in enumerate(value):
            kind = item.__class__
            if kind is expected:
                main(item, f"{path}[{index}]", found)
            elif kind is not accepted:
                full(item, f"{path}[{index}]", found)
        if low is not None and len(value) < low:
            found.append((path, fields.invalid(path, len(value), f"{path} in body should have at least {low} items")))
        if high is not None and len(value) > high:
            found.append((path, fields.too_many(path, len(value), high)))
        if unique and listtypes.repeated(value):
            found.append((path, fields.invalid(path, "", f"{path} in body shouldn't contain duplicates")))

    return check
