"""The paths of an OpenAPI document: for each resource its operations, with the query parameters each understands.

kubectl reads from here whether the server validates fields and supports dry runs, and which kind stands behind a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, cast

from steelyard.kube.builtin import tables, types
from steelyard.kube.objects import Object
from steelyard.kube.server.catalogue.registry import Served, Subresource
from steelyard.kube.server.openapi import components

_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_CUSTOM_PATCHES: Final = tuple(each for each in _PATCHES if "strategic" not in each)
_IDS: Final = {"get": "read", "update": "replace"}


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
_DELETE: Final = [
    _query("dryRun"),
    _query("gracePeriodSeconds", "integer"),
    _query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    _query("orphanDependents", "boolean"),
    _query("propagationPolicy"),
]
_ONLY_OF_WATCHES: Final = ("allowWatchBookmarks", "watch")


def _by_name(parameters: Iterable[Object]) -> list[Object]:
    return sorted(parameters, key=lambda parameter: parameter["name"])


_PARAMETERS: Final[dict[str, list[Object]]] = {
    "list": _LIST,
    "get": [],
    "create": _WRITE,
    "update": _WRITE,
    "patch": [*_WRITE, _query("force", "boolean")],
    "delete": _DELETE,
    "deletecollection": _by_name([*_DELETE, *(each for each in _LIST if each["name"] not in _ONLY_OF_WATCHES)]),
}
_CUSTOM_PARAMETERS: Final = {**_PARAMETERS, "get": [_query("resourceVersion")], "deletecollection": _LIST}
"""What kube-apiserver says of custom resources is written by other code, and differs in places."""
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
_CODES: Final = {"create": ("200", "201", "202"), "update": ("200", "201"), "delete": ("200", "202")}
_MEANINGS: Final = {"200": "OK", "201": "Created", "202": "Accepted"}
_FORMS: Final = ("application/json", "application/vnd.kubernetes.protobuf", "application/yaml")
_LIST_FORMS: Final = (
    "application/json",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/yaml",
)
_CUSTOM_FORMS: Final = ("application/json", "application/yaml")


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
            made[path] = _path_item(path, operations)
    if everywhere != collection and "list" in served.verbs:
        listing = _operation(served, "list", component, list_component, suffix="ForAllNamespaces")
        made[everywhere] = _path_item(everywhere, {"get": listing})
    for inner in served.subresources.values():
        made[f"{item}/{inner.name}"] = _subresource(served, inner, component, f"{item}/{inner.name}")
    return made


def _subresource(served: Served, inner: Subresource, component: str, path: str) -> Object:
    own = (inner.group, inner.version, inner.kind)
    is_whole = own == (served.resource.group, served.resource.version, served.resource.kind)
    body = component if is_whole else subresource_component(inner)
    operations = {
        _METHODS[verb]: _operation(served, verb, body, body, subresource=inner)
        for verb in inner.verbs
        if verb in _METHODS
    }
    return _path_item(path, operations)


def subresource_type(inner: Subresource) -> str:
    """The built-in type of a subresource that has a kind of its own, such as Scale."""
    found = tables.type_name(inner.group, inner.version, inner.kind)
    if found is None:
        raise KeyError(f"{inner.group}/{inner.version} {inner.kind}")
    return found


def subresource_component(inner: Subresource) -> str:
    return components.builtin_name(subresource_type(inner))


def _path_item(path: str, operations: dict[str, Object]) -> Object:
    """The operations of a path. A parameter that all of them understand is the path's."""
    in_path = [_in_path(name) for name in ("name", "namespace") if f"{{{name}}}" in path]
    first, *others = [cast("list[Object]", operation["parameters"]) for operation in operations.values()]
    shared = [each for each in first if all(each in other for other in others)]
    made: Object = {}
    for method, operation in operations.items():
        own = [each for each in operation["parameters"] if each not in shared]
        made[method] = {name: value for name, value in operation.items() if name != "parameters"}
        if own:
            made[method]["parameters"] = own
    return {**made, "parameters": _by_name([*in_path, *shared, _query("pretty")])}


def _operation(
    served: Served,
    verb: str,
    body: str,
    answer: str,
    *,
    suffix: str = "",
    subresource: Subresource | None = None,
) -> Object:
    is_custom = served.custom is not None
    kind = components.gvk(served.resource)
    if subresource is not None and not is_custom:
        kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
    if verb in {"delete", "deletecollection"}:
        answer = components.builtin_name(f"{types.META}.Status")
    operation: Object = {
        "tags": [f"{_camel_case(_group(served))}_{served.resource.version}"],
        "operationId": _operation_id(served, verb, suffix, subresource),
        "parameters": (_CUSTOM_PARAMETERS if is_custom else _PARAMETERS)[verb],
        "responses": _responses(verb, answer, is_custom=is_custom),
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        components.GVK: kind,
    }
    read = _CUSTOM_FORMS if is_custom else ("*/*",)
    if verb in {"create", "update"}:
        operation["requestBody"] = {"content": _content(read, body), "required": True}
    elif verb == "patch":
        media = _CUSTOM_PATCHES if is_custom else _PATCHES
        operation["requestBody"] = {"content": _content(media, components.PATCH), "required": True}
    elif verb == "delete" or (verb == "deletecollection" and not is_custom):
        operation["requestBody"] = {"content": _content(read, components.builtin_name(f"{types.META}.DeleteOptions"))}
    return operation


def _responses(verb: str, component: str, *, is_custom: bool) -> Object:
    forms = _CUSTOM_FORMS if is_custom else _LIST_FORMS if verb == "list" else _FORMS
    codes = _CODES.get(verb, ("200",))
    if verb == "patch" and not is_custom:
        codes = ("200", "201")
    made: Object = {code: {"description": _MEANINGS[code], "content": _content(forms, component)} for code in codes}
    return {**made, "401": {"description": "Unauthorized"}}


def _content(media: tuple[str, ...], component: str) -> Object:
    return {each: {"schema": components.reference(component)} for each in media}


def _group(served: Served) -> str:
    return served.resource.group.removesuffix(".k8s.io") or "core"


def _camel_case(text: str) -> str:
    """`rbac.authorization` is `rbacAuthorization`."""
    first, *others = re.split(r"[^\w]+", text)
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def _operation_id(served: Served, verb: str, suffix: str, subresource: Subresource | None) -> str:
    group = _camel_case(f".{_group(served)}.{served.resource.version}")
    scope = "Namespaced" if served.resource.namespaced and not suffix else ""
    inner = subresource.name.capitalize() if subresource is not None else ""
    verb, collection = ("delete", "Collection") if verb == "deletecollection" else (_IDS.get(verb, verb), "")
    return f"{verb}{group}{collection}{scope}{served.resource.kind}{inner}{suffix}"
