"""Schemas as OpenAPI v3 components: of built-in types from the tables, of custom resources from their definitions.

Built-in components are made once and shared by all documents of the process; they carry no descriptions, because the
tables have none. A custom resource keeps the descriptions its definition gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema.model import MISSING

GVK: Final = "x-kubernetes-group-version-kind"
REFERENCE: Final = "#/components/schemas/"
_META_PREFIX: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_APIEXTENSIONS_PREFIX: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
PATCH: Final = f"{_META_PREFIX}.Patch"

_SCALARS: Final[dict[str, Object]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "StringList": {"type": "array", "items": {"type": "string"}},
}
_SPECIAL: Final[dict[str, tuple[str, Object]]] = {
    "Quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "IntOrString": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "Time": (f"{_META_PREFIX}.Time", {"type": "string", "format": "date-time"}),
    "MicroTime": (f"{_META_PREFIX}.MicroTime", {"type": "string", "format": "date-time"}),
    "FieldsV1": (f"{_META_PREFIX}.FieldsV1", {"type": "object"}),
    "RawExtension": ("io.k8s.apimachinery.pkg.runtime.RawExtension", {"type": "object"}),
    "JSON": (f"{_APIEXTENSIONS_PREFIX}.JSON", {}),
    "SchemaOrArray": (f"{_APIEXTENSIONS_PREFIX}.JSONSchemaPropsOrArray", {}),
    "SchemaOrBool": (f"{_APIEXTENSIONS_PREFIX}.JSONSchemaPropsOrBool", {}),
    "SchemaOrStrings": (f"{_APIEXTENSIONS_PREFIX}.JSONSchemaPropsOrStringArray", {}),
}


def builtin_name(type_name: str) -> str:
    """`apps/v1.Deployment` is `io.k8s.api.apps.v1.Deployment`."""
    home, _, name = type_name.rpartition(".")
    return f"{types.package(home)['prefix']}.{name}"


def custom_name(resource: Resource, kind: str = "") -> str:
    """`Machine` of `cluster.x-k8s.io/v1beta2` is `io.x-k8s.cluster.v1beta2.Machine`."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, kind or resource.kind])


def reference(component: str) -> Object:
    return {"$ref": REFERENCE + component}


def gvk(resource: Resource, kind: str = "") -> Object:
    return {"group": resource.group, "version": resource.version, "kind": kind or resource.kind}


@cache
def builtin(type_name: str) -> Object:
    """The component of a built-in type, without its kind. Shared: do not change it."""
    kind = types.get(type_name)
    fields = kind.all_fields()
    component: Object = {
        "type": "object",
        "properties": {key: _field(fields[key]) for key in sorted(fields)},
    }
    if required := kind.all_required():
        component["required"] = list(required)
    if kind.map_type:
        component["x-kubernetes-map-type"] = kind.map_type
    return component


def _base(base: str) -> Object:
    if base in _SCALARS:
        return dict(_SCALARS[base])
    return reference(_SPECIAL[base][0] if base in _SPECIAL else builtin_name(base))


def _field(field: types.Field) -> Object:
    said: Object = {}
    if field.list_type:
        said["x-kubernetes-list-type"] = field.list_type
    if field.list_map_keys:
        said["x-kubernetes-list-map-keys"] = list(field.list_map_keys)
    if field.map_type:
        said["x-kubernetes-map-type"] = field.map_type
    if field.patch_strategy:
        said["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategy)
    if field.patch_merge_key:
        said["x-kubernetes-patch-merge-key"] = field.patch_merge_key
    if field.default is not MISSING:
        said["default"] = field.default
    base = _base(field.base)
    if field.repeated:
        return {"type": "array", "items": base, **said}
    if field.mapped:
        return {"type": "object", "additionalProperties": base, **said}
    if field.enum:
        said["enum"] = list(field.enum)
    if "$ref" in base:
        return {"allOf": [base], **said}
    return {**base, **said}


def builtin_closure(roots: Iterable[str]) -> Iterator[tuple[str, Object]]:
    """Names and components of these types and of all they refer to."""
    pending, seen = list(roots), set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in _SPECIAL:
            yield _SPECIAL[name]
        elif name not in _SCALARS:
            yield builtin_name(name), builtin(name)
            pending.extend(field.base for field in types.get(name).all_fields().values())


def list_of(resource: Resource, list_kind: str, item: str, selectable: Iterable[str] = ()) -> Object:
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(item)},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(builtin_name(types.LIST_META))]},
        },
        "required": ["items"],
        GVK: [gvk(resource, list_kind)],
        **_selectable(selectable),
    }


def custom(resource: Resource, schema: Object, selectable: Iterable[str] = ()) -> Object:
    """The component of a custom resource: its definition's schema, with the fields that every object has.

    `selectable` are the JSON paths of the fields that selectors may name.
    """
    own: Object = {name: _published(each) for name, each in objects.mapping(schema.get("properties")).items()}
    return {
        **schema,
        "type": "object",
        "properties": _with_identity(own),
        GVK: [gvk(resource)],
        **_selectable(selectable),
    }


def _selectable(paths: Iterable[str]) -> Object:
    listed = [{"fieldPath": path.removeprefix(".")} for path in paths]
    return {"x-kubernetes-selectable-fields": listed} if listed else {}


def _with_identity(properties: Object) -> Object:
    identified = {**properties}
    for name in ("apiVersion", "kind"):
        identified[name] = {"type": "string", **objects.mapping(properties.get(name))}
    metadata = reference(builtin_name(types.OBJECT_META))
    described = objects.at(properties, "metadata", "description")
    identified["metadata"] = {"allOf": [metadata], **({"description": described} if described else {})}
    return dict(sorted(identified.items()))


def _published(schema: Any) -> Any:
    """The schema with what its extensions imply: the fields of every object wherever a whole object stands, and both
    types wherever there is a number or a text. Itself if they imply nothing.
    """
    if not isinstance(schema, dict):
        return schema
    given = cast(Object, schema)
    changed: Object = {}
    for keyword in ("items", "additionalProperties"):
        if keyword in given and (inner := _published(given[keyword])) is not given[keyword]:
            changed[keyword] = inner
    properties = objects.mapping(given.get("properties"))
    inside = {name: _published(inner) for name, inner in properties.items()}
    if any(inside[name] is not inner for name, inner in properties.items()):
        changed["properties"] = inside
    if given.get("x-kubernetes-embedded-resource") is True:
        changed["properties"] = _with_identity(inside)
        required = objects.sequence(given.get("required"))
        changed["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    if given.get("x-kubernetes-int-or-string") is True:
        changed |= _number_or_text(given)
    return {**given, **changed} if changed else given


def _number_or_text(schema: Object) -> Object:
    """What must be added for the schema to name both types; it may do so itself."""
    either = [{"type": "integer"}, {"type": "string"}]
    every = objects.sequence(schema.get("allOf"))
    if not schema.get("anyOf"):
        is_said = bool(every) and objects.mapping(every[0]).get("anyOf") == either
        return {} if is_said else {"anyOf": either}
    return {} if schema["anyOf"] == either else {"allOf": [{"anyOf": either}, *every]}
