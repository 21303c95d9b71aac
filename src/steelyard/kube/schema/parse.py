"""OpenAPI v3 schemas, as CRDs carry them, into `Schema` trees.

Parsing is lenient and takes what makes no sense as absent: whether a schema is structural is judged by
`structural.check` when the CRD is written, so that everything stored parses. Keywords that do nothing for an object
(title, description, example, externalDocs) are skipped. CEL rules are kept as text; `rules` compiles them when first
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.schema.model import MISSING, Rule, Schema

_SCALARS: Final = (str, bool, int, float)
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean")


def from_openapi(document: Mapping[str, Any]) -> Schema:
    """The schema of a value, e.g. the `openAPIV3Schema` of a CRD's version.

    >>> from_openapi({"type": "object", "properties": {"size": {"type": "integer"}}}).properties["size"].type
    'integer'
    """
    known: dict[str, Any] = {}
    for keyword, value in document.items():
        reader = _READERS.get(keyword)
        if reader is not None:
            known[reader[0]] = reader[1](value)
    return Schema(**known)


def _rules(validations: Any) -> tuple[Rule, ...]:
    """The CEL rules that a node's `x-kubernetes-validations` hold."""
    return tuple(_rule(objects.mapping(each)) for each in objects.sequence(validations))


def _rule(document: Mapping[str, Any]) -> Rule:
    def text(key: str) -> str:
        value = document.get(key)
        return value if isinstance(value, str) else ""

    return Rule(
        text("rule"),
        text("message"),
        text("messageExpression"),
        text("reason"),
        text("fieldPath"),
        document.get("optionalOldSelf") is True,
    )


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_true(value: Any) -> bool:
    return value is True


def _text(value: Any) -> str:
    return str(value or "")


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, objects.sequence(value)))


def _type(value: Any) -> str:
    return value if value in _TYPES else ""


def _properties(value: Any) -> dict[str, Schema]:
    """Fields that are described alike, as most are in a definition with very many, share one node."""
    known: dict[tuple[Any, ...], Schema] = {}
    found: dict[str, Schema] = {}
    for name, schema in objects.mapping(value).items():
        document = objects.mapping(schema)
        alike = _plain(document)
        if alike is None:
            found[str(name)] = from_openapi(document)
        else:
            found[str(name)] = known.get(alike) or known.setdefault(alike, from_openapi(document))
    return found


def _plain(document: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What a node without others in it says; None for one with others."""
    said = tuple((word, value.__class__, value) for word, value in document.items() if word in _READERS)
    return said if all(kind in _SCALARS for _, kind, _ in said) else None


def _one(value: Any) -> Schema | None:
    return from_openapi(cast("Mapping[str, Any]", value)) if isinstance(value, dict) else None


def _several(value: Any) -> tuple[Schema, ...]:
    return tuple(from_openapi(objects.mapping(schema)) for schema in objects.sequence(value))


def _additional(value: Any) -> Schema | None:
    """`true` allows any value but describes none: objects inside it are pruned to nothing, as upstream does."""
    return Schema() if value is True else _one(value)


def _default(value: Any) -> Any:
    return MISSING if value is None else value


def _enum(value: Any) -> tuple[Any, ...] | None:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) and value else None


def _list_type(value: Any) -> str:
    return value if value in ("set", "map") else "atomic"


def _map_type(value: Any) -> str:
    return "atomic" if value == "atomic" else "granular"


_READERS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "type": ("type", _type),
    "properties": ("properties", _properties),
    "additionalProperties": ("additional", _additional),
    "items": ("items", _one),
    "required": ("required", _texts),
    "nullable": ("nullable", _is_true),
    "default": ("default", _default),
    "x-kubernetes-preserve-unknown-fields": ("preserve_unknown", _is_true),
    "x-kubernetes-int-or-string": ("int_or_string", _is_true),
    "x-kubernetes-embedded-resource": ("embedded_resource", _is_true),
    "enum": ("enum", _enum),
    "format": ("format", _text),
    "pattern": ("pattern", _text),
    "minimum": ("minimum", _number),
    "maximum": ("maximum", _number),
    "exclusiveMinimum": ("exclusive_minimum", _is_true),
    "exclusiveMaximum": ("exclusive_maximum", _is_true),
    "multipleOf": ("multiple_of", _number),
    "minLength": ("min_length", _number),
    "maxLength": ("max_length", _number),
    "minItems": ("min_items", _number),
    "maxItems": ("max_items", _number),
    "uniqueItems": ("unique_items", _is_true),
    "minProperties": ("min_properties", _number),
    "maxProperties": ("max_properties", _number),
    "allOf": ("all_of", _several),
    "anyOf": ("any_of", _several),
    "oneOf": ("one_of", _several),
    "not": ("negated", _one),
    "x-kubernetes-list-type": ("list_type", _list_type),
    "x-kubernetes-list-map-keys": ("list_map_keys", _texts),
    "x-kubernetes-map-type": ("map_type", _map_type),
    "x-kubernetes-validations": ("rules", _rules),
}
"""By keyword: the field of `Schema`, and how its value is read. Most nodes have three or four of them."""
