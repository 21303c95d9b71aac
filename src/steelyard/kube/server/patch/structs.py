"""Refuses the result of a strategic merge patch that fits no Go type, in the words of upstream's converter.

A strategic merge patch is applied to plain maps, which are then turned into Go structs field by field, in the order of
the struct. What cannot be converted is told by the types alone, without a path.
"""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies import typechecks
from steelyard.kube.server.patch import quoting

_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", dict: "map", list: "slice"}
_TARGETS: Final = {"string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "double": "float64"}
_NUMBERS: Final = frozenset({"int64", "float64"})


class Inconvertible(Exception):
    """Its text is upstream's."""


def convert(name: str, value: Object) -> Object:
    """The value with every number as its type has it. Raises Inconvertible."""
    if not typechecks.problem(name, value):
        return value
    return _struct(name, value)


def _struct(name: str, value: Any) -> Object:
    if not isinstance(value, dict):
        raise Inconvertible(f"cannot restore struct from: {_kind(value)}")
    given = cast(Object, value)
    result = dict(given)
    for key, field in quoting.ordered_fields(name).items():
        if given.get(key) is not None:
            result[key] = _field(field, given[key])
    return result


def _field(field: types.Field, value: Any) -> Any:
    if field.repeated:
        if not isinstance(value, list):
            raise Inconvertible(f"cannot restore slice from {_kind(value)}")
        return [_single(field, item) for item in cast("list[Any]", value)]
    if field.mapped:
        if not isinstance(value, dict):
            raise Inconvertible(f"cannot restore map from {_kind(value)}")
        return {key: _single(field, item) for key, item in cast(Object, value).items()}
    return _single(field, value)


def _single(field: types.Field, value: Any) -> Any:
    if value is None:
        return None
    if field.is_struct:
        return _struct(field.base, value)
    if field.base == "bytes":
        return _bytes(value)
    if field.base in types.SPECIAL:
        return _special(field.base, value)
    target = _TARGETS[field.base]
    kind = _kind(value)
    if kind == target or {kind, target} <= {"int64", "int32"} or (kind, target) == ("int64", "float64"):
        return value
    if kind == "float64" and target.startswith("int") and float(value).is_integer():
        return int(value)
    is_convertible = (kind == "int64" and target == "string") or (kind in _NUMBERS and target.startswith("int"))
    if is_convertible:
        raise Inconvertible(f"cannot convert {kind} to {field.go or target}")
    raise Inconvertible(f"unrecognized type: {target}")


def _bytes(value: Any) -> Any:
    if not isinstance(value, str):
        raise Inconvertible(f"cannot restore slice from {_kind(value)}")
    if problem := typechecks.base64_problem(value):
        raise Inconvertible(f"error decoding from json: {problem}")
    return value


def _special(base: str, value: Any) -> Any:
    """Types that read themselves from JSON complain as they do there, but know no field."""
    problem = typechecks.special_problem(base, value)
    if problem:
        raise Inconvertible(problem)
    return value


def _kind(value: Any) -> str:
    return _KINDS[type(value)]
