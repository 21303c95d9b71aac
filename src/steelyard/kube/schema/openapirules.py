"""Rules that hold for every node of a CRD's OpenAPI schema, wherever it stands: keywords that are not supported, and
extensions that need each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, cast

from steelyard.frozen import frozen
from steelyard.kube import fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, rulepaths

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_META: Final = ("metadata", "kind", "apiVersion")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_JUNCTORS: Final = ("allOf", "oneOf", "anyOf")


@frozen
class _Place:
    """Where in the schema a node stands, as far as rules depend on it."""

    no_defaults: str = ""
    in_metadata: bool = False


def check(document: Object, path: str) -> list[Cause]:
    return _check(document, path, _Place(), is_root=True)


def _check(document: Object, path: str, place: _Place, *, is_root: bool = False) -> list[Cause]:
    found = [*_keywords(document, path, place), *_list_rules(document, path), *_cel_rules(document, path)]
    additional = document.get("additionalProperties")
    properties = objects.mapping(document.get("properties"))
    if additional is not None and properties and additional is not True:
        text = "additionalProperties and properties are mutual exclusive"
        found.append(fields.forbidden(f"{path}.additionalProperties", text))
    if isinstance(additional, dict):
        inner = place
        if place.in_metadata:
            inner = replace(place, no_defaults="inside additionalProperties applying to object metadata")
        found += _check(objects.mapping(additional), f"{path}.additionalProperties", inner)
    for name, child in properties.items():
        inner = place
        if (is_root or document.get("x-kubernetes-embedded-resource") is True) and name in _META:
            inner = _Place(f"in top-level {name}" if is_root else place.no_defaults, in_metadata=True)
        found += _check(objects.mapping(child), f"{path}.properties[{name}]", inner)
    if isinstance(document.get("not"), dict):
        found += _check(objects.mapping(document["not"]), f"{path}.not", place)
    for junctor in _JUNCTORS:
        for index, branch in enumerate(objects.sequence(document.get(junctor))):
            found += _check(objects.mapping(branch), f"{path}.{junctor}[{index}]", place)
    if isinstance(document.get("items"), dict):
        found += _check(objects.mapping(document["items"]), f"{path}.items", place)
    return found


def _keywords(document: Object, path: str, place: _Place) -> Iterable[Cause]:
    type_ = document.get("type")
    if type_ and type_ not in _TYPES:
        yield fields.not_supported(f"{path}.type", type_, _TYPES)
    if document.get("default") is not None and place.no_defaults:
        yield fields.forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for keyword in _UNSUPPORTED:
        if document.get(keyword):
            yield fields.forbidden(f"{path}.{keyword}", f"{keyword} is not supported")
    if type_ == "null":
        yield fields.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(document.get("items"), list):
        yield fields.forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_metadata and document.get("x-kubernetes-embedded-resource") is True:
        yield fields.forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if document.get("uniqueItems") is True:
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield fields.forbidden(f"{path}.uniqueItems", text)
    if document.get("x-kubernetes-preserve-unknown-fields") is False:
        yield fields.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    map_type = document.get("x-kubernetes-map-type")
    if map_type is not None:
        yield from _needs_type(document, "object", "x-kubernetes-map-type", path)
        if map_type not in ("atomic", "granular"):
            yield fields.not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))


def _needs_type(document: Object, wanted: str, extension: str, path: str) -> Iterable[Cause]:
    type_ = document.get("type")
    if type_ == wanted:
        return
    text = f"must be {wanted} if {extension} is specified"
    yield fields.invalid(f"{path}.type", type_, text) if type_ else fields.required(f"{path}.type", text)


def _list_rules(document: Object, path: str) -> Iterable[Cause]:
    list_type = document.get("x-kubernetes-list-type")
    keys = cast("list[str]", objects.sequence(document.get("x-kubernetes-list-map-keys")))
    place = f"{path}.x-kubernetes-list-type"
    if list_type is None:
        if keys:
            yield fields.required(place, "must be map if x-kubernetes-list-map-keys is non-empty")
        return
    items = objects.mapping(document.get("items"))
    if document.get("type") != "array":
        yield from _needs_type(document, "array", "x-kubernetes-list-type", path)
    elif list_type == "set":
        yield from _set_rules(items, path)
    if list_type not in ("atomic", "set", "map"):
        yield fields.not_supported(place, list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        yield fields.invalid(place, list_type, "must be map if x-kubernetes-list-map-keys is non-empty")
    if list_type in ("set", "map") and items.get("nullable") is True:
        text = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        yield fields.forbidden(f"{path}.items.nullable", text)
    if list_type == "map":
        yield from _map_rules(document, items, keys, path)


def _set_rules(items: Object, path: str) -> Iterable[Cause]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner_list, inner_map = items.get("x-kubernetes-list-type"), items.get("x-kubernetes-map-type")
    if items.get("type") == "array" and inner_list not in (None, "atomic"):
        yield fields.invalid(f"{path}.items.x-kubernetes-list-type", inner_list, text)
    if items.get("type") == "object" and inner_map != "atomic":
        yield fields.invalid(f"{path}.items.x-kubernetes-map-type", inner_map, text)


def _map_rules(document: Object, items: Object, keys: list[str], path: str) -> Iterable[Cause]:
    place = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield fields.required(place, "must not be empty if x-kubernetes-list-type is map")
    if document.get("items") is None:
        yield fields.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield fields.invalid(f"{path}.items.type", items.get("type") or "", text)
        return
    properties = objects.mapping(items.get("properties"))
    required = objects.sequence(items.get("required"))
    for index, key in enumerate(keys):
        if key in keys[:index]:
            yield fields.invalid(place, keys, "must not contain duplicate entries")
        if key not in properties:
            yield fields.invalid(place, keys, "entries must all be names of item properties")
            continue
        yield from _key_rules(objects.mapping(properties[key]), f"{path}.items.properties[{key}]", key in required)


def _key_rules(schema: Object, path: str, required: bool) -> Iterable[Cause]:
    type_ = schema.get("type")
    if type_ in ("array", "object"):
        text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield fields.invalid(f"{path}.type", type_, text)
    reason = "this property is in x-kubernetes-list-map-keys, so it"
    if not required and schema.get("default") is None:
        yield fields.required(f"{path}.default", f"{reason} must have a default or be a required property")
    if schema.get("nullable") is True:
        yield fields.forbidden(f"{path}.nullable", f"{reason} cannot be nullable")


def _cel_rules(document: Object, path: str) -> Iterable[Cause]:
    """The form of the rules; `rulechecks` looks at their expressions."""
    for index, entry in enumerate(objects.sequence(document.get("x-kubernetes-validations"))):
        rule = objects.mapping(entry)
        place = f"{path}.x-kubernetes-validations[{index}]"
        text, message = _text(rule.get("rule")), rule.get("message")
        if not text.strip():
            yield fields.required(f"{place}.rule", "rule is not specified")
        elif message and not _text(message).strip():
            yield fields.invalid(f"{place}.message", message, "must be non-empty if specified")
        elif "\n" in _text(message).strip():
            yield fields.invalid(f"{place}.message", message, "must not contain line breaks")
        elif "\n" in text.strip() and not message:
            yield fields.required(f"{place}.message", "message must be specified if rule contains line breaks")
        expression = _text(rule.get("messageExpression"))
        if expression and not expression.strip():
            text = "messageExpression must be non-empty if specified"
            yield fields.required(f"{place}.messageExpression", text)
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            yield fields.not_supported(f"{place}.reason", reason, _REASONS)
        within = _text(rule.get("fieldPath"))
        if within and not within.strip():
            yield fields.invalid(f"{place}.fieldPath", within, "must be non-empty if specified")
        if "\n" in within:
            yield fields.invalid(f"{place}.fieldPath", within, "must not contain line breaks")
        if within and rulepaths.normalise(within, parse.from_openapi(document)) is None:
            yield fields.invalid(f"{place}.fieldPath", within, "must be a valid path")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
