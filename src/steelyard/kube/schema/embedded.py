"""Objects inside objects (`x-kubernetes-embedded-resource`) name their type, and their metadata follows the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast

from steelyard.kube import fields, namerules, objectmeta, objects
from steelyard.kube.errors import Cause
from steelyard.kube.schema.model import Schema

_NAME: Final = "embedded"
_Check: TypeAlias = Callable[[Any, str, list[Cause]], None]


def validate(schema: Schema, value: Any, path: str = "") -> list[Cause]:
    check = _checker(schema)
    found: list[Cause] = []
    if check is not None:
        check(value, path, found)
    return found


def found_in(schema: Schema, value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The embedded objects of a value, with their places; a schema that has none costs one look-up."""
    if _checker(schema) is None:
        return
    if isinstance(value, dict):
        known = cast("dict[str, Any]", value)
        if schema.embedded_resource:
            yield path, known
        for key, item in known.items():
            child = schema.properties.get(key)
            if child is not None:
                yield from found_in(child, item, fields.child(path, key))
            elif schema.additional is not None:
                yield from found_in(schema.additional, item, f"{path}[{key}]")
    elif isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(cast("list[Any]", value)):
            yield from found_in(schema.items, item, f"{path}[{index}]")


def _checker(schema: Schema) -> _Check | None:
    if schema.reference is not None:
        return None  # only custom resources embed objects, and their schemas name no other type
    if _NAME not in schema.compiled:
        schema.compiled[_NAME] = _compile(schema)
    return cast("_Check | None", schema.compiled[_NAME])


def _compile(schema: Schema) -> _Check | None:
    properties = {name: inner for name, child in schema.properties.items() if (inner := _checker(child)) is not None}
    additional = _checker(schema.additional) if schema.additional is not None else None
    items = _checker(schema.items) if schema.items is not None else None
    if not (schema.embedded_resource or properties or additional or items):
        return None
    is_resource, declared = schema.embedded_resource, schema.properties

    def check(value: Any, path: str, found: list[Cause]) -> None:
        if isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            if is_resource:
                _check_object(known, path, found)
            for key, item in known.items():
                inner = properties.get(key)
                if inner is not None:
                    inner(item, fields.child(path, key), found)
                elif additional is not None and key not in declared:
                    additional(item, f"{path}[{key}]", found)
        elif isinstance(value, list) and items is not None:
            for index, item in enumerate(cast("list[Any]", value)):
                items(item, f"{path}[{index}]", found)

    return check


def _check_object(value: dict[str, Any], path: str, found: list[Cause]) -> None:
    for key in ("apiVersion", "kind"):
        place = fields.child(path, key)
        text = value.get(key)
        if key not in value:
            found.append(fields.required(place))
        elif not isinstance(text, str):
            found.append(fields.invalid(place, text, "must be a string"))
        elif not text:
            found.append(fields.invalid(place, text, "must not be empty"))
        elif key == "apiVersion" and text.count("/") > 1:
            found.append(fields.invalid(place, text, f"unexpected GroupVersion string: {text}"))
        elif key == "kind" and (wrong := namerules.dns1035_label(text.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            found.append(fields.invalid(place, text, detail))
    if "metadata" in value:
        meta = objects.mapping(value["metadata"])
        named = meta if meta.get("name") else {**meta, "name": "unnamed"}
        place = fields.child(path, "metadata")
        found += objectmeta.validate_new(
            named, namespaced=bool(meta.get("namespace")), rule=namerules.path_segment, path=place
        )
