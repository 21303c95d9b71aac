"""Fills in a schema's defaults, but only inside objects that are there.

Nulls come first: a null in a field that may not be null disappears, or turns into the field's default if it has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from steelyard.kube.schema.model import MISSING, Schema

_NAME: Final = "default"


def apply_defaults(schema: Schema, value: Any) -> None:
    """In place."""
    drop_nulls(schema, value)
    fill(schema, value)


class Overgrown(Exception):
    """Defaults would make a small object a large one."""


def fill(schema: Schema, value: Any, most: int = 1_000_000) -> None:
    """As `apply_defaults`, for a value whose nulls have been dropped already, or are there to be judged; in place.

    Raises Overgrown where that takes more than `most` values.
    """
    plan = _plan(schema)
    if plan is not None:
        _apply(plan, value, _Room(most))


@dataclass(slots=True)
class _Room:
    left: int

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Overgrown


def prepare(schema: Schema) -> None:
    _plan(schema)


def drop_nulls(schema: Schema, value: Any) -> None:
    """Removes nulls from fields that are neither nullable nor have a default."""
    node = schema.resolve()
    if isinstance(value, dict):
        _drop_in_object(node, cast("dict[str, Any]", value))
    elif isinstance(value, list) and node.items is not None:
        for item in cast("list[Any]", value):
            drop_nulls(node.items, item)


def _drop_in_object(node: Schema, value: dict[str, Any]) -> None:
    properties, additional = node.properties, node.additional
    dropped: list[str] = []
    for key, item in value.items():
        if item is None:
            child = properties.get(key) or additional
            if child is not None:
                child = child.resolve()
                if not child.nullable and child.default is MISSING:
                    dropped.append(key)
        elif type(item) is dict:
            child = properties.get(key) or additional
            if child is not None:
                _drop_in_object(child.resolve(), cast("dict[str, Any]", item))
        elif type(item) is list:
            child = properties.get(key) or additional
            if child is not None:
                drop_nulls(child, item)
    for key in dropped:
        del value[key]


@dataclass(slots=True)
class _Plan:
    """What to do at a node. Nodes without a default at or below them have none."""

    defaults: list[tuple[str, Any, bool]]
    """Field, default, nullable."""
    properties: dict[str, _Plan | None]
    additional: _Plan | None
    additional_default: Any
    items: _Plan | None
    items_default: Any
    deferred: Schema | None = None


def _plan(schema: Schema) -> _Plan | None:
    if _NAME not in schema.compiled:
        if schema.reference is not None:
            return _Plan([], {}, None, MISSING, None, MISSING, deferred=schema)
        schema.compiled[_NAME] = _make_plan(schema)
    return cast("_Plan | None", schema.compiled[_NAME])


def _make_plan(schema: Schema) -> _Plan | None:
    defaults = [
        (name, child.default, child.nullable)
        for name, child in schema.properties.items()
        if child.default is not MISSING
    ]
    plans = {name: _plan(child) for name, child in schema.properties.items()}
    additional = _plan(schema.additional) if schema.additional is not None else None
    items = _plan(schema.items) if schema.items is not None else None
    additional_default = _null_replacement(schema.additional)
    items_default = _null_replacement(schema.items)
    below = any(plan is not None for plan in plans.values())
    if not (defaults or below or additional or items) and additional_default is items_default is MISSING:
        return None
    return _Plan(defaults, plans, additional, additional_default, items, items_default)


def _null_replacement(schema: Schema | None) -> Any:
    return MISSING if schema is None or schema.nullable else schema.default


def _apply(plan: _Plan, value: Any, room: _Room) -> None:
    if plan.deferred is not None:
        resolved = _plan(plan.deferred.resolve())
        if resolved is not None:
            _apply(resolved, value, room)
    elif isinstance(value, dict):
        _apply_to_object(plan, cast("dict[str, Any]", value), room)
    elif isinstance(value, list):
        entries = cast("list[Any]", value)
        for index, item in enumerate(entries):
            if item is None and plan.items_default is not MISSING:
                entries[index] = _fresh(plan.items_default, room)
            if plan.items is not None:
                _apply(plan.items, entries[index], room)


def _apply_to_object(plan: _Plan, value: dict[str, Any], room: _Room) -> None:
    for name, default, nullable in plan.defaults:
        if name not in value or (value[name] is None and not nullable):
            value[name] = _fresh(default, room)
    properties, additional = plan.properties, plan.additional
    for key, item in value.items():
        if type(item) is dict or type(item) is list:
            inner = properties.get(key) if key in properties else additional
            if inner is not None:
                _apply(inner, item, room)
        elif item is None and plan.additional_default is not MISSING and key not in properties:
            value[key] = _fresh(plan.additional_default, room)
            if additional is not None:
                _apply(additional, value[key], room)


def _fresh(default: Any, room: _Room) -> Any:
    """A copy of a default that the object may keep and change."""
    room.take()
    if isinstance(default, dict):
        return {key: _fresh(item, room) for key, item in cast("dict[str, Any]", default).items()}
    if isinstance(default, list):
        return [_fresh(item, room) for item in cast("list[Any]", default)]
    return default
