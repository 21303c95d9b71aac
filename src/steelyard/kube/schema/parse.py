"""OpenAPI v3 schemas, as CRDs carry them, into `Schema` trees.

Parsing is lenient and takes what makes no sense as absent: whether a schema is structural is judged by
`structural.check` when the CRD is written, so that everything stored parses. Keywords that do nothing for an object
(title, example, externalDocs) are skipped. CEL rules are kept as text; `rules` compiles them when first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.schema.model import MISSING, ListType, Rule, Schema

_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean")


def from_openapi(document: Mapping[str, Any]) -> Schema:
    """The schema of a value, e.g. the `openAPIV3Schema` of a CRD's version.

    >>> from_openapi({"type": "object", "properties": {"size": {"type": "integer"}}}).properties["size"].type
    'integer'
    """
    get = document.get
    type_ = get("type")
    properties = objects.mapping(get("properties"))
    list_type = get("x-kubernetes-list-type")
    default = get("default")
    enum = get("enum")
    return Schema(
        type=type_ if type_ in _TYPES else "",
        properties={str(name): from_openapi(objects.mapping(schema)) for name, schema in properties.items()},
        additional=_additional(get("additionalProperties")),
        items=from_openapi(cast("Mapping[str, Any]", get("items"))) if isinstance(get("items"), dict) else None,
        required=tuple(map(str, objects.sequence(get("required")))),
        nullable=get("nullable") is True,
        default=MISSING if default is None else default,
        preserve_unknown=get("x-kubernetes-preserve-unknown-fields") is True,
        int_or_string=get("x-kubernetes-int-or-string") is True,
        embedded_resource=get("x-kubernetes-embedded-resource") is True,
        enum=tuple(cast("list[Any]", enum)) if isinstance(enum, list) and enum else None,
        format=str(get("format") or ""),
        pattern=str(get("pattern") or ""),
        minimum=_number(get("minimum")),
        maximum=_number(get("maximum")),
        exclusive_minimum=get("exclusiveMinimum") is True,
        exclusive_maximum=get("exclusiveMaximum") is True,
        multiple_of=_number(get("multipleOf")),
        min_length=_number(get("minLength")),
        max_length=_number(get("maxLength")),
        min_items=_number(get("minItems")),
        max_items=_number(get("maxItems")),
        unique_items=get("uniqueItems") is True,
        min_properties=_number(get("minProperties")),
        max_properties=_number(get("maxProperties")),
        all_of=_several(get("allOf")),
        any_of=_several(get("anyOf")),
        one_of=_several(get("oneOf")),
        negated=from_openapi(cast("Mapping[str, Any]", get("not"))) if isinstance(get("not"), dict) else None,
        list_type=cast(ListType, list_type) if list_type in ("set", "map") else "atomic",
        list_map_keys=tuple(map(str, objects.sequence(get("x-kubernetes-list-map-keys")))),
        map_type="atomic" if get("x-kubernetes-map-type") == "atomic" else "granular",
        description=str(get("description") or ""),
        rules=rules_of(document),
    )


def rules_of(document: Mapping[str, Any]) -> tuple[Rule, ...]:
    found = document.get("x-kubernetes-validations")
    if not found:
        return ()
    return tuple(_rule(objects.mapping(each)) for each in objects.sequence(found))


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


def _several(value: Any) -> tuple[Schema, ...]:
    return tuple(from_openapi(objects.mapping(schema)) for schema in objects.sequence(value))


def _additional(value: Any) -> Schema | None:
    """`true` allows any value but describes none: objects inside it are pruned to nothing, as upstream does."""
    if value is True:
        return Schema()
    return from_openapi(cast("Mapping[str, Any]", value)) if isinstance(value, dict) else None
