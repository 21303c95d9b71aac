"""Where objects live in the store.

`<space>/<group or core>/<plural>/<namespace>/<name>`, without the namespace for cluster-scoped kinds. A space is one
API server's share of a store, so that many servers can share one file and one writer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from steelyard.kube.resources import Resource

_GROUPS: Final = {"": "core", "events.k8s.io": "core"}
"""The events of both groups are the same objects."""
_UPSTREAM = {
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}


class Location(NamedTuple):
    """A key taken apart."""

    group: str
    plural: str
    rest: tuple[str, ...]

    @property
    def namespace(self) -> str:
        return self.rest[0] if len(self.rest) == 2 else ""

    @property
    def name(self) -> str:
        return self.rest[-1]


def collection(space: str, group: str, plural: str, namespace: str = "") -> str:
    prefix = f"{space}/{_GROUPS.get(group, group)}/{plural}/"
    return f"{prefix}{namespace}/" if namespace else prefix


def key(space: str, resource: Resource, namespace: str, name: str) -> str:
    group = resource.group
    prefix = f"{space}/{_GROUPS.get(group, group)}/{resource.plural}/"
    return f"{prefix}{namespace}/{name}" if resource.namespaced and namespace else prefix + name


def upstream(resource: Resource, namespace: str, name: str, *, custom: bool) -> str:
    """Where kube-apiserver keeps the object in etcd: some of its messages say it."""
    plural = _UPSTREAM.get(resource.plural, resource.plural)
    if custom or resource.group in ("apiextensions.k8s.io", "apiregistration.k8s.io"):
        plural = f"{resource.group}/{resource.plural}"
    return "/".join(filter(None, ("/registry", plural, namespace, name)))


def collection_of(key: str) -> str:
    """The prefix of all objects of the key's resource: what watches are grouped by."""
    return key[: key.index("/", key.index("/", key.index("/") + 1) + 1) + 1]


def locate(key: str) -> Location:
    _, group, plural, *rest = key.split("/")
    return Location("" if group == "core" else group, plural, tuple(rest))
