"""The paths of an OpenAPI document: for each resource its operations, with the query parameters each understands.

kubectl reads from here whether the server validates fields and supports dry runs, and which kind stands behind a path.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube.builtin import tables, types
from steelyard.kube.objects import Object
from steelyard.kube.server import openapi_components as components
from steelyard.kube.server.registry import Served, Subresource

_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def _query(name: str, kind: str = "string") -> Object:
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _in_path(name: str) -> Object:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}


_LIST: Final = [
    _query("allowWatchBookmarks", "boolean"),
    _query("continue"),
    _query("fieldSelector"),
    _query("labelSelector"),
    _query("limit", "integer"),
    _query("resourceVersion"),
    _query("resourceVersionMatch"),
    _query("sendInitialEvents", "boolean"),
    _query("timeoutSeconds", "integer"),
    _query("watch", "boolean"),
]
_WRITE: Final = [_query("dryRun"), _query("fieldManager"), _query("fieldValidation")]
_PATCH: Final = [*_WRITE, _query("force", "boolean")]
_DELETE: Final = [
    _query("dryRun"),
    _query("gracePeriodSeconds", "integer"),
    _query("orphanDependents", "boolean"),
    _query("propagationPolicy"),
]
_PARAMETERS: Final[dict[str, list[Object]]] = {
    "list": _LIST,
    "get": [],
    "create": _WRITE,
    "update": _WRITE,
    "patch": _PATCH,
    "delete": _DELETE,
    "deletecollection": [*_DELETE, *_LIST],
}
_METHODS: Final = {
    "list": "get",
    "get": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_ACTIONS: Final = {"create": "post", "update": "put"}
_IDS: Final = {"get": "read", "update": "replace", "deletecollection": "deleteCollection"}


def of_resource(served: Served, component: str, list_component: str) -> dict[str, Object]:
    """Path to operations, for the resource and its subresources."""
    resource = served.resource
    everywhere = resource.path()
    collection = resource.path("{namespace}") if resource.namespaced else everywhere
    item = f"{collection}/{{name}}"
    made: dict[str, Object] = {}
    for path, verbs, kind in (
        (collection, ("list", "create", "deletecollection"), list_component),
        (item, ("get", "update", "patch", "delete"), component),
    ):
        operations = {
            _METHODS[verb]: _operation(served, verb, component, kind if verb == "list" else component)
            for verb in verbs
            if verb in served.verbs
        }
        if operations:
            made[path] = {**operations, "parameters": _path_parameters(path)}
    if everywhere != collection and "list" in served.verbs:
        listing = _operation(served, "list", component, list_component, suffix="ForAllNamespaces")
        made[everywhere] = {"get": listing}
    for inner in served.subresources.values():
        made[f"{item}/{inner.name}"] = _subresource(served, inner, component, f"{item}/{inner.name}")
    return made


def _subresource(served: Served, inner: Subresource, component: str, path: str) -> Object:
    own = (inner.group, inner.version, inner.kind)
    is_whole = own == (served.resource.group, served.resource.version, served.resource.kind)
    body = component if is_whole else subresource_component(inner)
    operations: Object = {
        _METHODS[verb]: _operation(served, verb, body, body, subresource=inner)
        for verb in inner.verbs
        if verb in _METHODS
    }
    return {**operations, "parameters": _path_parameters(path)}


def subresource_type(inner: Subresource) -> str:
    """The built-in type of a subresource that has a kind of its own, such as Scale."""
    found = tables.type_name(inner.group, inner.version, inner.kind)
    if found is None:
        raise KeyError(f"{inner.group}/{inner.version} {inner.kind}")
    return found


def subresource_component(inner: Subresource) -> str:
    return components.builtin_name(subresource_type(inner))


def _path_parameters(path: str) -> list[Object]:
    return [*(_in_path(name) for name in ("name", "namespace") if f"{{{name}}}" in path), _query("pretty")]


def _operation(
    served: Served,
    verb: str,
    body: str,
    answer: str,
    *,
    suffix: str = "",
    subresource: Subresource | None = None,
) -> Object:
    resource = served.resource
    kind = components.gvk(resource)
    if subresource is not None:
        kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    status = components.builtin_name(f"{types.META}.Status")
    gone = verb in {"delete", "deletecollection"}
    operation: Object = {
        "tags": [_tag(served)],
        "operationId": _operation_id(served, verb, suffix, subresource),
        "parameters": _PARAMETERS[verb],
        "responses": {"200": _answer(status if gone else answer), "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        components.GVK: kind,
    }
    if verb == "create":
        operation["responses"]["201"] = _answer(answer)
    if verb in {"create", "update"}:
        operation["requestBody"] = _content(("*/*",), body, required=True)
    elif verb == "patch":
        media = (*_PATCHES, _STRATEGIC) if served.custom is None else _PATCHES
        operation["requestBody"] = _content(media, components.PATCH, required=True)
    elif gone:
        options = components.builtin_name(f"{types.META}.DeleteOptions")
        operation["requestBody"] = _content(("*/*",), options, required=False)
    return operation


def _content(media: tuple[str, ...], component: str, *, required: bool) -> Object:
    content = {each: {"schema": components.reference(component)} for each in media}
    return {"content": content, "required": True} if required else {"content": content}


def _answer(component: str) -> Object:
    return {"description": "OK", "content": {"application/json": {"schema": components.reference(component)}}}


def _tag(served: Served) -> str:
    return f"{_group_word(served)}_{served.resource.version}"


def _group_word(served: Served) -> str:
    return served.resource.group.removesuffix(".k8s.io").replace(".", "_") or "core"


def _operation_id(served: Served, verb: str, suffix: str, subresource: Subresource | None) -> str:
    group = "".join(word.capitalize() for word in _group_word(served).replace("-", "_").split("_"))
    version = served.resource.version.capitalize()
    scope = "Namespaced" if served.resource.namespaced and not suffix else ""
    inner = subresource.name.capitalize() if subresource is not None else ""
    return f"{_IDS.get(verb, verb)}{group}{version}{scope}{served.resource.kind}{inner}{suffix}"
