"""The schema tree that validation, pruning, defaulting, server-side apply and strategic merge walk.

Custom resources get theirs from the CRD (`parse.from_openapi`), built-in kinds from the tables in `kube/builtin`. A
built-in type may refer to itself (JSONSchemaProps does), so children are reached through `resolve`, which a
table-backed schema fills in on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from steelyard.frozen import frozen

MISSING: Final = object()
"""Stands for "no default"; null can be one."""

ListType = Literal["atomic", "set", "map"]
MapType = Literal["granular", "atomic"]


@frozen
class Rule:
    """A CEL rule (`x-kubernetes-validations`) as the definition has it."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool = False


@dataclass(slots=True)
class Schema:
    """One node. `type` is empty where any JSON value is allowed (preserve-unknown-fields, int-or-string)."""

    type: Literal["", "object", "array", "string", "integer", "number", "boolean"] = ""
    properties: dict[str, Schema] = field(default_factory=dict[str, "Schema"])
    additional: Schema | None = None
    """Schema of the values of a map (`additionalProperties`)."""
    items: Schema | None = None
    required: tuple[str, ...] = ()
    empty_is_absent: bool = False
    """An empty text or null is as good as none: Go cannot tell them apart. Built-in kinds only."""
    nullable: bool = False
    default: Any = MISSING
    preserve_unknown: bool = False
    int_or_string: bool = False
    embedded_resource: bool = False
    enum: tuple[Any, ...] | None = None
    format: str = ""
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    negated: Schema | None = None
    list_type: ListType = "atomic"
    list_map_keys: tuple[str, ...] = ()
    map_type: MapType = "granular"
    patch_strategy: tuple[str, ...] = ()
    """Strategic merge: some of "merge", "replace", "retainKeys". Only built-in kinds have it."""
    patch_merge_key: str = ""
    rules: tuple[Rule, ...] = ()
    reference: Callable[[], Schema] | None = None
    """Set on a node that stands for a named type; `resolve()` gives that type's node."""
    compiled: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False, compare=False)
    """What others prepared for this node on first use, by their name: the modules of this package, and apply."""

    def resolve(self) -> Schema:
        return self.reference() if self.reference is not None else self

    def child(self, key: str) -> Schema | None:
        """The schema of a field or of a map's value; None if the schema knows none for this key."""
        node = self.resolve()
        found = node.properties.get(key) or node.additional
        return found.resolve() if found is not None else None

    def item(self) -> Schema | None:
        node = self.resolve()
        return node.items.resolve() if node.items is not None else None


ANY: Final = Schema(preserve_unknown=True)
"""Accepts everything, keeps everything."""
