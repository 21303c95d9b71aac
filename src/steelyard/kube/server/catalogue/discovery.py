"""Discovery: which groups, versions and resources are served, in the plain and in the aggregated form.

Documents are made when first asked for and kept until the registry changes. Servers without definitions of their own
share one set. Groups come in upstream's order, custom ones by name; versions newest and most stable first.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from steelyard.kube import remembering
from steelyard.kube.objects import Object
from steelyard.kube.resources import version_rank
from steelyard.kube.server.bodies import documents
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.catalogue.registry import Registry, Served, Subresource

AGGREGATED_V2: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_AGGREGATED: Final = re.compile(
    r"application/json\s*;(?=[^,]*\bg=apidiscovery\.k8s\.io)(?=[^,]*\bas=APIGroupDiscoveryList)[^,]*\bv=(v2)\b"
)
_STORED_AS: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("events.k8s.io/v1", "Event"): ("", "v1"),
    ("autoscaling/v1", "HorizontalPodAutoscaler"): ("autoscaling", "v2"),
    ("storage.k8s.io/v1", "VolumeAttributesClass"): ("storage.k8s.io", "v1beta1"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): ("apiextensions.k8s.io", "v1beta1"),
    **{
        ("resource.k8s.io/v1", kind): ("resource.k8s.io", "v1beta2")
        for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
    },
}
"""Kinds whose storage version in this release of Kubernetes is another than the one served; others hash their own."""
_TERMINATING_VERBS: Final = ("delete", "deletecollection", "get", "list", "watch")
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class Discovery:
    """The discovery documents of one server."""

    __slots__ = ("_documents", "_registry", "_revision")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._revision = -1
        self._documents: dict[tuple[str, str], Document] = {}

    def document(self, path: str, accept: str, address: str = "") -> Document | None:
        """The document at `/api`, `/apis`, `/api/v1`, `/apis/<group>` or `/apis/<group>/<version>`; None elsewhere.

        `address` is where the server is reached, as `host:port`.
        """
        path = path.removesuffix("/")
        if path not in {"/api", "/apis"} and not path.startswith(("/api/", "/apis/")):
            return None
        aggregated = _AGGREGATED.search(accept) if path in {"/api", "/apis"} else None
        form = aggregated[1] if aggregated else ""
        if path == "/api" and not form:
            return _core_versions(address)
        if not self._registry.has_custom:
            return _builtin_document(path, form)
        if self._revision != self._registry.revision:
            self._documents.clear()
            self._revision = self._registry.revision
        found = self._documents.get((path, form))
        if found is None and (found := _document(self._registry.all(), path, form)) is not None:
            self._documents[path, form] = found
        return found

    def paths(self) -> list[str]:
        """Where it has a document, as `GET /` lists them."""
        groups = _without_core(_grouped(self._registry.all()))
        listed = ["/api", "/api/v1", "/apis", "/apis/"]
        for group, versions in groups.items():
            listed += (f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions))
        return listed


@remembering.briefly(256)
def _core_versions(address: str) -> Document:
    reached = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}] if address else []
    listed: Object = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": reached}
    return _plain(listed, only_get=True)


@remembering.briefly(256)
def _builtin_document(path: str, form: str) -> Document | None:
    return _document(Registry().all(), path, form)


def _document(resources: Iterable[Served], path: str, form: str) -> Document | None:
    groups = _grouped(resources)
    _, _, *steps = path.split("/")
    is_core = path == "/api" or path.startswith("/api/")
    if form:
        return _aggregated({"": groups.pop("")} if is_core else _without_core(groups), form)
    match (is_core, steps):
        case (True, [version]):
            return _resource_list(groups[""].get(version))
        case (False, []):
            listed = [_group(name, versions) for name, versions in _without_core(groups).items()]
            return _plain({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        case (False, [group]) if group in groups and group:
            return _plain({"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])})
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
            "verbs": _verbs(served),
        }
        if served.short_names:
            entry["shortNames"] = list(served.short_names)
        if served.categories:
            entry["categories"] = list(served.categories)
        if "list" in served.verbs:
            entry["storageVersionHash"] = _storage_version_hash(served)
        listed.append(entry)
        listed.extend(_subresource(served, each) for each in _subresources(served))
    api_version = resources[0].resource.api_version
    body: Object = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed}
    if not resources[0].resource.group:
        # Upstream's core group has never said the version of its list.
        del body["apiVersion"]
    return _plain(body, only_get=resources[0].custom is None)


def _verbs(served: Served) -> list[str]:
    if served.custom is None:
        return list(served.verbs)
    return list(_TERMINATING_VERBS if served.terminating else _CUSTOM_VERBS)


def _subresources(served: Served) -> list[Subresource]:
    """Those of custom resources with the status first."""
    found = list(served.subresources.values())
    return sorted(found, key=lambda each: each.name != "status") if served.custom is not None else found


def _storage_version_hash(served: Served) -> str:
    """Changes when objects are stored in another version, which tells a client that it is time to rewrite them."""
    resource = served.resource
    group, _, version = served.storage_version.rpartition("/")
    if served.custom is None:
        group, version = _STORED_AS.get((resource.api_version, resource.kind), (group, version))
    hashed = hashlib.sha256(f"{group}/{version}/{resource.kind}".encode()).digest()
    return base64.b64encode(hashed[:8]).decode()


def _subresource(served: Served, subresource: Subresource) -> Object:
    entry: Object = {
        "name": f"{served.resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": served.resource.namespaced,
    }
    if (subresource.group, subresource.version) != (served.resource.group, served.resource.version):
        entry |= {"group": subresource.group, "version": subresource.version}
    return entry | {"kind": subresource.kind, "verbs": list(subresource.verbs)}


def _aggregated(groups: dict[str, dict[str, list[Served]]], form: str) -> Document:
    items: list[Object] = []
    for name, versions in groups.items():
        listed: list[Object] = [
            {"version": version, "resources": list(map(_aggregated_resource, resources)), "freshness": "Current"}
            for version, resources in versions.items()
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": listed})
    body: Object = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{form}",
        "metadata": {},
        "items": items,
    }
    encoded = orjson.dumps(body)
    content_type = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
    return Document(encoded, content_type, documents.digest(encoded), is_public=True)


def _response_kind(served: Served, group: str, version: str, kind: str) -> Object:
    """Built-in kinds name a group and version only where these are not those under which they are listed."""
    if served.custom is None and (group, version) == (served.resource.group, served.resource.version):
        group, version = "", ""
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(served: Served) -> Object:
    resource = served.resource
    entry: Object = {
        "resource": resource.plural,
        "responseKind": _response_kind(served, resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": _verbs(served),
    }
    if served.short_names:
        entry["shortNames"] = list(served.short_names)
    if served.categories:
        entry["categories"] = list(served.categories)
    if served.subresources:
        entry["subresources"] = [
            {
                "subresource": each.name,
                "responseKind": _response_kind(served, each.group, each.version, each.kind),
                "verbs": list(each.verbs),
            }
            for each in _subresources(served)
        ]
    return entry


def _plain(body: Any, *, only_get: bool = False) -> Document:
    return Document(orjson.dumps(body), only_get=only_get, negotiated=True)
