"""Which resources a server serves: aggregated discovery where the server has it, group by group where not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

Fetch = Callable[[str, str], Awaitable[Any]]
"""Path and Accept header to the decoded document."""


async def discover(fetch: Fetch) -> Sequence[Resource]:
    """Every resource that can be listed, in the most preferred version of its group that has it."""
    found: dict[tuple[str, str], Resource] = {}
    for path in ("/api", "/apis"):
        document = objects.mapping(await fetch(path, AGGREGATED))
        if document.get("kind") == "APIGroupDiscoveryList":
            resources = _aggregated(document)
        else:
            resources = await _plain(document, path, fetch)
        for resource in resources:
            found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())


def _aggregated(document: Object) -> Iterable[Resource]:
    for group in _objects(document.get("items")):
        for version in _objects(group.get("versions")):
            for entry in _objects(version.get("resources")):
                if "list" in objects.sequence(entry.get("verbs")):
                    yield Resource(
                        objects.name(group),
                        str(version.get("version")),
                        str(entry.get("resource")),
                        str(objects.at(entry, "responseKind", "kind")),
                        namespaced=entry.get("scope") == "Namespaced",
                    )


async def _plain(document: Object, path: str, fetch: Fetch) -> list[Resource]:
    if document.get("kind") == "APIVersions":
        api_versions = [str(version) for version in objects.sequence(document.get("versions"))]
    else:
        api_versions = [each for group in _objects(document.get("groups")) for each in _preferred_first(group)]
    found: list[Resource] = []
    for api_version in api_versions:
        group, version = split_api_version(api_version)
        listed = objects.mapping(await fetch(f"{path}/{api_version}", "application/json"))
        found += [
            Resource(group, version, str(entry["name"]), str(entry["kind"]), namespaced=bool(entry.get("namespaced")))
            for entry in _objects(listed.get("resources"))
            if "/" not in str(entry.get("name")) and "list" in objects.sequence(entry.get("verbs"))
        ]
    return found


def _preferred_first(group: Object) -> list[str]:
    preferred = str(objects.at(group, "preferredVersion", "groupVersion"))
    listed = [str(version.get("groupVersion")) for version in _objects(group.get("versions"))]
    return sorted(listed, key=lambda api_version: api_version != preferred)


def _objects(value: Any) -> list[Object]:
    return cast("list[Object]", objects.sequence(value))
