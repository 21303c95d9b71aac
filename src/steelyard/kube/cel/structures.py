"""Equality and addition of values that have a schema: lists that are sets or maps by key, fields that are converted.

>>> from steelyard.kube.cel import types
>>> equality(types.Type("list", (types.STRING,), list_kind="set"))(["a", "b"], ["b", "a"])
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from steelyard.kube import effort
from steelyard.kube.cel import values
from steelyard.kube.cel.types import Type

_EFFORT: Final = 20
"""Of comparing two entries."""
Equal: TypeAlias = Callable[[Any, Any], bool]


def equality(type_: Type) -> Equal:
    """How two values of the type are compared; as any two values where the schema says nothing special."""
    return _equality(type_) or values.equal


def _equality(type_: Type) -> Equal | None:
    if type_.kind == "object":
        return _of_objects(type_)
    if type_.kind == "map":
        inner = _equality(type_.parameters[1])
        return None if inner is None else _of_maps(inner)
    if type_.kind == "optional":
        inner = _equality(type_.parameters[0])
        return None if inner is None else _of_optionals(inner)
    if type_.kind != "list":
        return None
    inner = _equality(type_.parameters[0])
    if type_.list_kind == "atomic":
        return None if inner is None else _of_lists(inner)
    if type_.list_kind == "set":
        return _of_sets(inner or values.equal)
    return _of_keyed_lists(inner or values.equal, type_.list_keys)


def _of_objects(type_: Type) -> Equal | None:
    special: dict[str, Equal] = {}
    for field in type_.fields.values():
        inner = _equality(field.type)
        convert = field.type.convert
        if convert is not None:
            special[field.name] = _converted(convert, inner or values.equal)
        elif inner is not None:
            special[field.name] = inner
    if not special:
        return None

    def equal(left: Any, right: Any) -> bool:
        if left.__class__ is not dict or right.__class__ is not dict:
            return values.equal(left, right)
        return len(left) == len(right) and all(
            key in right and special.get(key, values.equal)(value, right[key]) for key, value in left.items()
        )

    return equal


def _converted(convert: Callable[[Any], Any], inner: Equal) -> Equal:
    def equal(left: Any, right: Any) -> bool:
        if left is None or right is None:
            return left is right
        return inner(convert(left), convert(right))

    return equal


def _of_maps(inner: Equal) -> Equal:
    def equal(left: Any, right: Any) -> bool:
        if left.__class__ is not dict or right.__class__ is not dict:
            return values.equal(left, right)
        return len(left) == len(right) and all(key in right and inner(value, right[key]) for key, value in left.items())

    return equal


def _of_optionals(inner: Equal) -> Equal:
    def equal(left: Any, right: Any) -> bool:
        if left is values.NONE or right is values.NONE:
            return left is right
        return inner(left.value, right.value)

    return equal


def _of_lists(inner: Equal) -> Equal:
    return lambda left, right: len(left) == len(right) and all(map(inner, left, right))


def _of_sets(inner: Equal) -> Equal:
    def equal(left: list[Any], right: list[Any]) -> bool:
        return len(left) == len(right) and all(_is_in(one, right, inner) for one in left)

    return equal


def _is_in(item: Any, items: list[Any], equal: Equal) -> bool:
    if item.__class__ is str:
        effort.spend(len(items))
        return item in items
    effort.spend(len(items) * _EFFORT)
    return any(equal(item, each) for each in items)


def _of_keyed_lists(inner: Equal, keys: tuple[str, ...]) -> Equal:
    def equal(left: list[Any], right: list[Any]) -> bool:
        if len(left) != len(right):
            return False
        by_key = {_key(entry, keys): entry for entry in left}
        return all((key := _key(entry, keys)) in by_key and inner(by_key[key], entry) for entry in right)

    return equal


def _key(entry: Any, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(entry.get(key) for key in keys)


def addition(type_: Type) -> Callable[[list[Any], list[Any]], list[Any]]:
    """`X + Y` keeps the order of X. A set takes of Y what it lacks; a list with keys also takes over Y's entries."""
    if type_.list_kind == "set":
        equal = equality(type_.parameters[0])
        return lambda left, right: [
            *left,
            *(item for item in right if not _is_in(item, left, equal)),
        ]
    keys = type_.list_keys

    def add(left: list[Any], right: list[Any]) -> list[Any]:
        merged = {_key(entry, keys): entry for entry in left}
        merged.update((_key(entry, keys), entry) for entry in right)
        return list(merged.values())

    return add
