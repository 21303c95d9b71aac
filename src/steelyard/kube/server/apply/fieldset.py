"""Sets of fields of an object, as `metadata.managedFields` records them.

A set is kept in the very form it has on the wire (FieldsV1): a tree of dictionaries whose keys are path elements,
`f:<field>`, `k:<keys of a list item>`, `v:<value of a set item>`, `i:<index>`. A node `{}` is a member of the set; a
node with children is one too if it has the key `.`:

    {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}    holds metadata.labels and metadata.labels.app

so that reading and writing cost nothing and all operations work on plain dictionaries. Trees are immutable and share
structure: no operation changes its operands. Every tree made here has its keys in upstream's order; one that comes
from outside passes through `FieldSet.from_json`, which checks it and brings it into that form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final, TypeAlias, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import remembering
from steelyard.kube.objects import Object

Tree: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]
"""Path elements from the root, e.g. `("f:spec", "f:replicas")`."""

SELF: Final = "."
LEAF: Final[Tree] = {}
_MAX_DEPTH: Final = 200


class InvalidFields(ValueError):
    """A FieldsV1 document that is not one."""


@frozen
class FieldSet:
    """An immutable set of fields."""

    tree: Tree = field(default_factory=dict[str, Any])

    @staticmethod
    def of(*paths: tuple[str, ...]) -> FieldSet:
        """A set of paths that consist of field names: `FieldSet.of(("metadata", "name"), ("status",))`."""
        tree: Tree = LEAF
        for path in paths:
            node: Tree = LEAF
            for name in reversed(path):
                node = {f"f:{name}": node}
            tree = union(tree, node)
        return FieldSet(tree)

    @staticmethod
    def from_json(fields: Any) -> FieldSet:
        """The set that a FieldsV1 document describes; raises InvalidFields. Unknown kinds of elements are dropped."""
        return FieldSet(_parse(fields, 0))

    def to_json(self) -> Object:
        return self.tree

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __contains__(self, path: Path) -> bool:
        node = self.tree
        for element in path:
            found = node.get(element)
            if found is None:
                return False
            node = cast(Tree, found)
        return bool(path) and (not node or SELF in node)

    def union(self, other: FieldSet) -> FieldSet:
        return FieldSet(union(self.tree, other.tree))

    def intersection(self, other: FieldSet) -> FieldSet:
        return FieldSet(intersection(self.tree, other.tree))

    def difference(self, other: FieldSet) -> FieldSet:
        return FieldSet(difference(self.tree, other.tree))

    def recursive_difference(self, other: FieldSet) -> FieldSet:
        return FieldSet(recursive_difference(self.tree, other.tree))

    def leaves(self) -> FieldSet:
        """The members that have no member below them."""
        return FieldSet(_leaves(self.tree))

    def paths(self) -> Iterator[Path]:
        """All members; at each level first its members in order, then what lies below them."""
        return _paths(self.tree, ())


def union(left: Tree, right: Tree) -> Tree:
    if not left or left is right:
        return right
    if not right:
        return left
    return _union(left, right)


def _union(left: Tree, right: Tree) -> Tree:
    if left is right:
        return left
    if not left:
        return right if SELF in right or not right else {SELF: LEAF, **right}
    if not right:
        return left if SELF in left else {SELF: LEAF, **left}
    merged: Tree | None = None
    grown = False
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None:
            node = theirs
            grown = True
        else:
            node = _union(ours, theirs)
            if node is ours:
                continue
        if merged is None:
            merged = left.copy()
        merged[element] = node
    if merged is None:
        return left
    return ordered(merged) if grown else merged


def difference(left: Tree, right: Tree) -> Tree:
    """What is in `left` and not in `right`; taking a parent away leaves its children, and the other way round."""
    if not left or not right:
        return left
    return _difference(left, right) or LEAF


def _difference(left: Tree, right: Tree) -> Tree | None:
    """As `difference` of two nodes that are below the root, where an empty node is a member; None is the empty set."""
    if left is right:
        return None
    if not left:
        return None if not right or SELF in right else left
    if not right:
        if SELF not in left:
            return left
        return {element: node for element, node in left.items() if element != SELF}
    kept: Tree | None = None
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None:
            continue
        node = None if element == SELF else _difference(ours, theirs)
        if node is ours:
            continue
        if kept is None:
            kept = left.copy()
        if node is None:
            del kept[element]
        else:
            kept[element] = node
    return left if kept is None else _settled(kept)


def _settled(node: Tree) -> Tree | None:
    """A node after removals: nothing left is None, only itself left is a leaf."""
    if not node:
        return None
    return LEAF if len(node) == 1 and SELF in node else node


def recursive_difference(left: Tree, right: Tree) -> Tree:
    """What is in `left` and neither in `right` nor below a member of it."""
    if not left or not right:
        return left
    return _recursive_difference(left, right) or LEAF


def _recursive_difference(left: Tree, right: Tree) -> Tree | None:
    kept: Tree | None = None
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None or element == SELF:
            continue
        if not theirs or SELF in theirs:
            node = None
        elif not ours:
            continue
        else:
            node = _recursive_difference(ours, theirs)
        if node is ours:
            continue
        if kept is None:
            kept = left.copy()
        if node is None:
            del kept[element]
        else:
            kept[element] = node
    return left if kept is None else _settled(kept)


def intersection(left: Tree, right: Tree) -> Tree:
    if not left or not right:
        return LEAF
    return _intersection(left, right) or LEAF


def _intersection(left: Tree, right: Tree) -> Tree | None:
    if left is right:
        return left
    if not left:
        return left if not right or SELF in right else None
    if not right:
        return right if SELF in left else None
    smaller, larger = (left, right) if len(left) <= len(right) else (right, left)
    common: Tree = {}
    for element, ours in smaller.items():
        theirs = larger.get(element)
        if theirs is None:
            continue
        if element == SELF:
            common[SELF] = LEAF
            continue
        node = _intersection(ours, theirs)
        if node is not None:
            common[element] = node
    return _settled(common)


def _leaves(tree: Tree) -> Tree:
    return {element: _leaves(node) if node else node for element, node in tree.items() if element != SELF}


def _paths(tree: Tree, prefix: Path) -> Iterator[Path]:
    for element, node in tree.items():
        if element != SELF and (not node or SELF in node):
            yield (*prefix, element)
    for element, node in tree.items():
        if node:
            yield from _paths(node, (*prefix, element))


def ordered(tree: Tree) -> Tree:
    """The same node with its keys in upstream's order."""
    if len(tree) < 2:
        return tree
    for element in tree:
        if element[0] != "f" and element != SELF:
            return {element: tree[element] for element in sorted(tree, key=_rank)}
    # Field names compare as they are, and the dot comes before them.
    return {element: tree[element] for element in sorted(tree)}


@remembering.briefly(2048, 128)
def _rank(element: str) -> tuple[Any, ...]:
    kind, text = element[0], element[2:]
    if element == SELF:
        return (-1,)
    if kind == "f":
        return (0, text)
    if kind == "k":
        return (1, tuple((name, *_value_rank(value)) for name, value in sorted(orjson.loads(text).items())))
    if kind == "v":
        return (2, *_value_rank(orjson.loads(text)))
    return (3, int(text))


def _value_rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, orjson.dumps(value))


@remembering.briefly(2048, 128)
def value_element(value: str | int | float | bool) -> str:
    """The path element of an item of a set."""
    return "v:" + orjson.dumps(value).decode()


@remembering.briefly(2048, 128)
def key_element(name: str, value: str | int | float | bool | None) -> str:
    """The path element of a list item with a single key."""
    return "k:" + orjson.dumps({name: value}).decode()


def keys_element(keys: Object) -> str:
    """The path element of a list item with several keys."""
    return "k:" + orjson.dumps(keys, option=orjson.OPT_SORT_KEYS).decode()


def text(path: Path) -> str:
    """How messages write a path: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    kind, rest = element[0], element[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = cast(Object, orjson.loads(rest))
        return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in sorted(keys.items())) + "]"
    if kind == "v":
        return f"[={_value_text(orjson.loads(rest))}]"
    return f"[{rest}]"


def _value_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(fields: Any, depth: int) -> Tree:
    if type(fields) is not dict:
        raise InvalidFields(f"expected an object of path elements, got {type(fields).__name__}")
    if depth > _MAX_DEPTH:
        raise InvalidFields("nested too deeply")
    tree: Tree = {}
    for element, node in cast(Object, fields).items():
        if element == SELF:
            tree[SELF] = LEAF
            continue
        canonical = element if element[:2] == "f:" else _canonical(element)
        if canonical is not None:
            tree[canonical] = _parse(node, depth + 1) if node else _parse_leaf(node)
    if depth == 0:
        tree.pop(SELF, None)
    elif len(tree) == 1 and SELF in tree:
        return LEAF
    return ordered(tree)


def _parse_leaf(node: Any) -> Tree:
    if node is None or node == {}:
        return LEAF
    raise InvalidFields(f"expected an object of path elements, got {type(node).__name__}")


def _canonical(element: str) -> str | None:
    """A path element in the form this module writes; None for a kind that a later version may know."""
    if len(element) < 2:
        raise InvalidFields(f"key must be 2 characters long: {element}")
    if element[1] != ":":
        raise InvalidFields(f"missing colon: {element}")
    kind, rest = element[0], element[2:]
    if kind not in "kvi":
        return None
    try:
        if kind == "i":
            return f"i:{int(rest)}"
        value = orjson.loads(rest)
    except ValueError as error:
        raise InvalidFields(f"cannot parse path element {element}: {error}") from None
    if kind == "v":
        return "v:" + orjson.dumps(value).decode()
    if type(value) is not dict:
        raise InvalidFields(f"expected an object of keys: {element}")
    return keys_element(cast(Object, value))
