"""From a URL path and a method to the verb and resource they mean, as Kubernetes reads them.

    GET    /api/v1/namespaces/default/pods?watch=true        watch pods in default
    PUT    /apis/apps/v1/namespaces/a/deployments/b/status    update the status of deployment a/b
    GET    /api/v1/watch/namespaces/default/pods/b            watch, the legacy way
    DELETE /api/v1/nodes                                      deletecollection nodes

Whether such a resource is served, and whether it has such a verb there, is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from steelyard.kube import errors
from steelyard.kube.builtin import tables
from steelyard.kube.server.call import Verb

_NAMESPACE_SUBRESOURCES: Final = frozenset(("status", "finalize"))
_VERBS: Final[Mapping[str, Verb]] = {
    "GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete",
}  # fmt: skip
_OF_COLLECTIONS: Final[Mapping[Verb, Verb]] = {"get": "list", "delete": "deletecollection"}
_ON_COLLECTION: Final = frozenset(("GET", "POST", "DELETE"))
_ON_OBJECT: Final = frozenset(("GET", "PUT", "PATCH", "DELETE"))
_ON_SUBRESOURCE: Final = _ON_OBJECT | {"POST"}
_FALSE: Final = frozenset(("false", "0"))
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_MAX_PAIRS: Final = 100
_NOT_FOUND: Final = "the server could not find the requested resource"


@dataclass(slots=True)
class Route:
    verb: Verb
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    regular: bool = True
    """Whether built-in resources take the method on such a path; custom ones go by the verb alone."""


def route(method: str, path: str, options: dict[str, str]) -> Route | None:
    """The resource request, or None for a path that names no resource (`/healthz`, `/apis/apps/v1`).

    Raises NotFound for a path below `/api` or `/apis` that can mean nothing. A legacy watch of one object becomes a
    field selector in `options`.
    """
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if parts[0] == "api":
        start = 2
        group = ""
    elif parts[0] == "apis":
        start = 3
        group = parts[1] if len(parts) > 1 else ""
    else:
        return None
    if len(parts) <= start:
        return None
    version = parts[start - 1]
    rest = parts[start:]
    if "" in rest:
        raise not_found(path)
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace = rest[1]
        rest = rest[2:]
    if len(rest) > 3:
        raise not_found(path)
    plural, name, subresource = (*rest, "", "")[:3]
    if legacy_watch:
        return _legacy_watch(method, Route("watch", group, version, plural, namespace, name, subresource), options)
    verb: Verb = _VERBS.get(method, "")
    if not name:
        verb = _OF_COLLECTIONS.get(verb, verb)
    if verb == "list" and "watch" in options and options["watch"].lower() not in _FALSE:
        verb = "watch"
    regular = method in (_ON_SUBRESOURCE if subresource else _ON_OBJECT if name else _ON_COLLECTION)
    return Route(verb, group, version, plural, namespace, name, subresource, regular)


def _legacy_watch(method: str, found: Route, options: dict[str, str]) -> Route:
    found.regular = method == "GET"
    if found.subresource:
        raise errors.NotFound(_NOT_FOUND)
    if found.name:
        options["fieldSelector"] = f"metadata.name={found.name}"
        found.name = ""
    return found


def query(text: bytes) -> dict[str, str]:
    """The parameters; of one given twice the first counts, as upstream, but dryRun is a list: its values come as lines.
    Raises BadRequest."""
    options: dict[str, str] = {}
    for key, value in pairs(text):
        if key == "dryRun" and key in options:
            value = f"{options.pop(key)}\n{value}"
        options.setdefault(key, value)
    return options


def pairs(text: bytes) -> list[tuple[str, str]]:
    """All parameters in their order, as Go reads them: a pair that has a semicolon, or whose name or value has a bad
    escape, is none, and the others count. Raises BadRequest for what is no text, and for very many."""
    if text.count(b"&") >= _MAX_PAIRS:
        raise _unreadable()
    found: list[tuple[str, str]] = []
    try:
        for pair in text.decode("utf-8").split("&"):
            if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
                key, _, value = pair.partition("=")
                found.append((unquote_plus(key, errors="strict"), unquote_plus(value, errors="strict")))
    except ValueError:
        raise _unreadable() from None
    return found


def _unreadable() -> errors.BadRequest:
    return errors.BadRequest("the query string is not valid")


def not_found(path: str) -> errors.NotFound:
    """A path within Kubernetes' own groups is answered with a Status, any other with plain text."""
    top, _, rest = path.removeprefix("/").partition("/")
    group = rest.partition("/")[0]
    is_own = top == "api" or (top == "apis" and group != "" and group in tables.groups())
    return errors.NotFound(_NOT_FOUND) if is_own else errors.NoSuchPath(_NOT_FOUND)
