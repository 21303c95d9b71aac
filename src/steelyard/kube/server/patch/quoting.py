"""Patched documents and patches as upstream's answers quote them.

The library that applies JSON and merge patches there opens only the objects that a patch passes through; those are
written with sorted keys, everything else as it was: a built-in kind in the order of its Go fields.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

import orjson

from steelyard.kube.builtin import types
from steelyard.kube.objects import Object

_ESCAPES: Final = (
    (b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"), ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)  # fmt: skip
"""Go writes JSON that may stand inside of HTML."""


def document(original: Any, patched: Any, patch: Any = None) -> str:
    """The JSON of a patched document. It must share with the original, and with the patch if its values are taken as
    they are, every object and list that the patch left alone: that is how these are known.
    """
    untouched: set[int] = set()
    _collect(original, untouched)
    _collect(patch, untouched)
    return encoded(_sorted(patched, untouched))


def encoded(value: Any) -> str:
    text = orjson.dumps(value)
    for plain, escape in _ESCAPES:
        text = text.replace(plain, escape)
    return text.decode()


def _collect(value: Any, found: set[int]) -> None:
    if isinstance(value, dict):
        found.add(id(cast(Object, value)))
        for item in cast(Object, value).values():
            _collect(item, found)
    elif isinstance(value, list):
        found.add(id(cast("list[Any]", value)))
        for item in cast("list[Any]", value):
            _collect(item, found)


def _sorted(value: Any, untouched: set[int]) -> Any:
    if id(value) in untouched:
        return value
    if isinstance(value, dict):
        members = cast(Object, value)
        return {key: _sorted(members[key], untouched) for key in sorted(members)}
    if isinstance(value, list):
        return [_sorted(item, untouched) for item in cast("list[Any]", value)]
    return value


def in_go_order(name: str, value: Object) -> Object:
    """An object of a built-in type with its fields in the order of the Go struct, at every level."""
    known = ordered_fields(name)
    result: Object = {}
    for key, field in known.items():
        if key in value:
            result[key] = _field_in_go_order(field, value[key])
    result.update({key: item for key, item in value.items() if key not in known})
    return result


def _field_in_go_order(field: types.Field, value: Any) -> Any:
    if field.mapped and isinstance(value, dict):
        members = cast(Object, value)
        return {key: _item_in_go_order(field, members[key]) for key in sorted(members)}
    if field.repeated and isinstance(value, list):
        return [_item_in_go_order(field, item) for item in cast("list[Any]", value)]
    return _item_in_go_order(field, value)


def _item_in_go_order(field: types.Field, value: Any) -> Any:
    if not field.is_struct:
        return value
    return in_go_order(field.base, cast(Object, value)) if isinstance(value, dict) else value


@cache
def ordered_fields(name: str) -> dict[str, types.Field]:
    """Fields of an embedded struct stand where it is embedded, which is where its protobuf number falls."""
    type_ = types.get(name)
    inlined = [(number, types.get(inner).all_fields()) for inner, number in type_.inline]
    result: dict[str, types.Field] = {}
    for key, field in type_.fields.items():
        for number, more in inlined:
            if field.number > number:
                result.update(more)
        result[key] = field
    for _, more in inlined:
        result.update(more)
    return result
