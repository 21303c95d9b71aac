"""Writes objects as Kubernetes protobuf, from the same tables the decoder reads: the other half of a round trip."""

import base64
import struct
from datetime import datetime
from typing import Any, cast

import orjson

from steelyard.kube.builtin import protobuf, special, tables, types, wire
from steelyard.kube.objects import Object


def varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3 | wire.VARINT) + varint(value)


def delimited(field: int, content: bytes) -> bytes:
    return varint(field << 3 | wire.LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return delimited(field, value.encode())


def special_value(base: str, value: Any) -> bytes:
    if base == "Quantity":
        return text(1, value)
    if base in {"Time", "MicroTime"}:
        moment = datetime.fromisoformat(value)
        return number(1, int(moment.timestamp())) + number(2, moment.microsecond * 1000)
    if base == "IntOrString":
        return number(1, 1) + text(3, value) if isinstance(value, str) else number(1, 0) + number(2, value)
    if base in {"RawExtension", "FieldsV1", "JSON"}:
        return delimited(1, orjson.dumps(value))
    if base == "StringList":
        return b"".join(text(1, item) for item in value)
    if base == "SchemaOrBool":
        return number(1, value) if isinstance(value, bool) else delimited(2, message(special.JSON_SCHEMA, value))
    if base == "SchemaOrStrings" and isinstance(value, list):
        return b"".join(text(2, item) for item in cast("list[str]", value))
    return delimited(1, message(special.JSON_SCHEMA, value))


def single(field: int, base: str, value: Any) -> bytes:
    if base in {"int32", "int64", "bool"}:
        return number(field, int(value))
    if base == "double":
        return varint(field << 3 | wire.FIXED64) + struct.pack("<d", value)
    if base == "string":
        return text(field, value)
    if base == "bytes":
        return delimited(field, base64.b64decode(value))
    content = special_value(base, value) if base in types.SPECIAL else message(base, value)
    return delimited(field, content)


def message(name: str, value: Object) -> bytes:
    kind = types.get(name)
    out = b""
    for key, field in kind.fields.items():
        if not field.number or value.get(key) is None:
            continue
        if field.repeated:
            out += b"".join(single(field.number, field.base, item) for item in value[key])
        elif field.mapped:
            for entry, item in value[key].items():
                out += delimited(field.number, text(1, entry) + single(2, field.base, item))
        else:
            out += single(field.number, field.base, value[key])
    for inlined, field_number in kind.inline:
        out += delimited(field_number, message(inlined, value))
    return out


def encode(obj: Object) -> bytes:
    group, _, version = cast(str, obj["apiVersion"]).rpartition("/")
    name = tables.type_name(group, version, obj["kind"])
    assert name is not None
    meta = text(1, obj["apiVersion"]) + text(2, obj["kind"])
    return protobuf.PREFIX + delimited(1, meta) + delimited(2, message(name, obj)) + text(3, "") + text(4, "")


_EXAMPLES: dict[str, Any] = {
    "string": "text", "bytes": "AAEC", "bool": True, "int32": -7, "int64": 1 << 40, "double": 1.5, "Quantity": "250m",
    "Time": "2024-02-29T01:02:03Z", "MicroTime": "2024-02-29T01:02:03.000004Z", "IntOrString": "25%",
    "RawExtension": {"a": [1]}, "FieldsV1": {"f:a": {}}, "JSON": [None, 1], "StringList": ["a", ""],
    "SchemaOrBool": True, "SchemaOrArray": {"type": "string"}, "SchemaOrStrings": ["a"],
}  # fmt: skip


def example(name: str, *, within: tuple[str, ...] = ()) -> Object:
    """An object with every field set, down to where a type would contain itself."""
    out: Object = {}
    for key, field in types.get(name).all_fields().items():
        is_nested = field.base not in _EXAMPLES
        if field.number == 0 or field.base in within:
            continue
        value = example(field.base, within=(*within, name)) if is_nested else _EXAMPLES[field.base]
        out[key] = [value, value] if field.repeated else {"key": value, "": value} if field.mapped else value
    return out
