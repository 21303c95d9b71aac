"""OpenAPI version 2 as protocol buffers: the form in which clients written in Go ask for it.

The messages are those of gnostic's package `openapi.v2`, and of their fields only those that a document of ours uses;
each table below maps a keyword of the JSON form to the encoder of its field. Values of any shape
(enumerations, extensions) travel as YAML text, for which their JSON serves. As everywhere in proto3, zero and false are
not sent.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from steelyard.frozen import frozen
from steelyard.kube.builtin import wire
from steelyard.kube.objects import Object

Encode: TypeAlias = Callable[[Any], bytes]

_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON may hold in a string as it is, and YAML not."""


def _long_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SHORT: Final = tuple(_long_varint(value) for value in range(4096))


def _varint(value: int) -> bytes:
    return _SHORT[value] if value < 4096 else _long_varint(value)


def _sized(number: int, content: bytes) -> bytes:
    length = len(content)
    return _SHORT[number << 3 | wire.LENGTH] + (_SHORT[length] if length < 4096 else _long_varint(length)) + content


def _text(number: int) -> Encode:
    return lambda value: _sized(number, value.encode()) if value else b""


def _texts(number: int) -> Encode:
    return lambda values: b"".join(_sized(number, value.encode()) for value in values)


def _flag(number: int) -> Encode:
    return lambda value: _varint(number << 3 | wire.VARINT) + b"\x01" if value else b""


def _integer(number: int) -> Encode:
    return lambda value: _varint(number << 3 | wire.VARINT) + _varint(int(value) & (1 << 64) - 1) if value else b""


def _double(number: int) -> Encode:
    return lambda value: _varint(number << 3 | wire.FIXED64) + struct.pack("<d", value) if value else b""


def _yaml(value: Any) -> bytes:
    """The message Any."""
    text = orjson.dumps(value).decode()
    return _sized(2, _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n")


def _anys(number: int) -> Encode:
    return lambda values: b"".join(_sized(number, _yaml(value)) for value in values)


def _named(number: int, name: str, value: bytes) -> bytes:
    return _sized(number, _sized(1, name.encode()) + _sized(2, value))


def _one(number: int, encode: Encode) -> Encode:
    return lambda value: _sized(number, encode(value))


def _each(number: int, encode: Encode) -> Encode:
    return lambda values: b"".join(_sized(number, encode(value)) for value in values)


def _by_name(number: int, encode: Encode) -> Encode:
    """A JSON object of any keys is a list of names and values."""
    return lambda values: b"".join(_named(number, name, encode(value)) for name, value in values.items())


@frozen
class _Message:
    fields: Mapping[str, Encode]
    extensions: int
    """The field of what begins with `x-`."""

    def __call__(self, value: Object) -> bytes:
        parts: list[bytes] = []
        for keyword, inner in value.items():
            encode = self.fields.get(keyword)
            if encode is not None:
                parts.append(encode(inner))
            elif keyword.startswith("x-"):
                parts.append(_named(self.extensions, keyword, _yaml(inner)))
        return b"".join(parts)


def _schema(value: Object) -> bytes:
    return _SCHEMA(value)


_SCHEMAS_BY_NAME: Final = _by_name(1, _schema)


def _schema_or_flag(value: Object | bool) -> bytes:
    """The message AdditionalPropertiesItem; being one of two, its false is sent."""
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    return _sized(1, _SCHEMA(value))


_SCHEMA: Final = _Message(
    {
        "$ref": _text(1),
        "format": _text(2),
        "title": _text(3),
        "description": _text(4),
        "multipleOf": _double(6),
        "maximum": _double(7),
        "exclusiveMaximum": _flag(8),
        "minimum": _double(9),
        "exclusiveMinimum": _flag(10),
        "maxLength": _integer(11),
        "minLength": _integer(12),
        "pattern": _text(13),
        "maxItems": _integer(14),
        "minItems": _integer(15),
        "uniqueItems": _flag(16),
        "maxProperties": _integer(17),
        "minProperties": _integer(18),
        "required": _texts(19),
        "enum": _anys(20),
        "additionalProperties": _one(21, _schema_or_flag),
        "type": _one(22, _text(1)),
        "items": _one(23, _one(1, _schema)),
        "properties": _one(25, _SCHEMAS_BY_NAME),
    },
    extensions=31,
)

_QUERY: Final = _Message({"in": _text(2), "name": _text(4), "type": _text(6), "uniqueItems": _flag(20)}, extensions=23)
_PATH: Final = _Message(
    {"required": _flag(1), "in": _text(2), "name": _text(4), "type": _text(5), "uniqueItems": _flag(19)}, extensions=22
)
_BODY: Final = _Message(
    {"name": _text(2), "in": _text(3), "required": _flag(4), "schema": _one(5, _schema)}, extensions=6
)


def _parameter(value: Object) -> bytes:
    """The message ParametersItem, around the message of where the parameter stands."""
    if value["in"] == "body":
        return _sized(1, _sized(1, _BODY(value)))
    return _plain_parameter(tuple(value.items()))


@functools.lru_cache(maxsize=128)
def _plain_parameter(value: tuple[tuple[str, Any], ...]) -> bytes:
    """All operations have the same few."""
    said = dict(value)
    inner = _sized(4, _PATH(said)) if said["in"] == "path" else _sized(3, _QUERY(said))
    return _sized(1, _sized(2, inner))


_RESPONSE: Final = _Message({"description": _text(1), "schema": _one(2, _one(1, _schema))}, extensions=5)
_OPERATION: Final = _Message(
    {
        "tags": _texts(1),
        "operationId": _text(5),
        "produces": _texts(6),
        "consumes": _texts(7),
        "parameters": _each(8, _parameter),
        "responses": _one(9, _by_name(1, _one(1, _RESPONSE))),
        "schemes": _texts(10),
    },
    extensions=13,
)
_PATH_ITEM: Final = _Message(
    {
        "get": _one(2, _OPERATION),
        "put": _one(3, _OPERATION),
        "post": _one(4, _OPERATION),
        "delete": _one(5, _OPERATION),
        "patch": _one(8, _OPERATION),
        "parameters": _each(9, _parameter),
    },
    extensions=10,
)
_INFO: Final = _Message({"title": _text(1), "version": _text(2)}, extensions=7)
_API_KEY: Final = _Message({"type": _text(1), "name": _text(2), "in": _text(3), "description": _text(4)}, extensions=5)
_HEAD: Final = _Message(
    {
        "swagger": _text(1),
        "info": _one(2, _INFO),
        "security": _each(12, _by_name(1, _texts(1))),
        "securityDefinitions": _one(13, _by_name(1, _one(2, _API_KEY))),
    },
    extensions=16,
)


def definition(name: str, schema: Object) -> bytes:
    """One definition, as `document` takes it."""
    return _named(1, name, _SCHEMA(schema))


def path(name: str, item: Object) -> bytes:
    """One path, as `document` takes it."""
    return _named(2, name, _PATH_ITEM(item))


def document(head: Object, paths: list[bytes], definitions: list[bytes]) -> bytes:
    """A whole document: what it says of itself, and its parts, which have been encoded before."""
    return _HEAD(head) + _sized(8, b"".join(paths)) + _sized(9, b"".join(definitions))
