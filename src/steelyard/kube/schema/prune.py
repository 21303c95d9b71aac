"""Removes the fields a schema does not know, which is what becomes of them in a stored object.

Below `x-kubernetes-preserve-unknown-fields` everything stays, except inside fields that are described again.
apiVersion, kind and metadata of an object, and of an object embedded in it, always stay; inside metadata the fields of
ObjectMeta do.
"""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.kube import objectmeta
from steelyard.kube.schema.model import Schema

_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_NOTHING: Final = Schema()


def prune(schema: Schema, value: Any, *, root: bool = True) -> list[str]:
    """Prunes in place; the paths of what was removed, sorted: `spec.foo`, `spec.list[0].bar`.

    `root` says that the value is a whole object and not a part of one.
    """
    removed: list[str] = []
    node = schema.resolve()
    if isinstance(value, dict):
        _prune_object(cast("dict[str, Any]", value), node, "", removed, root or node.embedded_resource)
    elif isinstance(value, list):
        _prune_array(cast("list[Any]", value), node, "", removed, node.preserve_unknown)
    removed.sort()
    return removed


def _prune_object(value: dict[str, Any], node: Schema, path: str, removed: list[str], is_object: bool) -> None:
    properties, additional, preserve = node.properties, node.additional, node.preserve_unknown
    unknown: list[str] = []
    for key, item in value.items():
        if is_object and key in _META:
            if key == "metadata" and type(item) is dict:
                meta = cast("dict[str, Any]", item)
                _prune_object(meta, objectmeta.SCHEMA, f"{path}.{key}" if path else key, removed, False)
            continue
        child = properties.get(key) or additional
        if child is None:
            if not preserve:
                unknown.append(key)
        elif type(item) is dict:
            inner = child.resolve()
            item_path = f"{path}.{key}" if path else key
            _prune_object(cast("dict[str, Any]", item), inner, item_path, removed, inner.embedded_resource)
        elif type(item) is list:
            inner = child.resolve()
            item_path = f"{path}.{key}" if path else key
            _prune_array(cast("list[Any]", item), inner, item_path, removed, inner.preserve_unknown)
    for key in unknown:
        del value[key]
        removed.append(f"{path}.{key}" if path else key)


def _prune_array(value: list[Any], node: Schema, path: str, removed: list[str], preserve: bool) -> None:
    if node.items is None and preserve:
        return
    inner = node.items.resolve() if node.items is not None else _NOTHING
    for index, item in enumerate(value):
        if type(item) is dict:
            entry = cast("dict[str, Any]", item)
            _prune_object(entry, inner, f"{path}[{index}]", removed, inner.embedded_resource)
        elif type(item) is list:
            _prune_array(cast("list[Any]", item), inner, f"{path}[{index}]", removed, inner.preserve_unknown)
