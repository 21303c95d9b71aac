"""Which resources a server serves: aggregated discovery where the server has it, group by group where not."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

Fetch = Callable[[str, str], Awaitable[Any]]
"""Path and Accept header to the decoded document."""


@frozen
class Entry:
    """A resource, and the words by which people ask for it."""

    resource: Resource
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


async def discover(fetch: Fetch) -> Sequence[Resource]:
    """Every resource that can be listed, in the most preferred version of its group that has it."""
    return [entry.resource for entry in await entries(fetch)]


async def entries(fetch: Fetch) -> Sequence[Entry]:
    """The same, each with its other names."""
    found: dict[tuple[str, str], Entry] = {}
    for path in ("/api", "/apis"):
        document = objects.mapping(await fetch(path, AGGREGATED))
        if document.get("kind") == "APIGroupDiscoveryList":
            listed = _aggregated(document)
        else:
            listed = await _plain(document, path, fetch)
        for entry in listed:
            found.setdefault((entry.resource.group, entry.resource.plural), entry)
    return list(found.values())


async def kinds(fetch: Fetch, api_version: str) -> dict[str, Resource]:
    """The resources of one group and version by their kind. Raises `errors.NotFound` where it is not served."""
    group, version = split_api_version(api_version)
    parts = ("apis", group, version) if group else ("api", version)
    path = "/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)
    listed = objects.mapping(await fetch(path, "application/json"))
    found: dict[str, Resource] = {}
    for entry in _objects(listed.get("resources")):
        plural, kind = str(entry.get("name") or ""), str(entry.get("kind") or "")
        if "/" not in plural:
            found[kind] = Resource(group, version, plural, kind, namespaced=bool(entry.get("namespaced")))
    return found


def _aggregated(document: Object) -> Iterable[Entry]:
    for group in _objects(document.get("items")):
        for version in _objects(group.get("versions")):
            for entry in _objects(version.get("resources")):
                if "list" in objects.sequence(entry.get("verbs")):
                    resource = Resource(
                        objects.name(group),
                        str(version.get("version")),
                        str(entry.get("resource")),
                        str(objects.at(entry, "responseKind", "kind")),
                        namespaced=entry.get("scope") == "Namespaced",
                    )
                    yield _entry(resource, entry, "singularResource")


async def _plain(document: Object, path: str, fetch: Fetch) -> list[Entry]:
    if document.get("kind") == "APIVersions":
        api_versions = [str(version) for version in objects.sequence(document.get("versions"))]
    else:
        api_versions = [each for group in _objects(document.get("groups")) for each in _preferred_first(group)]
    found: list[Entry] = []
    for api_version in api_versions:
        group, version = split_api_version(api_version)
        listed = objects.mapping(await fetch(f"{path}/{api_version}", "application/json"))
        for entry in _objects(listed.get("resources")):
            if "/" not in str(entry.get("name")) and "list" in objects.sequence(entry.get("verbs")):
                is_namespaced = bool(entry.get("namespaced"))
                resource = Resource(group, version, str(entry["name"]), str(entry["kind"]), namespaced=is_namespaced)
                found.append(_entry(resource, entry, "singularName"))
    return found


def _entry(resource: Resource, listed: Object, singular: str) -> Entry:
    return Entry(
        resource,
        str(listed.get(singular) or "") or resource.kind.lower(),
        tuple(map(str, objects.sequence(listed.get("shortNames")))),
        tuple(map(str, objects.sequence(listed.get("categories")))),
    )


def _preferred_first(group: Object) -> list[str]:
    preferred = str(objects.at(group, "preferredVersion", "groupVersion"))
    listed = [str(version.get("groupVersion")) for version in _objects(group.get("versions"))]
    return sorted(listed, key=lambda api_version: api_version != preferred)


def _objects(value: Any) -> list[Object]:
    return cast("list[Object]", objects.sequence(value))
