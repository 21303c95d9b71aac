"""The built-in kinds and their schemas.

`kinds()` is what discovery lists; `schema()` is what validation, pruning, server-side apply and strategic merge walk.
Both are shared by everyone in the process: treat them as read-only. Schemas are made on first use, type by type, and
refer to each other by name, so that a type that contains itself is no trouble.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Final, cast

from steelyard.frozen import frozen
from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema.model import ANY, MISSING, ListType, MapType, Schema


@frozen
class Subresource:
    """E.g. `scale` of deployments, whose body is a Scale of autoscaling/v1."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@frozen
class BuiltinKind:
    resource: Resource
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[Subresource, ...]


_ACCEPTED_WITHOUT: Final = frozenset(
    {("rbac/v1.RoleRef", "apiGroup"), ("networking/v1.NetworkPolicySpec", "podSelector")}
)
"""Marked as required upstream, yet accepted when missing: an absent group is filled in, an absent selector is empty."""

_SPECIAL: Final = {
    "bytes": Schema("string", format="byte", nullable=True),
    "bool": Schema("boolean", nullable=True),
    "int32": Schema("integer", format="int32", nullable=True),
    "int64": Schema("integer", format="int64", nullable=True),
    "double": Schema("number", format="double", nullable=True),
    "string": Schema("string", nullable=True),
    "Time": Schema("string", format="date-time", nullable=True),
    "MicroTime": Schema("string", format="date-time", nullable=True),
    "Quantity": Schema(any_of=(Schema("string"), Schema("number")), nullable=True),
    "IntOrString": Schema(int_or_string=True, format="int-or-string", nullable=True),
    "RawExtension": Schema("object", preserve_unknown=True, nullable=True),
    "FieldsV1": Schema("object", preserve_unknown=True, nullable=True),
    "StringList": Schema("array", items=Schema("string"), nullable=True),
    "JSON": ANY,
    "SchemaOrArray": ANY,
    "SchemaOrBool": ANY,
    "SchemaOrStrings": ANY,
}
"""Everything may be null: Go reads a null as the zero value, and clients written in Go send them."""


@cache
def _index() -> Object:
    return types.load("kinds")


@cache
def kinds() -> Sequence[BuiltinKind]:
    """In the order in which discovery lists groups, versions and resources."""
    return tuple(_kind(entry) for entry in cast("list[Object]", _index()["kinds"]))


def _kind(entry: Object) -> BuiltinKind:
    resource = Resource(
        entry["group"], entry["version"], entry["plural"], entry["kind"], namespaced=entry["namespaced"]
    )
    return BuiltinKind(
        resource,
        entry["singular"],
        tuple(entry.get("shortNames", ())),
        tuple(entry.get("categories", ())),
        tuple(entry["verbs"]),
        tuple(
            Subresource(
                inner["name"],
                inner.get("group", resource.group),
                inner.get("version", resource.version),
                inner["kind"],
                tuple(inner["verbs"]),
            )
            for inner in cast("list[Object]", entry.get("subresources", ()))
        ),
    )


@cache
def _by_name() -> dict[tuple[str, str, str], BuiltinKind]:
    return {(kind.resource.group, kind.resource.version, kind.resource.plural): kind for kind in kinds()}


@cache
def groups() -> frozenset[str]:
    return frozenset(kind.resource.group for kind in kinds())


def find(group: str, version: str, plural: str) -> BuiltinKind | None:
    return _by_name().get((group, version, plural))


def serves(group: str, version: str) -> bool:
    return f"{group}/{version}".lstrip("/") in _index()["packages"]


def type_name(group: str, version: str, kind: str) -> str | None:
    """The type behind a kind: `("rbac.authorization.k8s.io", "v1", "Role")` is `rbac/v1.Role`.

    Kinds such as DeleteOptions belong to every group; they are found whichever group asks.
    """
    home = cast("dict[str, str]", _index()["packages"]).get(f"{group}/{version}" if group else version)
    for package in filter(None, (home, types.META)):
        if types.exists(f"{package}.{kind}"):
            return f"{package}.{kind}"
    return None


def schema(group: str, version: str, kind: str) -> Schema:
    """KeyError for a kind that the tables do not know."""
    name = type_name(group, version, kind)
    if name is None:
        raise KeyError(f"{group}/{version} {kind}".lstrip("/"))
    return type_schema(name)


@cache
def type_schema(name: str, *, reported: bool = False) -> Schema:
    """`reported` is for what stands under `status`: upstream takes reports as they are, with fields missing and with
    values outside the enumerations."""
    kind = types.get(name)
    fields = kind.all_fields()
    required = () if reported else tuple(key for key in kind.all_required() if _must_be_set(name, fields[key]))
    return Schema(
        "object",
        properties={key: _field_schema(field, reported=reported or key == "status") for key, field in fields.items()},
        required=required,
        empty_is_absent=True,
        nullable=True,
        map_type=cast(MapType, kind.map_type or "granular"),
    )


def _must_be_set(name: str, field: types.Field) -> bool:
    """Upstream checks required fields by hand-written validation, after reading absent ones as zero: an absent list,
    map, number, boolean or structure is then as good as an empty one, an absent text or a null pointer is not."""
    if field.repeated or field.mapped or (name, field.name) in _ACCEPTED_WITHOUT:
        return False
    return field.base == "string" or (field.is_struct and field.pointer)


def _field_schema(field: types.Field, *, reported: bool) -> Schema:
    base = _base_schema(field.base, reported=reported)
    if field.repeated:
        keyed = partial(_keyed, field.base, reported, field.list_map_keys)
        return Schema(
            "array",
            items=dataclasses.replace(base, reference=cache(keyed)) if field.list_map_keys else base,
            nullable=True,
            list_type=cast(ListType, field.list_type or "atomic"),
            list_map_keys=field.list_map_keys,
            patch_strategy=field.patch_strategy,
            patch_merge_key=field.patch_merge_key,
        )
    if field.mapped:
        return Schema(
            "object",
            additional=base,
            nullable=True,
            map_type=cast(MapType, field.map_type or "granular"),
            patch_strategy=field.patch_strategy,
        )
    changes: dict[str, Any] = {}
    if field.default is not MISSING:
        changes["default"] = field.default
    if field.enum and not reported:
        changes["enum"] = field.enum
    if field.patch_strategy:
        changes["patch_strategy"] = field.patch_strategy
    if field.map_type:
        changes["map_type"] = field.map_type
    if not changes:
        return base
    if base.reference is not None:
        return dataclasses.replace(base, reference=cache(partial(_changed, field.base, reported, changes)), **changes)
    return dataclasses.replace(base, **changes)


def _changed(name: str, reported: bool, changes: dict[str, Any]) -> Schema:
    """The type's schema with what the field that refers to it says differently."""
    return dataclasses.replace(type_schema(name, reported=reported), **changes)


_ZERO: Final = {"string": "", "int32": 0, "int64": 0, "bool": False}


def _keyed(name: str, reported: bool, keys: tuple[str, ...]) -> Schema:
    """The schema of a list's items, whose keys have a default where Go writes the field always: its zero value."""
    schema = type_schema(name, reported=reported)
    fields = types.get(name).all_fields()
    defaults = {
        key: dataclasses.replace(schema.properties[key], default=_ZERO[fields[key].base])
        for key in keys
        if fields[key].always and not fields[key].pointer and schema.properties[key].default is MISSING
    }
    return dataclasses.replace(schema, properties={**schema.properties, **defaults}) if defaults else schema


def _base_schema(base: str, *, reported: bool) -> Schema:
    if base in _SPECIAL:
        return _SPECIAL[base]
    return _reference(base, reported=reported)


@cache
def _reference(name: str, *, reported: bool) -> Schema:
    return Schema("object", nullable=True, reference=partial(type_schema, name, reported=reported))
