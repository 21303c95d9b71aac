"""Refuses bodies whose values have the wrong JSON type, in the words of Go's decoder.

Upstream reads a built-in kind, and the metadata of any object, into Go structs; a text where a number belongs is an
error before anything else looks at the object: 400, not 422. A custom resource is judged by its schema instead, later.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import cache
from typing import Any, Final, cast

from steelyard.kube import errors, fields
from steelyard.kube.builtin import tables, types
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema import formats

_JSON_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
_RANGES: Final = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
_QUANTITY: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?", re.ASCII)
_QUANTITY_TEXT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_GO_SCALARS: Final = {"bytes": "[]uint8", "double": "float64"}
_EXPECTED: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,), "bytes": (str,), "bool": (bool,), "int32": (int,), "int64": (int,), "double": (int, float),
    "Time": (str,), "MicroTime": (str,), "StringList": (list,), "RawExtension": (dict,), "FieldsV1": (dict,),
}  # fmt: skip


def check(resource: Resource, obj: Object) -> errors.BadRequest | None:
    """What is wrong with the body of a built-in kind, if anything is."""
    name = tables.type_name(resource.group, resource.version, resource.kind)
    return _refusal(resource, _struct(types.get(name), obj, "") if name is not None else "")


def check_metadata(resource: Resource, obj: Object) -> errors.BadRequest | None:
    """The same for a custom resource: only its metadata has Go types."""
    found = _object(types.OBJECT_META, obj.get("metadata"), "metadata", resource.kind, "v1.ObjectMeta")
    return _refusal(resource, found)


def _refusal(resource: Resource, reason: str) -> errors.BadRequest | None:
    if not reason:
        return None
    kind = resource.kind
    return errors.BadRequest(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {reason}')


def _struct(type_: types.Type, value: Object, path: str) -> str:
    known = _fields(type_.name)
    for key, item in value.items():
        entry = known.get(key)
        if item is None or entry is None or item.__class__ is entry[0]:
            continue
        found = _field(entry[1], item, f"{path}.{key}" if path else key, type_.name)
        if found:
            return found
    return ""


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


def _field(field: types.Field, value: Any, path: str, owner: str) -> str:
    go_type = _go_name(field)
    if field.repeated:
        if not isinstance(value, list):
            return _mismatch(value, path, owner, go_type)
        for item in cast("list[Any]", value):
            if item is not None and (found := _single(field.base, item, path, owner)):
                return found
        return ""
    if field.mapped:
        if not isinstance(value, dict):
            return _mismatch(value, path, owner, go_type)
        for item in cast("dict[str, Any]", value).values():
            if item.__class__ is str and field.base == "string":
                continue
            if item is not None and (found := _single(field.base, item, path, owner)):
                return found
        return ""
    return _single(field.base, value, path, owner)


def _single(base: str, value: Any, path: str, owner: str) -> str:
    if base in types.SCALARS or base in types.SPECIAL:
        return _scalar(base, value, path, owner)
    return _object(base, value, path, owner, _go_base(base))


def _object(base: str, value: Any, path: str, owner: str, go_type: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, dict):
        return _mismatch(value, path, owner, go_type)
    return _struct(types.get(base), cast(Object, value), path)


def _scalar(base: str, value: Any, path: str, owner: str) -> str:
    if base == "IntOrString":
        return "" if type(value) in (int, str) else _mismatch(value, path, owner, "int32")
    if base == "Quantity":
        is_fine = type(value) in (int, float) or (isinstance(value, str) and _QUANTITY.fullmatch(value) is not None)
        return "" if is_fine else _QUANTITY_TEXT
    expected = _EXPECTED.get(base)
    if expected is None:
        return _schema(base, value) if base.startswith("Schema") else ""
    if type(value) not in expected and not (expected == (int,) and _is_integral(value)):
        return _mismatch(value, path, owner, _go_base(base))
    if base in _RANGES:
        low, high = _RANGES[base]
        return "" if low <= value <= high else _mismatch(value, path, owner, base, exact=True)
    if base == "bytes":
        return _base64_error(value)
    if base in ("Time", "MicroTime") and not formats.is_datetime(value):
        layout = "2006-01-02T15:04:05Z07:00" if base == "Time" else "2006-01-02T15:04:05.000000Z07:00"
        return f'parsing time {fields.quote(value)} as "{layout}": cannot parse {fields.quote(value)} as "2006"'
    return ""


def _schema(base: str, value: Any) -> str:
    """A schema, or what may stand in its place; read by a decoder of its own, whose paths begin there."""
    if isinstance(value, dict):
        return _struct(types.get(_JSON_SCHEMA), cast(Object, value), "")
    if base == "SchemaOrBool":
        return "" if isinstance(value, bool) else "boolean or JSON schema expected"
    for item in cast("list[Any]", value) if isinstance(value, list) else ():
        found = _scalar("string", item, "", "") if base == "SchemaOrStrings" else _schema(base, item)
        if found:
            return found
    return ""


def _is_integral(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _base64_error(value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        wrong = re.search(r"[^A-Za-z0-9+/=\r\n]", value)
        return f"illegal base64 data at input byte {wrong.start() if wrong else len(value) // 4 * 4}"
    return ""


def _go_name(field: types.Field) -> str:
    base = _go_base(field.base)
    return f"[]{base}" if field.repeated else f"map[string]{base}" if field.mapped else base


def _go_base(base: str) -> str:
    """As Go prints a type: the last part of its package, then its name."""
    if "." in base:
        package, _, name = base.rpartition(".")
        return f"{package.rpartition('/')[2]}.{name}"
    return _GO_SCALARS.get(base, base if base in types.SCALARS else f"v1.{base}")


def _mismatch(value: Any, path: str, owner: str, go_type: str, *, exact: bool = False) -> str:
    described = _describe(value, exact=exact or (isinstance(value, float) and go_type in _RANGES))
    struct = owner.rpartition(".")[2]
    return f"json: cannot unmarshal {described} into Go struct field {struct}.{path} of type {go_type}"


def _describe(value: Any, *, exact: bool) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {fields.number(value)}" if exact else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
