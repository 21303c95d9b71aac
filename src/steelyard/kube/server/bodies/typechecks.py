"""Refuses values of the wrong JSON type, in the words of Go's decoder.

Upstream reads a built-in kind, and the metadata of any object, into Go structs. A mismatch is remembered and reading
goes on, the first one being told at the end; a type that reads itself (a time, a quantity) stops everything instead, so
its complaint is told even if mismatches came before it.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from typing import Any, Final, cast

from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import gotimes

_RANGES: Final = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
_QUANTITY: Final = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d*|(?=[eEinumkKMGTP]|$))((?:[eEinumkKMGTP]+[-+]?\d*|[-+]\d*)?)", re.ASCII
)
_SUFFIX: Final = re.compile(r"|[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+", re.ASCII)
_QUANTITY_TEXT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_TEXT: Final = "unable to parse quantity's suffix"
_JSON_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
_GO_SCALARS: Final = {"bytes": "[]uint8", "double": "float64"}
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/\r\n]")


class Literal(float):
    """A number with a fraction or an exponent, as it was written."""

    text: str

    def __new__(cls, text: str) -> Literal:
        number = super().__new__(cls, text)
        number.text = text
        return number


class _Stop(Exception):
    """Reading ends here, with this text."""


def problem(name: str, value: Any, path: str = "") -> str:
    """What is wrong with the value of a type such as `core/v1.ConfigMap`; empty if nothing is.

    `path` is where the value stands, as Go's messages have it: names of fields only.
    """
    found: list[str] = []
    try:
        if isinstance(value, dict):
            _struct(types.get(name), cast(Object, value), path, found)
        elif value is not None:
            return f"json: cannot unmarshal {describe(value)} into Go value of type {_go_base(name)}"
    except _Stop as stop:
        return str(stop)
    return found[0] if found else ""


def _struct(type_: types.Type, value: Object, path: str, found: list[str]) -> None:
    known = _fields(type_.name)
    for key, item in value.items():
        entry = known.get(key)
        if item is None or entry is None or item.__class__ is entry[0]:
            continue
        _field(entry[1], item, f"{path}.{key}" if path else key, type_.name, found)


@cache
def _fields(name: str) -> dict[str, tuple[type, types.Field]]:
    """Each field with the Python type of which every value is fine, where there is one."""
    return {key: (_accepted_type(field), field) for key, field in types.get(name).all_fields().items()}


class _Never:
    """A type no JSON value has."""


def _accepted_type(field: types.Field) -> type:
    if field.repeated or field.mapped:
        return _Never
    return {"string": str, "bool": bool}.get(field.base, _Never)


def _field(field: types.Field, value: Any, path: str, owner: str, found: list[str]) -> None:
    if field.repeated:
        if not isinstance(value, list):
            found.append(_mismatch(value, path, owner, _go_name(field)))
            return
        for item in cast("list[Any]", value):
            if item is not None:
                _single(field, item, path, owner, found)
    elif field.mapped:
        if not isinstance(value, dict):
            found.append(_mismatch(value, path, owner, _go_name(field)))
            return
        is_text = field.base == "string"
        for item in cast("dict[str, Any]", value).values():
            if item is not None and not (is_text and item.__class__ is str):
                _single(field, item, path, owner, found)
    else:
        _single(field, value, path, owner, found)


def _single(field: types.Field, value: Any, path: str, owner: str, found: list[str]) -> None:
    base = field.base
    if base in types.SCALARS:
        _scalar(field, value, path, owner, found)
    elif base in types.SPECIAL:
        _special(base, value, path, owner, found)
    elif isinstance(value, dict):
        _struct(types.get(base), cast(Object, value), path, found)
    else:
        found.append(_mismatch(value, path, owner, _go_base(base)))


def _scalar(field: types.Field, value: Any, path: str, owner: str, found: list[str]) -> None:
    base = field.base
    match base:
        case "string" | "bytes":
            if not isinstance(value, str):
                found.append(_mismatch(value, path, owner, _go_element(field)))
            elif base == "bytes" and (text := base64_problem(value)):
                found.append(text)
        case "bool":
            if not isinstance(value, bool):
                found.append(_mismatch(value, path, owner, _go_element(field)))
        case "double":
            if not _is_number(value):
                found.append(_mismatch(value, path, owner, _go_element(field)))
        case _:
            if (
                not isinstance(value, int)
                or isinstance(value, bool)
                or not _RANGES[base][0] <= value <= _RANGES[base][1]
            ):
                found.append(_mismatch(value, path, owner, _go_element(field), exact=True))


def _special(base: str, value: Any, path: str, owner: str, found: list[str]) -> None:
    match base:
        case "IntOrString":
            if isinstance(value, str):
                return
            low, high = _RANGES["int32"]
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise _Stop(_mismatch(value, path, owner, "int32", exact=True))
        case "Quantity":
            if text := quantity_problem(value):
                raise _Stop(text)
        case "Time" | "MicroTime":
            if not isinstance(value, str):
                raise _Stop(_mismatch(value, path, owner, "string"))
            if text := gotimes.problem(value, micro=base == "MicroTime"):
                raise _Stop(text)
        case "StringList":
            if not isinstance(value, list):
                found.append(_mismatch(value, path, owner, "[]string"))
                return
            items = cast("list[Any]", value)
            found += (_mismatch(item, path, owner, "string") for item in items if not isinstance(item, str | None))
        case "SchemaOrArray" | "SchemaOrBool" | "SchemaOrStrings":
            if text := _schema_problem(base, value):
                raise _Stop(text)
        case _:
            return


def _schema_problem(base: str, value: Any) -> str:
    """Of a schema, or what may stand in its place; it is read by a decoder of its own, whose paths begin there."""
    if isinstance(value, dict):
        return problem(_JSON_SCHEMA, value)
    if base == "SchemaOrBool":
        return "" if isinstance(value, bool) else "boolean or JSON schema expected"
    for item in cast("list[Any]", value) if isinstance(value, list) else ():
        if base != "SchemaOrStrings":
            found = problem(_JSON_SCHEMA, item)
        elif isinstance(item, str | None):
            continue
        else:
            found = f"json: cannot unmarshal {describe(item)} into Go value of type string"
        if found:
            return found
    return ""


def special_problem(base: str, value: Any) -> str:
    """Of a value that stands in no struct."""
    found: list[str] = []
    try:
        _special(base, value, "", "", found)
    except _Stop as stop:
        found.append(str(stop))
    return found[0].replace(" into Go struct field . of type", " into Go value of type") if found else ""


def quantity_problem(value: Any) -> str:
    if _is_number(value):
        return ""
    if not isinstance(value, str):
        return _QUANTITY_TEXT
    text = value.strip()
    match = _QUANTITY.fullmatch(text) if text else None
    if match is None:
        return _QUANTITY_TEXT
    return "" if _SUFFIX.fullmatch(match[3]) else _SUFFIX_TEXT


def base64_problem(value: str) -> str:
    """In Go's words, which tell where: at the first wrong character, or at the group of four that is not complete."""
    try:
        base64.b64decode(value.translate(_NEWLINES), validate=True)
    except (binascii.Error, ValueError):
        return f"illegal base64 data at input byte {_base64_place(value)}"
    return ""


_NEWLINES: Final = {10: None, 13: None}


def _base64_place(value: str) -> int:
    wrong = _NOT_BASE64.search(value)
    if wrong is None:
        return len(value) // 4 * 4
    if wrong[0] != "=":
        return len(value[: wrong.start()].encode())
    at = wrong.start()
    padding = 4 - at % 4
    if padding > 2:
        return at
    return at + 1 if value[at : at + padding] != "=" * padding else at + padding


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _go_name(field: types.Field) -> str:
    if field.go:
        return field.go
    base = _go_base(field.base)
    return f"[]{base}" if field.repeated else f"map[string]{base}" if field.mapped else base


def _go_element(field: types.Field) -> str:
    """Of a list or map: the type of what is in it."""
    if field.go and not (field.repeated or field.mapped):
        return field.go
    if field.go.startswith("[]"):
        return field.go[2:]
    if field.go.startswith("map["):
        return field.go.partition("]")[2]
    return _go_base(field.base)


def _go_base(base: str) -> str:
    """As Go prints a type: the last part of its package, then its name."""
    if "." in base:
        package, _, name = base.rpartition(".")
        return f"{package.rpartition('/')[2]}.{name}"
    return _GO_SCALARS.get(base, base if base in types.SCALARS else f"v1.{base}")


def _mismatch(value: Any, path: str, owner: str, go_type: str, *, exact: bool = False) -> str:
    struct = owner.rpartition(".")[2]
    described = describe(value, exact=exact)
    return f"json: cannot unmarshal {described} into Go struct field {struct}.{path} of type {go_type}"


def describe(value: Any, *, exact: bool = False) -> str:
    """What Go calls a JSON value; `exact` shows which number it is."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {_written(value)}" if exact else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _written(value: int | float) -> str:
    return value.text if isinstance(value, Literal) else repr(value)
