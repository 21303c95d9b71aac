"""Whether the schema of a CRD is one the server can work with: structural, complete, with valid defaults.

Structural means that the type of every field is said once, outside of allOf, anyOf, oneOf and not, so that pruning and
defaulting know what belongs where. `check` reports every place where a schema is not, with the path inside the CRD.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final

import orjson

from steelyard.kube import effort, fields, objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import openapirules, parse, patterns, prune, validate
from steelyard.kube.schema.model import MISSING, Schema

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_NESTED_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_TYPE_MISSING: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


_VOUCHED: Final[set[bytes]] = set()
"""Digests of schemas that need not be checked."""


def vouch(document: Object) -> None:
    """Says of a schema that nothing is wrong with it: for those of the program itself, which its tests check. Checking
    them, rules and all, takes a third of the time of a first start."""
    _VOUCHED.add(_digest(document))


def vouch_for(definition: Object) -> None:
    """Says so of the schemas of all versions of a CRD."""
    for version in map(objects.mapping, objects.sequence(objects.at(definition, "spec", "versions"))):
        vouch(objects.mapping(objects.at(version, "schema", "openAPIV3Schema")))


def _is_vouched_for(document: Object) -> bool:
    try:
        return _digest(document) in _VOUCHED
    except TypeError:
        return False  # it is nested too deeply to be written, let alone to be the program's own


def _digest(document: Object) -> bytes:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).digest()


def check(document: Object, path: str, *, is_known: bool = False) -> list[Cause]:
    """Everything that keeps the schema from being used; `path` is where it stands in the CRD.

    `is_known` says that the stored CRD has the same schema. It may take seconds, which are not the event loop's.
    """
    if _VOUCHED and _is_vouched_for(document):
        return []
    try:
        with effort.LIMITED.apart():
            return _check(document, path, is_known=is_known)
    except effort.Exhausted:
        return [fields.forbidden(path, "the schema takes too long to check")]


def _check(document: Object, path: str, *, is_known: bool) -> list[Cause]:
    shape = _invariants(document, "root", path)
    shape += _completeness(document, document, path, path)
    if shape:
        shape.sort(key=lambda cause: f"{cause.field}: {cause.message}")
        return shape + openapirules.check(document, path)
    schema = parse.from_openapi(document)
    found = _check_defaults(schema, path)
    described = openapirules.check(document, path)
    if not found and not described:
        from steelyard.kube.schema import rulechecks  # here: a start on definitions that are known needs no CEL

        found += rulechecks.check(schema, path, is_known=is_known)
    return found + described


def junctors(document: Object, path: str) -> Iterator[tuple[Object, str]]:
    """The schemas combined by allOf, anyOf, oneOf and not, with their paths."""
    for junctor in _JUNCTORS:
        for index, branch in enumerate(objects.sequence(document.get(junctor))):
            yield objects.mapping(branch), f"{path}.{junctor}[{index}]"
    if isinstance(document.get("not"), dict):
        yield objects.mapping(document["not"]), f"{path}.not"


def _invariants(document: Object, level: str, path: str) -> list[Cause]:
    found: list[Cause] = []
    type_ = str(document.get("type") or "")
    items, additional = document.get("items"), document.get("additionalProperties")
    properties = objects.mapping(document.get("properties"))
    if type_ == "array" and items is None:
        found.append(fields.required(f"{path}.items", "must be specified"))
    if isinstance(items, dict):
        found += _invariants(objects.mapping(items), "item", f"{path}.items")
    for name, child in properties.items():
        found += _invariants(objects.mapping(child), "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            found.append(fields.forbidden(f"{path}.additionalProperties", "must not be used at the root"))
        if isinstance(additional, dict):
            found += _invariants(objects.mapping(additional), "field", f"{path}.additionalProperties")
    found += _type_invariants(document, type_, level, path)
    found += _metadata_invariants(document, properties, level, path)
    branches = [objects.mapping(branch) for branch in objects.sequence(document.get("allOf"))]
    found += _value_rules(
        document,
        path,
        skip_any_of=document.get("anyOf") == _INT_OR_STRING,
        skip_first_all_of=bool(branches) and branches[0].get("anyOf") == _INT_OR_STRING,
    )
    return found


def _type_invariants(document: Object, type_: str, level: str, path: str) -> list[Cause]:
    found: list[Cause] = []
    int_or_string = document.get("x-kubernetes-int-or-string") is True
    preserve = document.get("x-kubernetes-preserve-unknown-fields") is True
    embedded = document.get("x-kubernetes-embedded-resource") is True
    must_be_false = "must be false if x-kubernetes-int-or-string is true"
    if int_or_string and preserve:
        found.append(fields.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, must_be_false))
    if int_or_string and embedded:
        found.append(fields.invalid(f"{path}.x-kubernetes-embedded-resource", True, must_be_false))
    if embedded and type_ != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        place = f"{path}.type"
        found.append(fields.invalid(place, type_, text) if type_ else fields.required(place, text))
    elif not type_ and not int_or_string and not preserve:
        found.append(fields.required(f"{path}.type", _TYPE_MISSING[level]))
    if embedded and document.get("additionalProperties") is not None:
        text = "must not be used if x-kubernetes-embedded-resource is set"
        found.append(fields.forbidden(f"{path}.additionalProperties", text))
    if level == "root" and type_ not in ("", "object"):
        found.append(fields.invalid(f"{path}.type", type_, "must be object at the root"))
    if embedded and not preserve and not document.get("properties"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        found.append(fields.required(f"{path}.properties", text))
    return found


def _metadata_invariants(document: Object, properties: Object, level: str, path: str) -> list[Cause]:
    found: list[Cause] = []
    is_object = level == "root" or document.get("x-kubernetes-embedded-resource") is True
    if not is_object:
        return found
    for name in ("kind", "apiVersion"):
        if name in properties:
            type_ = str(objects.mapping(properties[name]).get("type") or "")
            if type_ != "string":
                found.append(fields.invalid(f"{path}.properties[{name}].type", type_, "must be string"))
    if "metadata" in properties:
        metadata = objects.mapping(properties["metadata"])
        place = f"{path}.properties[metadata]"
        if metadata.get("type") != "object":
            found.append(fields.invalid(f"{place}.type", str(metadata.get("type") or ""), "must be object"))
        if level == "root" and not _restricts_only_the_name(metadata):
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            found.append(fields.forbidden(place, text))
    return found


def _restricts_only_the_name(metadata: Object) -> bool:
    rest = {key for key, value in metadata.items() if value and key not in ("type", "default", "properties")}
    return not rest and set(objects.mapping(metadata.get("properties"))) <= {"name", "generateName"}


def _value_rules(
    document: Object, path: str, *, skip_any_of: bool = False, skip_first_all_of: bool = False
) -> list[Cause]:
    found: list[Cause] = []
    for branch, place in junctors(document, path):
        if skip_any_of and place.startswith(f"{path}.anyOf["):
            continue
        found += _nested(branch, place, skip_any_of=skip_first_all_of and place == f"{path}.allOf[0]")
    pattern = document.get("pattern")
    if isinstance(pattern, str) and pattern:
        try:
            patterns.compiled(pattern)
        except patterns.BadPattern as error:
            text = f"must be a valid regular expression, but isn't: {error}"
            found.append(fields.invalid(f"{path}.pattern", pattern, text))
    return found


def _nested(document: Object, path: str, *, skip_any_of: bool = False) -> list[Cause]:
    """The rules for a schema under a junctor, which may only narrow what is described outside of it."""
    found = _value_rules(document, path, skip_any_of=skip_any_of)
    if isinstance(document.get("items"), dict):
        found += _nested(objects.mapping(document["items"]), f"{path}.items")
    properties = objects.mapping(document.get("properties"))
    for name, child in properties.items():
        found += _nested(objects.mapping(child), f"{path}.properties[{name}]")
    found += [fields.forbidden(f"{path}.{key}", text) for key, text in _NESTED_FORBIDDEN if document.get(key)]
    if document.get("additionalProperties") not in (None, False):
        found.append(fields.forbidden(f"{path}.additionalProperties", "must be undefined to be structural"))
    if "metadata" in properties:
        found.append(fields.forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))
    return found


def _completeness(document: Object, outside: Any, inside_path: str, outside_path: str) -> list[Cause]:
    """Every field that a junctor speaks of must be described outside of it."""
    found: list[Cause] = []
    for branch, place in junctors(document, inside_path):
        found += _described(branch, objects.mapping(outside), place, outside_path)
    return found


def _described(branch: Object, outside: Object, inside_path: str, outside_path: str) -> list[Cause]:
    found = _completeness(branch, outside, inside_path, outside_path)
    if isinstance(branch.get("items"), dict):
        place = f"{outside_path}.items"
        if isinstance(outside.get("items"), dict):
            inner, described = objects.mapping(branch["items"]), objects.mapping(outside["items"])
            found += _described(inner, described, f"{inside_path}.items", place)
        else:
            found.append(fields.required(place, f"because it is defined in {inside_path}.items"))
    known = objects.mapping(outside.get("properties"))
    for name, child in objects.mapping(branch.get("properties")).items():
        inner_path, place = f"{inside_path}.properties[{name}]", f"{outside_path}.properties[{name}]"
        if name in known:
            found += _described(objects.mapping(child), objects.mapping(known[name]), inner_path, place)
        else:
            found.append(fields.required(place, f"because it is defined in {inner_path}"))
    return found


def _check_defaults(schema: Schema, path: str) -> list[Cause]:
    found: list[Cause] = []
    if schema.default is not MISSING:
        found += _check_default(schema, f"{path}.default")
    if schema.items is not None:
        found += _check_defaults(schema.items, f"{path}.items")
    for name, child in schema.properties.items():
        found += _check_defaults(child, f"{path}.properties[{name}]")
    return found


def _check_default(schema: Schema, path: str) -> list[Cause]:
    pruned = objects.copy({"default": schema.default})["default"]
    if prune.prune(schema, pruned, root=schema.embedded_resource):
        return [fields.invalid(path, schema.default, "must not have unknown fields")]
    return validate.validate(schema, schema.default, path, is_resource=schema.embedded_resource)
