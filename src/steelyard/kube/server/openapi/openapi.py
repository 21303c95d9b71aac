"""OpenAPI documents: version 3, one per group and version, and version 2 for clients that know no other.

    /openapi/v3                        which documents there are, each with a hash of its content
    /openapi/v3/apis/<group>/<version>
    /openapi/v2                        everything in one, as JSON or as protocol buffers

Documents are made when first asked for. Those of built-in kinds are shared by all servers of the process; one of custom
resources is shared by all servers that serve the same definitions, and made again only when these change. The hashes of
built-in documents come from the tables, so that the index costs no document. The document of version 2 is put together
from encoded parts, one per group and version, so that a new definition costs only its own.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

import orjson

import steelyard
from steelyard.kube import remembering
from steelyard.kube.builtin import tables, types
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.bodies import documents, negotiation
from steelyard.kube.server.bodies.documents import JSON, Document
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.openapi import components, paths, v2

_KUBERNETES: Final = "v1.34.4"
_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Of the documents of custom resources that are ready, of each sort."""
_V3: Final = "/openapi/v3"
_V2: Final = "/openapi/v2"
PATHS: Final = (_V2, _V3, f"{_V3}/")
_META_ROOTS: Final = tuple(f"{types.META}.{name}" for name in ("DeleteOptions", "Status", "ListMeta", "ObjectMeta"))
PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
Form: TypeAlias = Literal["json", "protobuf"]
_JSON_FORMS: Final[dict[str, Form]] = {JSON: "json", "application/*": "json", "*/json": "json", "*/*": "json"}
_V2_FORMS: Final[dict[str, Form]] = {
    **_JSON_FORMS,
    PROTOBUF: "protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": "protobuf",
}
_V2_HEAD: Final[Object] = {
    "swagger": "2.0",
    "info": {"title": "Kubernetes", "version": _KUBERNETES},
    "securityDefinitions": {
        "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"},
    },
    "security": [{"BearerToken": []}],
}
_CUSTOM_INFO: Final = {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
_NOT_FOUND: Final = Document(b"", "", code=404)
_NOT_ACCEPTABLE: Final = Document(b"", "", code=406)
_Encoded: TypeAlias = dict[str, bytes]


class OpenApi:
    """The OpenAPI documents of one server."""

    __slots__ = ("_index", "_registry", "_revision")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._index: Document | None = None

    def document(self, path: str, accept: str) -> Document | None:
        """None where no document can be; one without content where there is none now, or none that the client takes."""
        if path == _V2:
            form = _form(accept, _V2_FORMS)
            return version_2(tuple(sorted(self._registry.custom(), key=_place)), form) if form else _NOT_ACCEPTABLE
        if path != _V3 and not path.startswith(f"{_V3}/"):
            return None
        if self._revision != self._registry.revision:
            self._index = None
            self._revision = self._registry.revision
        if path == _V3:
            self._index = self._index or _index(_group_versions(self._registry.all()))
            return self._index
        served = _group_versions(self._registry.all()).get(path.removeprefix(f"{_V3}/"))
        if served is None:
            return _NOT_FOUND
        return group_version(served) if _form(accept, _JSON_FORMS) else _NOT_ACCEPTABLE


def _document_bytes(document: Document) -> int:
    return len(document.body)


def _marks(served: tuple[Served, ...], form: Form | None = None) -> Hashable:
    """A document outlives what it describes until others take its place; the definition must not."""
    return (*(each.mark for each in served), form)


def _part_bytes(part: tuple[_Encoded, _Encoded]) -> int:
    return sum(len(each) for side in part for each in side.values())


def _place(served: Served) -> tuple[str, str, str]:
    resource = served.resource
    return (resource.group, resource.version, resource.plural)


def _form(accept: str, forms: Mapping[str, Form]) -> Form | None:
    """The first of the client's wishes, by weight and then as listed, that can be met."""
    wishes = negotiation.by_weight(accept or "*/*")
    return next((forms[media_type] for media_type, _ in wishes if media_type in forms), None)


def _group_versions(resources: Iterable[Served]) -> dict[str, tuple[Served, ...]]:
    """`apis/apps/v1` to its resources; `api/v1` for the core group."""
    found: dict[str, list[Served]] = {}
    for served in resources:
        resource = served.resource
        found.setdefault(_key(resource), []).append(served)
    return {key: tuple(found[key]) for key in sorted(found)}


def _key(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _index(group_versions: dict[str, tuple[Served, ...]]) -> Document:
    listed: Object = {}
    for key, served in group_versions.items():
        is_custom = any(each.custom is not None for each in served)
        digest = group_version(served).etag if is_custom else _builtin_digest(key)
        listed[key] = {"serverRelativeURL": f"{_V3}/{key}?hash={digest}"}
    # Without an ETag, and not called JSON: so kube-apiserver's aggregator serves it, whatever the client accepts.
    return Document(orjson.dumps({"paths": listed}), "text/plain; charset=utf-8")


def _builtin_digest(key: str) -> str:
    """Of what the document will be made from: the tables, and the code of this release."""
    return documents.digest(f"{key} {types.digest()} {steelyard.__version__}".encode())


@remembering.by_bytes(_KEPT_BYTES, _document_bytes, _marks)
def group_version(served: tuple[Served, ...]) -> Document:
    """The document of these resources, which are those of one group and version."""
    schemas, operations = _content(served)
    resource = served[0].resource
    own = [(resource.group, resource.version)] if resource.group else []
    for name, kinds in (("DeleteOptions", [("", "v1"), *own]), ("Status", [("", "v1")])):
        component = components.builtin_name(f"{types.META}.{name}")
        listed = [{"group": group, "version": version, "kind": name} for group, version in kinds]
        schemas[component] = {**schemas[component], components.GVK: listed}
    is_custom = any(each.custom is not None for each in served)
    body = orjson.dumps(
        {
            "openapi": "3.0.0",
            "info": _CUSTOM_INFO if is_custom else _V2_HEAD["info"],
            "paths": dict(sorted(operations.items())),
            "components": {
                "schemas": dict(sorted(schemas.items())),
                **({} if is_custom else {"securitySchemes": _V2_HEAD["securityDefinitions"]}),
            },
        }
    )
    return Document(body, JSON, documents.digest(body) if is_custom else _builtin_digest(_key(resource)), hashed=True)


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
            schemas[name] = components.custom(resource, each.custom.openapi, each.custom.selectable_fields)
        else:
            kind = tables.type_name(resource.group, resource.version, resource.kind)
            assert kind is not None, resource
            name = components.builtin_name(kind)
            list_name = f"{name}List"
            roots.add(kind)
            schemas[name] = {**components.builtin(kind), components.GVK: [components.gvk(resource)]}
        if "list" in each.verbs:
            selectable = each.custom.selectable_fields if each.custom is not None else ()
            schemas[list_name] = components.list_of(resource, list_kind, name, selectable)
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


@remembering.by_bytes(_KEPT_BYTES, _document_bytes, _marks)
def version_2(custom: tuple[Served, ...], form: Form) -> Document:
    """The document of version 2 of a server that serves these resources besides the built-in ones."""
    definitions, operations = _builtin_part(form)
    if custom:
        definitions, operations = dict(definitions), dict(operations)
        for served in _group_versions(custom).values():
            own_definitions, own_operations = _part(served, form)
            for name, definition in own_definitions.items():
                definitions.setdefault(name, definition)
            operations.update(own_operations)
        definitions, operations = dict(sorted(definitions.items())), dict(sorted(operations.items()))
    if form == "protobuf":
        # Only Go clients ask for it, and few of them.
        from steelyard.kube.server.openapi import proto

        return _document(proto.document(_V2_HEAD, list(operations.values()), list(definitions.values())), PROTOBUF)
    content = {
        **_V2_HEAD,
        "paths": {path: orjson.Fragment(encoded) for path, encoded in operations.items()},
        "definitions": {name: orjson.Fragment(encoded) for name, encoded in definitions.items()},
    }
    return _document(orjson.dumps(content), JSON)


@functools.cache
def _builtin_part(form: Form) -> tuple[_Encoded, _Encoded]:
    definitions, operations = _encoded_part(Registry().all(), form)
    return dict(sorted(definitions.items())), dict(sorted(operations.items()))


@remembering.by_bytes(_KEPT_BYTES, _part_bytes, _marks)
def _part(served: tuple[Served, ...], form: Form) -> tuple[_Encoded, _Encoded]:
    """What custom resources add to the definitions of the built-in part, and to its paths."""
    return _encoded_part(served, form, _builtin_part(form)[0])


def _encoded_part(
    served: Iterable[Served], form: Form, known: Mapping[str, bytes] | None = None
) -> tuple[_Encoded, _Encoded]:
    schemas, operations = _content(served)
    if known:
        schemas = {name: schema for name, schema in schemas.items() if name not in known}
    definitions = {name: v2.definition(schema) for name, schema in schemas.items()}
    items = {path: v2.path_item(item) for path, item in operations.items()}
    if form == "protobuf":
        from steelyard.kube.server.openapi import proto

        return (
            {name: proto.definition(name, schema) for name, schema in definitions.items()},
            {path: proto.path(path, item) for path, item in items.items()},
        )
    return (
        {name: orjson.dumps(schema) for name, schema in definitions.items()},
        {path: orjson.dumps(item) for path, item in items.items()},
    )


def _document(body: bytes, media_type: str) -> Document:
    return Document(body, media_type, documents.digest(body))
