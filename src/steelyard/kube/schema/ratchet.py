"""Which complaints an update need not answer for: those about values it did not change.

Fields correlate by name, entries of a map-type list by their keys; entries of other lists do not correlate, so a change
anywhere in such a list makes all of it count as changed.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from steelyard.kube import effort, fields, objects
from steelyard.kube.schema.junctors import Findings
from steelyard.kube.schema.model import Schema

_MARK: Final = re.compile(r"[.\[]")


def without_unchanged(found: Findings, schema: Schema, value: Any, old: Any) -> Findings:
    unchanged: list[str] = []
    _collect(schema, value, old, "", unchanged)
    same = frozenset(unchanged)
    return Findings((node, cause) for node, cause in found if node not in same and not _is_inside(node, same))


def _is_inside(node: str, parts: frozenset[str]) -> bool:
    """Whether the path leads into one of the parts."""
    for mark in _MARK.finditer(node):
        effort.spend(mark.start())
        if node[: mark.start()] in parts:
            return True
    return False


def _collect(schema: Schema, value: Any, old: Any, path: str, unchanged: list[str]) -> None:
    """Adds the paths of the largest unchanged parts. The root never counts: its version and kind are not comparable."""
    if path and objects.same(value, old):
        unchanged.append(path)
        return
    node = schema.resolve()
    if isinstance(value, dict) and isinstance(old, dict):
        before = cast("dict[str, Any]", old)
        for key, item in cast("dict[str, Any]", value).items():
            child = node.child(key)
            if child is not None and key in before and (path or key not in ("apiVersion", "kind")):
                inner = fields.child(path, key) if key in node.properties else f"{path}.{key}"
                _collect(child, item, before[key], inner, unchanged)
    elif isinstance(value, list) and isinstance(old, list) and node.list_type == "map" and node.items is not None:
        by_key = {_key(node, entry): entry for entry in cast("list[Any]", old)}
        for index, item in enumerate(cast("list[Any]", value)):
            key = _key(node, item)
            if key in by_key:
                _collect(node.items, item, by_key[key], f"{path}[{index}]", unchanged)


def _key(node: Schema, entry: Any) -> tuple[str, ...]:
    values = objects.mapping(entry)
    return tuple(repr(values.get(key)) for key in node.list_map_keys)
