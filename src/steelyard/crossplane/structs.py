"""Protobuf's Struct, in which Crossplane has objects, to plain dictionaries and back.

Own code where the protobuf library has some: on objects as they are here its `json_format` takes two to four times as
long, and this is most of what a request costs (docs/decisions/0025-crossplane.md). A whole number is an int again: a
Struct knows only one kind of number, and `3.0` is another text than `3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from google.protobuf import struct_pb2

from steelyard.kube.objects import Object


def read(struct: struct_pb2.Struct) -> Object:
    return {key: _value(each) for key, each in struct.fields.items()}


def write(target: struct_pb2.Struct, obj: Mapping[str, Any]) -> None:
    """Fills a Struct that is empty."""
    fields = target.fields
    for key, value in obj.items():
        _put(fields[key], value)


def _value(value: struct_pb2.Value) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "struct_value":
            return {key: _value(each) for key, each in value.struct_value.fields.items()}
        case "list_value":
            return [_value(each) for each in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case _:
            return None


def _put(target: struct_pb2.Value, value: Any) -> None:
    kind = cast(object, type(value))
    if kind is str:
        target.string_value = value
    elif kind is dict:
        # An empty one is there all the same.
        target.struct_value.SetInParent()
        write(target.struct_value, value)
    elif kind is list or kind is tuple:
        target.list_value.SetInParent()
        values = target.list_value.values
        for each in value:
            _put(values.add(), each)
    elif kind is bool:
        target.bool_value = value
    elif kind is int or kind is float:
        target.number_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    else:
        raise TypeError(f"no JSON value: {value!r}")
