"""Lists that are sets (`x-kubernetes-list-type: set`) or maps by key: no entry may appear twice."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import orjson

from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.schema.model import Schema

_NAME: Final = "listtypes"
_Check: TypeAlias = Callable[[Any, str, list[Cause]], None]


def validate(schema: Schema, value: Any, path: str = "") -> list[Cause]:
    check = _checker(schema)
    found: list[Cause] = []
    if check is not None:
        check(value, path, found)
    return found


def repeated(values: list[Any]) -> list[int]:
    """The indexes at which a value appears for the second time."""
    if len(values) < 2:
        return []
    seen: dict[Any, int] = {}
    again: list[int] = []
    for index, value in enumerate(values):
        key = _told_apart(value)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            again.append(index)
    return again


def _told_apart(value: Any) -> Any:
    """What is the same for equal values only: `1`, `1.0`, `true` and `"1"` are four. Many of them take little memory,
    which a text of JSON for each would not."""
    match value:
        case str():
            return value
        case bool() | None | float():
            return repr(value).encode()
        case int():
            return value
        case _:
            return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=24).digest()


def _checker(schema: Schema) -> _Check | None:
    """The check of a node, or None if no list below it asks for one."""
    if _NAME not in schema.compiled:
        if schema.reference is not None:
            return _deferred(schema)
        schema.compiled[_NAME] = _compile(schema)
    return cast("_Check | None", schema.compiled[_NAME])


def _deferred(schema: Schema) -> _Check:
    def check(value: Any, path: str, found: list[Cause]) -> None:
        inner = _checker(schema.resolve())
        if inner is not None:
            inner(value, path, found)

    return check


def _compile(schema: Schema) -> _Check | None:
    properties = {name: inner for name, child in schema.properties.items() if (inner := _checker(child)) is not None}
    additional = _checker(schema.additional) if schema.additional is not None else None
    items = _checker(schema.items) if schema.items is not None else None
    own = _list_check(schema) if schema.list_type != "atomic" else None
    if not (properties or additional or items or own):
        return None
    declared = schema.properties

    def check(value: Any, path: str, found: list[Cause]) -> None:
        if isinstance(value, dict):
            for key, item in cast("dict[str, Any]", value).items():
                if not isinstance(item, dict | list):
                    continue
                known = properties.get(key)
                if known is not None:
                    known(item, fields.child(path, key), found)
                elif additional is not None and key not in declared:
                    additional(item, f"{path}[{key}]", found)
        elif isinstance(value, list):
            entries = cast("list[Any]", value)
            if own is not None:
                own(entries, path, found)
            if items is not None:
                for index, item in enumerate(entries):
                    items(item, f"{path}[{index}]", found)

    return check


def _list_check(schema: Schema) -> _Check:
    return _set_check if schema.list_type == "set" else _map_check(schema.list_map_keys)


def _set_check(entries: list[Any], path: str, found: list[Cause]) -> None:
    found.extend(fields.duplicate(f"{path}[{index}]", entries[index]) for index in repeated(entries))


def _map_check(keys: tuple[str, ...]) -> _Check:
    pick = cast("Callable[[Any], Any]", operator.itemgetter(*keys) if keys else _no_key)

    def check(entries: list[Any], path: str, found: list[Cause]) -> None:
        try:
            if len({pick(entry) for entry in entries}) == len(entries):
                return
        except (KeyError, TypeError):
            pass  # an entry lacks a key or is no object: the long way tells which
        for index, entry in enumerate(entries):
            if entry is not None and not isinstance(entry, dict):
                detail = "must be an object for an array of list-type map"
                found.append(fields.invalid(f"{path}[{index}]", entry, detail))
                return
        picked = [_key_of(entry, keys) for entry in entries]
        found.extend(fields.duplicate(f"{path}[{index}]", picked[index]) for index in repeated(picked))

    return check


def _no_key(entry: Any) -> Any:
    raise KeyError(entry)


def _key_of(entry: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    values = objects.mapping(entry)
    return {key: values[key] for key in keys if key in values}
