"""Discovery: which groups, versions and resources are served, in the plain and in the aggregated form.

Documents are made when first asked for and kept until the registry changes. Servers without definitions of their own
share one set. Groups come in upstream's order, custom ones by name; versions newest and most stable first.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import orjson

from steelyard.kube.objects import Object
from steelyard.kube.server.registry import Registry, Served, Subresource

JSON: Final = "application/json"
AGGREGATED_V2: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED: Final = re.compile(
    r"application/json\s*;(?=[^,]*\bg=apidiscovery\.k8s\.io)(?=[^,]*\bas=APIGroupDiscoveryList)[^,]*\bv=(v2(?:beta1)?)\b"
)
_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?\Z")


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    content_type: str
    etag: str


class Discovery:
    """The discovery documents of one server."""

    __slots__ = ("_documents", "_registry", "_revision")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._documents: dict[tuple[str, str], Document] = {}

    def document(self, path: str, accept: str) -> Document | None:
        """The document at `/api`, `/apis`, `/api/v1`, `/apis/<group>` or `/apis/<group>/<version>`; None elsewhere."""
        path = path.rstrip("/")
        if path not in {"/api", "/apis"} and not path.startswith(("/api/", "/apis/")):
            return None
        aggregated = _AGGREGATED.search(accept) if path in {"/api", "/apis"} else None
        form = aggregated[1] if aggregated else ""
        if not self._registry.has_custom:
            return _builtin_document(path, form)
        if self._revision != self._registry.revision:
            self._documents.clear()
            self._revision = self._registry.revision
        found = self._documents.get((path, form))
        if found is None and (found := _document(self._registry.all(), path, form)) is not None:
            self._documents[path, form] = found
        return found


@functools.lru_cache(maxsize=256)
def _builtin_document(path: str, form: str) -> Document | None:
    return _document(Registry().all(), path, form)


def _document(resources: Iterable[Served], path: str, form: str) -> Document | None:
    groups = _grouped(resources)
    _, _, *steps = path.split("/")
    is_core = path == "/api" or path.startswith("/api/")
    if form:
        body = _aggregated({"": groups.pop("")} if is_core else _without_core(groups), form)
        return _encoded(body, f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList")
    match (is_core, steps):
        case (True, []):
            return _encoded({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        case (True, [version]):
            return _resource_list(groups[""].get(version))
        case (False, []):
            listed = [_group(name, versions) for name, versions in _without_core(groups).items()]
            return _encoded({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        case (False, [group]) if group in groups and group:
            return _encoded({"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])})
        case (False, [group, version]) if group in groups and group:
            return _resource_list(groups[group].get(version))
        case _:
            return None


def _grouped(resources: Iterable[Served]) -> dict[str, dict[str, list[Served]]]:
    """Built-in groups come in the table's order, custom ones after them by name."""
    groups: dict[str, dict[str, list[Served]]] = {}
    for served in sorted(resources, key=lambda each: each.resource.group if each.custom else ""):
        groups.setdefault(served.resource.group, {}).setdefault(served.resource.version, []).append(served)
    for name, versions in groups.items():
        groups[name] = {
            version: sorted(versions[version], key=lambda each: each.resource.plural)
            for version in sorted(versions, key=version_rank, reverse=True)
        }
    return groups


def _without_core(groups: dict[str, dict[str, list[Served]]]) -> dict[str, dict[str, list[Served]]]:
    return {name: versions for name, versions in groups.items() if name}


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Sorts v2 over v1 over v1beta2 over v1beta1 over v1alpha1 over anything else."""
    found = _VERSION.match(version)
    if found is None:
        return (0, 0, 0, version)
    stability = {None: 3, "beta": 2, "alpha": 1}[found[2]]
    return (stability, int(found[1]), int(found[3] or 0), "")


def _group(name: str, versions: Iterable[str]) -> Object:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(resources: list[Served] | None) -> Document | None:
    if not resources:
        return None
    listed: list[Object] = []
    for served in resources:
        resource = served.resource
        entry: Object = {
            "name": resource.plural,
            "singularName": served.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(served.verbs),
        }
        if served.short_names:
            entry["shortNames"] = list(served.short_names)
        if served.categories:
            entry["categories"] = list(served.categories)
        if "list" in served.verbs:
            entry["storageVersionHash"] = _hash(f"{resource.group}/{served.storage_version}/{resource.kind}")[:11] + "="
        listed.append(entry)
        listed.extend(_subresource(served, each) for each in served.subresources.values())
    return _encoded(
        {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": resources[0].resource.api_version,
            "resources": listed,
        }
    )


def _subresource(served: Served, subresource: Subresource) -> Object:
    entry: Object = {
        "name": f"{served.resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
    }
    if (subresource.group, subresource.version) != (served.resource.group, served.resource.version):
        entry |= {"group": subresource.group, "version": subresource.version}
    return entry | {"kind": subresource.kind, "verbs": list(subresource.verbs)}


def _aggregated(groups: dict[str, dict[str, list[Served]]], form: str) -> Object:
    items: list[Object] = []
    for name, versions in groups.items():
        listed: list[Object] = [
            {"version": version, "resources": list(map(_aggregated_resource, resources)), "freshness": "Current"}
            for version, resources in versions.items()
        ]
        metadata: Object = {"creationTimestamp": None}
        if name:
            metadata["name"] = name
        items.append({"metadata": metadata, "versions": listed})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": items,
    }


def _aggregated_resource(served: Served) -> Object:
    resource = served.resource
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": list(served.verbs),
    }
    if served.short_names:
        entry["shortNames"] = list(served.short_names)
    if served.categories:
        entry["categories"] = list(served.categories)
    if served.subresources:
        entry["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": {"group": each.group, "version": each.version, "kind": each.kind},
                "verbs": list(each.verbs),
            }
            for each in served.subresources.values()
        ]
    return entry


def _encoded(body: Object, content_type: str = JSON) -> Document:
    encoded = orjson.dumps(body)
    return Document(encoded, content_type, f'"{hashlib.sha256(encoded).hexdigest().upper()}"')


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
