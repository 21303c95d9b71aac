"""Writes built-in kinds as `application/vnd.kubernetes.protobuf`, for clients that read nothing else.

The bytes are those of upstream's generated code: fields by number, maps by key, and every field that is neither a
pointer, a list nor a map written even where it is empty. The reading side is `protobuf`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, cast

import orjson

from steelyard.kube.builtin import special, tables, types, wire
from steelyard.kube.builtin.protobuf import PREFIX
from steelyard.kube.builtin.types import Field
from steelyard.kube.objects import Object

_NUMBERS: Final = frozenset(("int32", "int64", "bool"))
_RAW: Final = frozenset(("RawExtension", "FieldsV1", "JSON"))
_ZERO: Final[dict[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "double": 0.0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip


def encode(obj: Object) -> bytes | None:
    """The object or list in its envelope; None if it is not of a built-in kind."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    group, _, version = api_version.rpartition("/")
    name = tables.type_name(group, version, kind)
    if name is not None:
        content = _message(name, obj)
    elif (item := tables.type_name(group, version, kind.removesuffix("List"))) is not None and "items" in obj:
        content = _list(item, obj)
    else:
        return None
    return b"".join((_opening(api_version, kind, len(content)), content, _CLOSING))


def one_list(head: Object, parts: Sequence[bytes]) -> list[bytes | memoryview]:
    """The list with this head, made of lists of its kind that `encode` has written; in pieces, one after the other."""
    metadata = _list_metadata(head)
    items = [_items(part) for part in parts]
    size = len(metadata) + sum(map(len, items))
    return [_opening(str(head["apiVersion"]), str(head["kind"]), size), metadata, *items, _CLOSING]


def _items(encoded: bytes) -> memoryview:
    """What stands behind the metadata of a list, in its envelope."""
    start, end = next(
        (first, last) for number, _, first, last in wire.fields(encoded, len(PREFIX), len(encoded)) if number == 2
    )
    _, _, _, after = next(wire.fields(encoded, start, end))
    return memoryview(encoded)[after:end]


def _opening(api_version: str, kind: str, size: int) -> bytes:
    envelope = _text(1, api_version) + _text(2, kind)
    return PREFIX + _delimited(1, envelope) + _varint(2 << 3 | wire.LENGTH) + _varint(size)


def _list(item: str, obj: Object) -> bytes:
    items = [_delimited(2, _message(item, each)) for each in cast("list[Object]", obj["items"])]
    return _list_metadata(obj) + b"".join(items)


def _list_metadata(obj: Object) -> bytes:
    return _delimited(1, _message(types.LIST_META, obj.get("metadata") or {}))


def _message(name: str, value: Object) -> bytes:
    kind = types.get(name)
    parts = [(field.number, _field(field, value.get(key))) for key, field in kind.fields.items() if field.number]
    parts += [(number, _delimited(number, _message(inlined, value))) for inlined, number in kind.inline]
    return b"".join(part for _, part in sorted(parts, key=lambda each: each[0]))


def _field(field: Field, value: Any) -> bytes:
    number, base = field.number, field.base
    if field.repeated:
        return b"".join(_single(number, base, item) for item in value or ())
    if field.mapped:
        entries = cast("dict[str, Any]", value or {})
        return b"".join(_delimited(number, _text(1, key) + _single(2, base, entries[key])) for key in sorted(entries))
    if value is None:
        if field.pointer or base in {"bytes", "StringList"}:
            return b""
        value = _ZERO.get(base)
    return _single(number, base, value)


def _single(number: int, base: str, value: Any) -> bytes:
    if base in _NUMBERS:
        return _number(number, int(value))
    if base == "double":
        return _varint(number << 3 | wire.FIXED64) + struct.pack("<d", value)
    if base == "string":
        return _text(number, value)
    if base == "bytes":
        return _delimited(number, base64.b64decode(value))
    return _delimited(number, _special(base, value) if base in types.SPECIAL else _message(base, value or {}))


def _special(base: str, value: Any) -> bytes:
    if value is None:
        return b""
    if base == "Quantity":
        return _text(1, str(value))
    if base in {"Time", "MicroTime"}:
        moment = datetime.fromisoformat(value)
        return _number(1, int(moment.timestamp())) + _number(2, moment.microsecond * 1000)
    if base == "IntOrString":
        is_text = isinstance(value, str)
        return _number(1, is_text) + _number(2, 0 if is_text else value) + _text(3, value if is_text else "")
    if base in _RAW:
        return _delimited(1, orjson.dumps(value))
    if base == "StringList":
        return b"".join(_text(1, item) for item in value)
    if base == "SchemaOrBool":
        allows = value if isinstance(value, bool) else True
        return _number(1, allows) + (b"" if isinstance(value, bool) else _schema(2, value))
    if base == "SchemaOrStrings" and isinstance(value, list):
        return b"".join(_text(2, item) for item in cast("list[str]", value))
    return _schema(1, value)


def _schema(number: int, value: Object) -> bytes:
    return _delimited(number, _message(special.JSON_SCHEMA, value))


def _varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | wire.VARINT) + _varint(value)


def _delimited(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | wire.LENGTH) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _delimited(number, value.encode())


_CLOSING: Final = _text(3, "") + _text(4, "")
