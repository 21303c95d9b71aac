"""Comparing and merging values field by field, as a schema's list and map types say.

All functions are pure: they take values and give new ones that share with their arguments whatever did not change.
Equal parts are skipped as a whole by comparing them, so that the cost of tracking a change follows the size of the
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.schema.model import MISSING
from steelyard.kube.server.apply import fieldset
from steelyard.kube.server.apply.fieldset import LEAF, SELF, Tree
from steelyard.kube.server.apply.shape import ATOMIC, Shape

_ABSENT: Final = object()


@frozen
class Comparison:
    """Which fields differ between two values; each field is in at most one of the three sets."""

    added: Tree
    modified: Tree
    removed: Tree

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)

    def without(self, ignored: Tree) -> Comparison:
        if not ignored:
            return self
        return Comparison(
            fieldset.recursive_difference(self.added, ignored),
            fieldset.recursive_difference(self.modified, ignored),
            fieldset.recursive_difference(self.removed, ignored),
        )


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values where 1 and 1.0 are equal but 1 and true are not, as they are for Python."""
    kind = left.__class__
    if kind is dict:
        return right.__class__ is dict and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if kind is list:
        return right.__class__ is list and len(left) == len(right) and all(map(same, left, right))
    return left == right and (kind is bool) is (right.__class__ is bool)


def element_of(shape: Shape, item: Any) -> str | None:
    """The path element of a list's item; None where the item has no key, or is of a type that cannot have one."""
    if shape.list_type == "set":
        return None if item is None or type(item) in (dict, list) else fieldset.value_element(item)
    if type(item) is not dict:
        return None
    keys = shape.keys
    if len(keys) == 1:
        name, default = keys[0]
        value = cast(Object, item).get(name, default)
        if value is MISSING or type(value) in (dict, list):
            return None
        return fieldset.key_element(name, value)
    found: Object = {}
    for name, default in keys:
        value = cast(Object, item).get(name, default)
        if value is not MISSING:
            found[name] = value
    return fieldset.keys_element(found) if found else None


def elements(shape: Shape, items: Sequence[Any]) -> list[str] | None:
    """The path elements of all items of a merging list; None if one of them has none."""
    found: list[str] = []
    for item in items:
        element = element_of(shape, item)
        if element is None:
            return None
        found.append(element)
    return found


def to_fieldset(shape: Shape, value: Object) -> Tree:
    """Every leaf field and list item that the value mentions."""
    return _map_fields(shape, value)


def _map_fields(shape: Shape, value: Object) -> Tree:
    element = shape.element or ATOMIC
    tree: Tree = {}
    for name in sorted(value):
        field = value[name]
        kind = field.__class__
        if kind is dict:
            child = shape.declared(name)
            if child is None:
                node = _map_fields(element, field) if field and element.merges_map else LEAF
                tree["f:" + name] = {SELF: LEAF, **node} if node else LEAF
                continue
            if field and child.merges_map:
                node = _map_fields(child, field)
                if node:
                    tree["f:" + name] = node
                continue
        elif kind is list:
            child = shape.declared(name)
            shape_of_list = child or element
            if shape_of_list.merges_list:
                node = _list_fields(shape_of_list, field)
                if child is None:
                    tree["f:" + name] = {SELF: LEAF, **node} if node else LEAF
                elif node:
                    tree["f:" + name] = node
                continue
        tree["f:" + name] = LEAF
    return tree


def _list_fields(shape: Shape, items: list[Any]) -> Tree:
    found = elements(shape, items)
    if found is None:
        return LEAF
    child = shape.item
    tree: Tree = {}
    for element, item in zip(found, items, strict=True):
        if element in tree:
            tree[element] = LEAF
            continue
        node = _map_fields(child, cast(Object, item)) if type(item) is dict and child.merges_map else LEAF
        tree[element] = {SELF: LEAF, **node} if node else LEAF
    return fieldset.ordered(tree)


def every_field(shape: Shape, value: Any) -> Tree:
    """The node of a value that was added or removed as a whole: itself, and every field and item below it."""
    kind = value.__class__
    if kind is dict and value and shape.merges_map:
        return {SELF: LEAF, **_every_in_map(shape, value)}
    if kind is list and value and shape.merges_list:
        return {SELF: LEAF, **_every_in_list(shape, value)}
    return LEAF


def _every_in_map(shape: Shape, value: Object) -> Tree:
    return {"f:" + name: every_field(shape.child(name), value[name]) for name in sorted(value)}


def _every_in_list(shape: Shape, items: list[Any]) -> Tree:
    found = elements(shape, items) or []
    tree: Tree = {}
    child = shape.item
    for element, item in zip(found, items, strict=bool(found)):
        tree[element] = LEAF if element in tree else every_field(child, item)
    return fieldset.ordered(tree)


def compare(shape: Shape, old: Object, new: Object) -> Comparison:
    added: Tree = {}
    modified: Tree = {}
    removed: Tree = {}
    _compare_maps(shape, old, new, added, modified, removed)
    return Comparison(fieldset.ordered(added), fieldset.ordered(modified), fieldset.ordered(removed))


def _compare_maps(shape: Shape, old: Object, new: Object, added: Tree, modified: Tree, removed: Tree) -> None:
    for name, after in new.items():
        before = old.get(name, _ABSENT)
        if before is after:
            continue
        if before is _ABSENT:
            added["f:" + name] = every_field(shape.child(name), after)
        elif before != after or (shape.ambiguous and shape.child(name).ambiguous and not same(before, after)):
            _compare(shape.child(name), before, after, "f:" + name, added, modified, removed)
    if len(old) + len(added) != len(new):
        for name, before in old.items():
            if name not in new:
                removed["f:" + name] = every_field(shape.child(name), before)


def _compare(shape: Shape, old: Any, new: Any, element: str, added: Tree, modified: Tree, removed: Tree) -> None:
    """Compares two values that are both present and differ, and adds what it finds below the parent's element."""
    before = old.__class__
    after = new.__class__
    below: tuple[Tree, Tree, Tree] = ({}, {}, {})
    if (before is dict or after is dict) and shape.merges_map:
        if before not in (dict, type(None)) or after not in (dict, type(None)):
            modified[element] = LEAF
        elif not old and not new:
            modified[element] = LEAF
            return
        _compare_maps(shape, old if before is dict else {}, new if after is dict else {}, *below)
    elif (before is list or after is list) and shape.merges_list:
        if before not in (list, type(None)) or after not in (list, type(None)):
            modified[element] = LEAF
        elif not old and not new:
            modified[element] = LEAF
            return
        if not _compare_lists(shape, old if before is list else [], new if after is list else [], *below):
            modified[element] = LEAF
            return
    else:
        modified[element] = LEAF
        return
    for tree, found in zip((added, modified, removed), below, strict=True):
        if found:
            node = fieldset.ordered(found)
            tree[element] = {SELF: LEAF, **node} if element in tree else node


def _compare_lists(shape: Shape, old: list[Any], new: list[Any], added: Tree, modified: Tree, removed: Tree) -> bool:
    """Whether the lists could be compared item by item."""
    old_elements, new_elements = elements(shape, old), elements(shape, new)
    if old_elements is None or new_elements is None:
        return False
    befores = dict(zip(old_elements, old, strict=True))
    afters = dict(zip(new_elements, new, strict=True))
    if len(befores) != len(old) or len(afters) != len(new):
        _compare_with_duplicates(shape, (old_elements, old), (new_elements, new), added, modified, removed)
        return True
    child = shape.item
    for element, after in afters.items():
        before = befores.get(element, _ABSENT)
        if before is _ABSENT:
            added[element] = every_field(child, after)
        elif before != after or (child.ambiguous and not same(before, after)):
            _compare(child, before, after, element, added, modified, removed)
    for element, before in befores.items():
        if element not in afters:
            removed[element] = every_field(child, before)
    return True


def _compare_with_duplicates(
    shape: Shape,
    old: tuple[list[str], list[Any]],
    new: tuple[list[str], list[Any]],
    added: Tree,
    modified: Tree,
    removed: Tree,
) -> None:
    """Items that share a key count as one leaf, from when there are several until there is one again."""
    befores, afters = _grouped(*old), _grouped(*new)
    child = shape.item
    for element in dict.fromkeys((*befores, *afters)):
        before, after = befores.get(element, []), afters.get(element, [])
        if len(before) <= 1 and len(after) <= 1:
            if not before:
                added[element] = every_field(child, after[0])
            elif not after:
                removed[element] = every_field(child, before[0])
            elif before != after:
                _compare(child, before[0], after[0], element, added, modified, removed)
        elif len(before) >= 2 and len(after) >= 2:
            if before != after:
                modified[element] = LEAF
        elif len(before) >= 2:
            if after:
                added[element] = every_field(child, after[0])
            removed[element] = LEAF
        else:
            if before:
                removed[element] = every_field(child, before[0])
            added[element] = LEAF


def _grouped(found: list[str], items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for element, item in zip(found, items, strict=True):
        groups.setdefault(element, []).append(item)
    return groups


def merge(shape: Shape, live: Object, applied: Object) -> Object:
    """The live value with everything that the applied one mentions; nothing is removed."""
    return _merge_maps(shape, live, applied)


def _merge_maps(shape: Shape, live: Object, applied: Object) -> Object:
    merged: Object | None = None
    for name, value in applied.items():
        current = live.get(name, _ABSENT)
        if current is _ABSENT:
            result = value
        else:
            result = _merge(shape.child(name), current, value)
            if result is current:
                continue
        if merged is None:
            merged = live.copy()
        merged[name] = result
    return live if merged is None else merged


def _merge(shape: Shape, live: Any, applied: Any) -> Any:
    before = live.__class__
    after = applied.__class__
    if before is after and live == applied and (not shape.ambiguous or same(live, applied)):
        return live
    if before is dict and live and shape.merges_map:
        if after is dict:
            return _merge_maps(shape, live, applied)
        if applied is None:
            # An applied null owns the map and leaves its entries to others; so it is with a list.
            return live
    elif before is list and live and shape.merges_list:
        if after is list:
            return _merge_lists(shape, live, applied) if applied else live
        if applied is None and not shape.is_map:
            return live
    return applied


def _merge_lists(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    """Items of the live list keep their place; the applied list decides the order of those that are in both."""
    live_elements, applied_elements = elements(shape, live), elements(shape, applied)
    if live_elements is None or applied_elements is None:
        return applied
    ours: dict[str, Any] = {}
    for element, item in zip(live_elements, live, strict=True):
        # An item that is there twice cannot be told apart, so the applied one takes the place of all.
        ours[element] = None if element in ours else item
    theirs = dict(zip(applied_elements, applied, strict=True))
    child = shape.item

    def merged_item(element: str) -> Any:
        current = ours.get(element)
        return theirs[element] if current is None else _merge(child, current, theirs[element])

    shared = [element for element in applied_elements if element in ours]
    next_shared = 0
    merged: list[Any] = []
    done: set[str] = set()
    at_live = at_applied = 0
    while at_live < len(live) or at_applied < len(applied):
        if at_live < len(live) and at_applied < len(applied):
            element = live_elements[at_live]
            if element == applied_elements[at_applied]:
                done.add(element)
                merged.append(merged_item(element))
                at_live += 1
                at_applied += 1
                next_shared += 1
                continue
            if element in theirs and next_shared < len(shared) and shared[next_shared] != element:
                at_live += 1
                continue
        if at_live < len(live):
            element = live_elements[at_live]
            if element not in theirs:
                merged.append(live[at_live])
                at_live += 1
                continue
            if element in done:
                at_live += 1
        if at_applied < len(applied):
            element = applied_elements[at_applied]
            done.add(element)
            merged.append(merged_item(element))
            at_applied += 1
            if next_shared < len(shared) and shared[next_shared] == element:
                next_shared += 1
    unchanged = len(merged) == len(live) and all(map(_is, merged, live))
    return live if unchanged else merged


def _is(left: Any, right: Any) -> bool:
    return left is right
