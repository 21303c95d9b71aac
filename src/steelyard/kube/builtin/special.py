"""The protobuf messages whose JSON form is no object with the message's fields: times, quantities, raw JSON and such.

Each reader takes the bytes of one message and gives its JSON value; no bytes at all are the type's zero value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import orjson

from steelyard.kube.builtin import wire

Read: TypeAlias = Callable[[bytes, int, int], Any]

JSON_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUANTITY: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")


def not_length_delimited(data: bytes, start: int, end: int) -> Any:
    raise wire.Corrupt("a number has the wire type of text")


def _bytes(data: bytes, start: int, end: int) -> str:
    return base64.b64encode(data[start:end]).decode()


def _moment(data: bytes, start: int, end: int, *, microseconds: bool) -> str | None:
    seconds = nanoseconds = 0
    for number, value, _, _ in wire.fields(data, start, end):
        if number == 1:
            seconds = wire.signed64(value)
        elif number == 2:
            nanoseconds = wire.signed32(value)
    if start == end:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise wire.Corrupt(f"{seconds} seconds after 1970 is outside the years 1 to 9999") from None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{text}.{nanoseconds // 1000:06d}Z" if microseconds else f"{text}Z"


def _time(data: bytes, start: int, end: int) -> str | None:
    return _moment(data, start, end, microseconds=False)


def _micro_time(data: bytes, start: int, end: int) -> str | None:
    return _moment(data, start, end, microseconds=True)


def _quantity(data: bytes, start: int, end: int) -> str:
    text = "0"
    for number, _, first, last in wire.fields(data, start, end):
        if number == 1:
            text = wire.text(data, first, last)
            if not _QUANTITY.fullmatch(text):
                raise wire.Corrupt(f'"{text}" is not a quantity such as 500m, 2Gi or 1.5')
    return text


def _int_or_string(data: bytes, start: int, end: int) -> int | str:
    is_text, number, text = 0, 0, ""
    for field, value, first, last in wire.fields(data, start, end):
        if field == 1:
            is_text = value
        elif field == 2:
            number = wire.signed32(value)
        elif field == 3:
            text = wire.text(data, first, last)
    return text if is_text else number


def _raw_json(data: bytes, start: int, end: int) -> Any:
    value = None
    for number, _, first, last in wire.fields(data, start, end):
        if number == 1 and last > first:
            try:
                value = orjson.loads(data[first:last])
            except orjson.JSONDecodeError as error:
                raise wire.Corrupt(f"embedded JSON cannot be read: {error}") from None
    return value


def _string_list(data: bytes, start: int, end: int) -> list[str]:
    return [wire.text(data, first, last) for number, _, first, last in wire.fields(data, start, end) if number == 1]


def _schema_or_bool(schema: Read) -> Read:
    def read(data: bytes, start: int, end: int) -> Any:
        allows, inner = False, None
        for number, value, first, last in wire.fields(data, start, end):
            if number == 1:
                allows = bool(value)
            elif number == 2:
                inner = schema(data, first, last)
        return allows if inner is None else inner

    return read


def _schema_or_array(schema: Read) -> Read:
    def read(data: bytes, start: int, end: int) -> Any:
        single, several = None, list[Any]()
        for number, _, first, last in wire.fields(data, start, end):
            if number == 1:
                single = schema(data, first, last)
            elif number == 2:
                several.append(schema(data, first, last))
        return several or single

    return read


def _schema_or_strings(schema: Read) -> Read:
    def read(data: bytes, start: int, end: int) -> Any:
        single, names = None, list[str]()
        for number, _, first, last in wire.fields(data, start, end):
            if number == 1:
                single = schema(data, first, last)
            elif number == 2:
                names.append(wire.text(data, first, last))
        return names or single

    return read


READERS: Final[dict[str, Read]] = {
    "string": wire.text,
    "bytes": _bytes,
    "Time": _time,
    "MicroTime": _micro_time,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "RawExtension": _raw_json,
    "FieldsV1": _raw_json,
    "JSON": _raw_json,
    "StringList": _string_list,
}
SCHEMA_READERS: Final[dict[str, Callable[[Read], Read]]] = {
    "SchemaOrBool": _schema_or_bool,
    "SchemaOrArray": _schema_or_array,
    "SchemaOrStrings": _schema_or_strings,
}
"""Those that contain a schema, for which they are given the reader."""
