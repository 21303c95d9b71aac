"""What server-side apply needs to know of a schema: which maps and lists merge, and by which keys.

A `Shape` is made from a `Schema` on first use and kept; its children are made when first asked for, so that a kind
with a large schema costs only what its objects use. The rules are upstream's for custom resources: a map merges
unless it is atomic, a list is atomic unless it is a set or a map, and where a schema says nothing (unknown fields are
kept, an object has no properties) maps merge and lists are atomic.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, Literal, cast

from steelyard.kube import objectmeta
from steelyard.kube.schema.model import MISSING, ListType, Schema

Scalar = Literal["", "any", "number", "string", "boolean"]


class Shape:
    """How values of one place in a schema merge. An open type may be a map, a list and a scalar at once."""

    __slots__ = (
        "_ambiguities", "_element", "_fields", "_item", "_keys", "_preserve", "_properties", "_schema",
        "ambiguous", "is_list", "is_map", "list_type", "merges_list", "merges_map", "scalar",
    )  # fmt: skip

    def __init__(self, schema: Schema, preserve: bool, ambiguities: dict[int, bool]) -> None:
        schema = schema.resolve()
        self._schema = schema
        self._preserve = preserve or schema.preserve_unknown
        is_open = schema.type == "" or schema.int_or_string
        self.is_map: bool = is_open or schema.type == "object"
        self.is_list: bool = is_open or schema.type == "array"
        self.merges_map: bool = self.is_map and schema.map_type == "granular"
        self.list_type: ListType = schema.list_type
        if schema.list_type == "map" and not schema.list_map_keys:
            self.list_type = "atomic"
        self.merges_list: bool = self.is_list and self.list_type != "atomic"
        self.scalar: Scalar = _scalar(schema)
        self._ambiguities = ambiguities
        self.ambiguous: bool = self._preserve or _is_ambiguous(schema, ambiguities)
        """Whether 1 and true, which Python holds for equal, are both possible values somewhere in it."""
        self._properties = _with_object_meta(schema.properties) if schema.embedded_resource else schema.properties
        self._fields: dict[str, Shape] = {}
        self._element: Shape | None = None
        self._item: Shape | None = None
        self._keys: tuple[tuple[str, Any], ...] | None = None

    def declared(self, name: str) -> Shape | None:
        """The shape of a field that the schema declares."""
        known = self._fields.get(name)
        if known is None:
            child = self._properties.get(name)
            if child is not None:
                known = self._fields[name] = self._child(child)
        return known

    @property
    def element(self) -> Shape | None:
        """The shape of a field that is not declared; None where only declared fields are allowed."""
        if self._element is None:
            schema = self._schema
            if schema.additional is not None:
                self._element = self._child(schema.additional)
            elif self._preserve or not schema.properties:
                self._element = DEDUCED
        return self._element

    @property
    def item(self) -> Shape:
        if self._item is None:
            items = self._schema.items
            self._item = self._child(items) if items is not None else ATOMIC
        return self._item

    @property
    def keys(self) -> tuple[tuple[str, Any], ...]:
        """The key fields of the items of a list that is a map, in order of name, each with its default or MISSING."""
        if self._keys is None:
            item = self._schema.item()
            properties = item.properties if item is not None else {}
            names = sorted(self._schema.list_map_keys)
            self._keys = tuple((name, properties[name].default if name in properties else MISSING) for name in names)
        return self._keys

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key fields in the order of the schema."""
        return self._schema.list_map_keys

    def child(self, name: str) -> Shape:
        """The shape of a field; where the schema forbids the field, one that takes it as a whole."""
        return self.declared(name) or self.element or ATOMIC

    def _child(self, schema: Schema) -> Shape:
        resolved = schema.resolve()
        if resolved.map_type != schema.map_type and schema.map_type == "atomic":
            # A field may declare its own use of a named type atomic.
            resolved = _atomic(resolved)
        return Shape(resolved, self._preserve, self._ambiguities)


def _is_ambiguous(schema: Schema, known: dict[int, bool]) -> bool:
    """As `Shape.ambiguous`; `known` has the answers so far, by the schema's id. A type within itself counts as so."""
    schema = schema.resolve()
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = True
    if schema.type == "" or schema.preserve_unknown:
        known[id(schema)] = not schema.int_or_string
    elif schema.type != "object" or schema.properties or schema.additional is not None:
        below = (*schema.properties.values(), schema.additional, schema.items)
        known[id(schema)] = any(_is_ambiguous(child, known) for child in below if child is not None)
    return known[id(schema)]


def _atomic(schema: Schema) -> Schema:
    return Schema(type=schema.type, map_type="atomic", preserve_unknown=True)


def _scalar(schema: Schema) -> Scalar:
    if schema.int_or_string or schema.type == "":
        return "any"
    match schema.type:
        case "string":
            return "string" if schema.format in ("", "byte") else "any"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case _:
            return ""


_STRING: Final = Schema(type="string")
_OBJECT_META: Final = dataclasses.replace(
    objectmeta.SCHEMA, properties={**objectmeta.SCHEMA.properties, "managedFields": Schema(type="array")}
)
"""What managed fields look like inside does not matter here, and would make all metadata count as ambiguous."""


def _with_object_meta(properties: dict[str, Schema]) -> dict[str, Schema]:
    """Whatever a kind's schema says of metadata (a CRD may restrict the name), its fields are those of all objects."""
    return {"apiVersion": _STRING, "kind": _STRING, **properties, "metadata": _OBJECT_META}


DEDUCED: Final = Shape(Schema(preserve_unknown=True), preserve=True, ambiguities={})
"""Where the schema is silent: maps merge, lists are atomic."""

ATOMIC: Final = Shape(Schema(preserve_unknown=True, map_type="atomic"), preserve=True, ambiguities={})

_NAME: Final = "shape"


def of(schema: Schema) -> Shape:
    """The shape of whole objects of a kind: what the schema says, with the metadata that every object has."""
    known = schema.compiled.get(_NAME)
    if known is not None:
        return cast(Shape, known)
    root = schema.resolve()
    if root.properties or not root.preserve_unknown:
        with_meta = Schema(
            type="object",
            properties=_with_object_meta(root.properties),
            additional=root.additional,
            preserve_unknown=root.preserve_unknown or not root.properties,
        )
    else:
        with_meta = Schema(type="object", properties=_with_object_meta({}), preserve_unknown=True)
    # It goes with the schema: what was made of a definition must not outlive it.
    shape = schema.compiled[_NAME] = Shape(with_meta, preserve=False, ambiguities={})
    return shape
