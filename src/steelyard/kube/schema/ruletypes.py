"""The schema of a value as the CEL type its rules are checked with.

What a schema does not describe cannot be spoken of: fields that only preserve-unknown-fields lets in have no type.
Fields whose names are no CEL names are escaped (`my-field` is `my__dash__field`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

from steelyard.kube.cel import types
from steelyard.kube.cel.libraries import times
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.types import Field, Type
from steelyard.kube.schema.model import Schema

_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_NAMEABLE: Final = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*", re.ASCII)
_ESCAPED: Final = re.compile(r"__|[-./]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_STRING: Final = Schema("string")
_METADATA: Final = Schema("object", properties={"name": _STRING, "generateName": _STRING})
RESOURCE: Final = {"kind": _STRING, "apiVersion": _STRING, "metadata": _METADATA}
"""What rules may use of every object, whether its schema describes it or not."""


def escape(name: str) -> str | None:
    """A field's name as rules write it; None for one they cannot name.

    >>> escape("my-field"), escape("namespace"), escape("ünicode")
    ('my__dash__field', '__namespace__', None)
    """
    if name in _RESERVED:
        return f"__{name}__"
    if _NAMEABLE.fullmatch(name) is None:
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def type_of(schema: Schema, *, is_resource: bool = False, name: str = "selfType") -> Type | None:
    """None if the schema does not say enough for rules to speak of the value."""
    if schema.int_or_string:
        return types.DYN
    match schema.type:
        case "object":
            return _object(schema, is_resource=is_resource, name=name)
        case "array":
            return _list(schema, name)
        case "string":
            return _FORMATS.get(schema.format, types.STRING)
        case "boolean":
            return types.BOOL
        case "integer":
            return types.INT
        case "number":
            return _DOUBLE
        case "":
            return None


def _object(schema: Schema, *, is_resource: bool, name: str) -> Type | None:
    properties = schema.properties
    if is_resource:
        properties = {**properties, **RESOURCE}
    elif schema.additional is not None and schema.additional != Schema():
        inner = type_of(schema.additional, is_resource=schema.additional.embedded_resource, name=f"{name}.@elem")
        if inner is None:
            return None
        return Type("map", (types.STRING, inner), convert=_each_value(inner.convert))
    fields: dict[str, Field] = {}
    for key, child in properties.items():
        escaped = escape(key)
        if escaped is None:
            continue
        type_ = type_of(child, is_resource=child.embedded_resource, name=f"{name}.{escaped}")
        if type_ is not None:
            fields[escaped] = Field(key, type_)
    return Type("object", name=name, fields=fields)


def _list(schema: Schema, name: str) -> Type | None:
    if schema.items is None:
        return None
    inner = type_of(schema.items, is_resource=schema.items.embedded_resource, name=f"{name}.@idx")
    if inner is None:
        return None
    convert = _each_item(inner.convert)
    return Type("list", (inner,), list_kind=schema.list_type, list_keys=schema.list_map_keys, convert=convert)


def _each_item(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    return lambda items: [None if item is None else convert(item) for item in items]


def _each_value(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    if convert is None:
        return None
    return lambda mapping: {key: None if item is None else convert(item) for key, item in mapping.items()}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(f"Invalid byte formatted string {text}: {error}") from None


_DOUBLE: Final = Type("double", convert=float)
_FORMATS: Final = {
    "byte": Type("bytes", convert=_bytes),
    "duration": Type("duration", convert=times.duration_of_format),
    "date": Type("timestamp", convert=times.timestamp_of_format),
    "date-time": Type("timestamp", convert=times.timestamp_of_format),
}
