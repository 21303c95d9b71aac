"""OpenAPI documents: version 3, one per group and version, and version 2 for clients that know no other.

    /openapi/v3                        which documents there are, each with a hash of its content
    /openapi/v3/apis/<group>/<version>
    /openapi/v2                        everything in one, as JSON

Documents are made when first asked for. Those of built-in kinds are shared by all servers of the process; one of custom
resources is shared by all servers that serve the same definitions, and made again only when these change. The hashes of
built-in documents come from the tables, so that the index costs no document.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

import steelyard
from steelyard.kube import errors
from steelyard.kube.builtin import tables, types
from steelyard.kube.objects import Object
from steelyard.kube.server import openapi_components as components
from steelyard.kube.server import openapi_paths as paths
from steelyard.kube.server.discovery import JSON, Document
from steelyard.kube.server.registry import Registry, Served

_KUBERNETES: Final = "v1.34.4"
_V3: Final = "/openapi/v3"
_V2: Final = "/openapi/v2"
_META_ROOTS: Final = tuple(f"{types.META}.{name}" for name in ("DeleteOptions", "Status", "ListMeta", "ObjectMeta"))
_NEVER_IN_V2: Final = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable"})


class OpenApi:
    """The OpenAPI documents of one server."""

    __slots__ = ("_index", "_registry", "_revision", "_v2")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._index: Document | None = None
        self._v2: Document | None = None

    def document(self, path: str, accept: str) -> Document | None:
        """None where there is no such document; NotAcceptable for a client that takes nothing but protobuf."""
        path = path.rstrip("/")
        if path != _V2 and path != _V3 and not path.startswith(f"{_V3}/"):
            return None
        if accept and not _takes_json(accept):
            raise errors.NotAcceptable(
                f"only the following media types are accepted: {JSON}, but the request accepts {accept}"
            )
        if self._revision != self._registry.revision:
            self._index = self._v2 = None
            self._revision = self._registry.revision
        if path == _V3:
            self._index = self._index or _index(_group_versions(self._registry.all()))
            return self._index
        if path == _V2:
            self._v2 = self._v2 or self._make_v2()
            return self._v2
        served = _group_versions(self._registry.all()).get(path.removeprefix(f"{_V3}/"))
        return group_version(served) if served else None

    def _make_v2(self) -> Document:
        if not self._registry.has_custom:
            return _builtin_v2()
        return _v2(_group_versions(self._registry.all()))


def _takes_json(accept: str) -> bool:
    return any(media.partition(";")[0].strip().lower() in {JSON, "application/*", "*/*"} for media in accept.split(","))


def _group_versions(resources: Iterable[Served]) -> dict[str, tuple[Served, ...]]:
    """`apis/apps/v1` to its resources; `api/v1` for the core group."""
    found: dict[str, list[Served]] = {}
    for served in resources:
        resource = served.resource
        key = f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"
        found.setdefault(key, []).append(served)
    return {key: tuple(found[key]) for key in sorted(found)}


def _index(group_versions: dict[str, tuple[Served, ...]]) -> Document:
    listed: Object = {}
    for key, served in group_versions.items():
        is_custom = any(each.custom is not None for each in served)
        digest = group_version(served).etag if is_custom else _builtin_digest(key)
        listed[key] = {"serverRelativeURL": f"{_V3}/{key}?hash={digest}"}
    return _encoded({"paths": listed})


def _builtin_digest(key: str) -> str:
    """Of what the document will be made from: the tables, and the code of this release."""
    return hashlib.sha256(f"{key} {types.digest()} {steelyard.__version__}".encode()).hexdigest().upper()


@functools.lru_cache(maxsize=512)
def group_version(served: tuple[Served, ...]) -> Document:
    """The document of these resources, which are those of one group and version."""
    schemas, operations = _content(served)
    resource = served[0].resource
    for name in ("DeleteOptions", "Status"):
        kinds = [("", "v1"), *([(resource.group, resource.version)] if resource.group else [])]
        component = components.builtin_name(f"{types.META}.{name}")
        listed = [{"group": group, "version": version, "kind": name} for group, version in kinds]
        schemas[component] = {**schemas[component], components.GVK: listed}
    return _encoded(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "unversioned"},
            "paths": dict(sorted(operations.items())),
            "components": {
                "schemas": dict(sorted(schemas.items())),
                "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
            },
        }
    )


def _content(served: Iterable[Served]) -> tuple[dict[str, Object], dict[str, Object]]:
    """Components and paths of some resources."""
    schemas: dict[str, Object] = {components.PATCH: {"type": "object"}}
    operations: dict[str, Object] = {}
    roots = set(_META_ROOTS)
    for each in served:
        resource = each.resource
        list_kind = each.list_kind or f"{resource.kind}List"
        if each.custom is not None:
            name, list_name = components.custom_name(resource), components.custom_name(resource, list_kind)
            schemas[name] = components.custom(resource, each.custom.openapi)
        else:
            kind = tables.type_name(resource.group, resource.version, resource.kind)
            assert kind is not None, resource
            name = components.builtin_name(kind)
            list_name = f"{name}List"
            roots.add(kind)
            schemas[name] = {**components.builtin(kind), components.GVK: [components.gvk(resource)]}
        if "list" in each.verbs:
            schemas[list_name] = components.list_of(resource, list_kind, name)
        for inner in each.subresources.values():
            if (inner.group, inner.version, inner.kind) != (resource.group, resource.version, resource.kind):
                roots.add(paths.subresource_type(inner))
                listed = [{"group": inner.group, "version": inner.version, "kind": inner.kind}]
                component = components.builtin(paths.subresource_type(inner))
                schemas[paths.subresource_component(inner)] = {**component, components.GVK: listed}
        operations.update(paths.of_resource(each, name, list_name))
    for name, component in components.builtin_closure(sorted(roots)):
        schemas.setdefault(name, component)
    return schemas, operations


@functools.cache
def _builtin_v2() -> Document:
    return _v2(_group_versions(Registry().all()))


def _v2(group_versions: dict[str, tuple[Served, ...]]) -> Document:
    schemas, _ = _content(served for every in group_versions.values() for served in every)
    definitions = {name: _swagger(schema) for name, schema in sorted(schemas.items())}
    return _encoded(
        {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": _KUBERNETES},
            "paths": {},
            "definitions": definitions,
        }
    )


def _swagger(schema: Object) -> Object:
    """As version 2 can say it: references stand alone, and of alternatives there are none."""
    out: Object = {}
    inherited = schema.get("allOf")
    if inherited and "$ref" in inherited[0]:
        out["$ref"] = inherited[0]["$ref"].replace(components.REFERENCE, "#/definitions/")
    for keyword, value in schema.items():
        if keyword in _NEVER_IN_V2:
            continue
        if keyword == "$ref":
            out[keyword] = value.replace(components.REFERENCE, "#/definitions/")
        elif keyword == "properties":
            out[keyword] = {name: _swagger(inner) for name, inner in cast("dict[str, Object]", value).items()}
        elif keyword in {"items", "additionalProperties"}:
            out[keyword] = _swagger(value)
        else:
            out[keyword] = value
    if "oneOf" in schema and "type" not in out:
        out["type"] = "string"
    return out


def _encoded(body: Any) -> Document:
    encoded = orjson.dumps(body)
    return Document(encoded, JSON, hashlib.sha256(encoded).hexdigest().upper())
