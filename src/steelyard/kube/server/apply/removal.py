"""Taking fields out of a value by a set of fields: how an applied configuration that shrinks shrinks the object.

Who calls it: `apply.py`, once a manager applied less than the time before; then correctness matters and speed does not.
"""

from __future__ import annotations

from typing import Any, cast

from steelyard.kube.objects import Object
from steelyard.kube.server.apply import fieldset, typed
from steelyard.kube.server.apply.fieldset import LEAF, SELF, Tree
from steelyard.kube.server.apply.shape import Shape


def remove(shape: Shape, value: Object, fields: Tree) -> Object:
    """The value without the members of the set. A map or list that loses all it has becomes null, which built-in kinds
    read as absent and most schemas of custom resources refuse."""
    return cast(Object, _remove(shape, value, fields) or {})


def _remove(shape: Shape, value: Any, fields: Tree) -> Any:
    """What is left of a value below which the set has members."""
    kind = value.__class__
    if kind is dict and shape.is_map:
        return (_remove_from_map(shape, value, fields) or None) if shape.merges_map else None
    if kind is list and shape.is_list:
        return (_remove_from_list(shape, value, fields) or None) if shape.merges_list else None
    return value


def _remove_from_map(shape: Shape, value: Object, fields: Tree) -> Object:
    kept: Object = {}
    for name, field in value.items():
        node = fields.get("f:" + name)
        if node is None:
            kept[name] = field
        elif node and SELF not in node:
            kept[name] = _remove(shape.child(name), field, node)
    return kept


def _remove_from_list(shape: Shape, items: list[Any], fields: Tree) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        element = typed.element_of(shape, item)
        node = fields.get(element) if element is not None else None
        if node is None:
            kept.append(item)
        elif node and SELF not in node:
            kept.append(_remove(shape.item, item, node))
    return kept


def prune(shape: Shape, merged: Object, last: Tree, managed: Tree) -> Object:
    """Removes from a merged object what its manager applied last time and nobody manages now.

    `managed` is everything that anyone manages, the manager's new configuration included. A field is gone only if the
    manager itself had applied it; one that somebody else owns stays, and so does one below it.
    """
    # Top-level fields do not depend on each other: only those from which something may go need a look.
    stale = fieldset.difference(last, managed)
    part = {name: value for name, value in merged.items() if "f:" + name in stale}
    if not part:
        return merged
    named_last = with_named_fields(shape, {element: last[element] for element in stale})
    named_managed = with_named_fields(shape, {element: managed[element] for element in stale if element in managed})
    in_merged = with_named_fields(shape, typed.to_fieldset(shape, part))
    without_last = cast(Object, _remove(shape, part, named_last) or {})
    keep = fieldset.union(with_named_fields(shape, typed.to_fieldset(shape, without_last)), named_managed)
    owned = cast(Object, _remove(shape, part, fieldset.difference(in_merged, keep)) or {})
    in_owned = with_named_fields(shape, typed.to_fieldset(shape, owned))
    gone = fieldset.intersection(fieldset.difference(in_merged, in_owned), named_last)
    return remove(shape, merged, gone) if gone else merged


def with_named_fields(shape: Shape, fields: Tree) -> Tree:
    """The set with the declared fields on the way to its members; entries of maps and items of lists are not added.

    A set that holds `spec.labels.app` gets `spec` and `spec.labels` too, where the schema declares these.
    """
    named: Tree = {}
    for element, node in fields.items():
        if not node or element == SELF:
            named[element] = node
            continue
        is_field = element.startswith("f:")
        child = shape.child(element[2:]) if is_field else shape.item
        below = with_named_fields(child, node)
        if is_field and SELF not in below and shape.is_map and shape.declared(element[2:]) is not None:
            below = {SELF: LEAF, **below}
        named[element] = below
    return named
