"""Which resources a server serves, and everything the verbs need to know about each.

The built-in kinds are the same for every server of the process and described once; custom resources are described once
per content of their definition. A server without definitions of its own costs two empty dictionaries.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.frozen import frozen
from steelyard.kube import jsonpath, objects
from steelyard.kube.builtin import encoding, tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema.model import Schema
from steelyard.kube.server.definitions import counterparts
from steelyard.kube.server.definitions.counterparts import Counterpart
from steelyard.kube.server.definitions.customresources import ServedVersion
from steelyard.kube.server.printing import columns
from steelyard.kube.server.printing.columns import Columns
from steelyard.kube.server.strategies import lookup
from steelyard.kube.server.strategies.base import Strategy
from steelyard.kube.server.webhooks.conversion import Conversion

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_IMPLEMENTED = frozenset({"status", "scale", "finalize", "approval", "token", "eviction"})
_NOT_SERVED = frozenset({("", "bindings"), ("", "componentstatuses")})
_PLAIN = Strategy()
_NOTHING: Object = {}
_REVIEWS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


@frozen
class Subresource:
    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...] = ("get", "patch", "update")


@frozen
class Scale:
    """Where an object keeps what its scale subresource shows."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Served:
    """One resource in one version. Described once, so identity is equality."""

    resource: Resource
    builtin_schema: Schema | None
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict[str, Subresource])
    scale: Scale | None = None
    columns: Columns = ()
    fields: Mapping[str, jsonpath.Path] = field(default_factory=dict[str, jsonpath.Path])
    """What field selectors may name, besides the object's name and namespace."""
    strategy: Strategy = _PLAIN
    custom: ServedVersion | None = None
    """The definition's version that this is; None for a built-in kind."""
    storage_version: str = ""
    """The apiVersion that stored objects carry; another version of the same resource shares them."""
    deprecation: str = ""
    """The warning that every request for this version gets."""
    terminating: bool = False
    """The definition is being deleted: nothing new may come."""
    has_status: bool = False
    conversion: Conversion | Counterpart | None = None
    """How stored objects of other versions are read where that takes more than another apiVersion."""
    opening: bytes = b""
    """How the JSON of every object in this version begins: objects are written apiVersion first."""
    go_type: str = ""
    """The type that a built-in kind's objects have upstream; custom resources have none but for their metadata."""
    mark: object = field(default_factory=object)
    """Stands for this description where that alone must not keep it, with all that was made of it, in memory."""

    @property
    def schema(self) -> Schema:
        schema = self.custom.schema if self.custom is not None else self.builtin_schema
        assert schema is not None
        return schema

    @property
    def blank(self) -> Object:
        """An object of which nothing is set, as every create starts from; shared, read-only."""
        return encoding.blank(self.go_type) if self.go_type else _NOTHING

    @property
    def group_resource(self) -> str:
        return self.resource.group_resource

    @property
    def home_group(self) -> str:
        """The group of the kind as it is stored, by which refusals name it."""
        return "" if isinstance(self.conversion, Counterpart) else self.resource.group

    @property
    def is_review(self) -> bool:
        """A question that is answered and never stored."""
        return self.resource.group in _REVIEWS


def opening(api_version: str) -> bytes:
    return b'{"apiVersion":"%b",' % api_version.encode()


class Registry:
    """The resources of one server."""

    __slots__ = ("_custom", "_definitions", "_since", "revision")

    def __init__(self) -> None:
        self._custom: dict[tuple[str, str, str], Served] = {}
        self._definitions: dict[str, tuple[Served, ...]] = {}
        self._since: dict[tuple[str, str], int] = {}
        """Group and plural to the last revision at which the definition was another one."""
        self.revision = 0
        """Grows with every change: what is made from the registry is out of date when it has."""

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return builtin().get((group, version, plural)) or self._custom.get((group, version, plural))

    def of_kind(self, group: str, kind: str) -> Served | None:
        """The resource of a kind in whichever version: owner references name kinds."""
        found = _builtin_kinds().get((group, kind))
        if found is not None:
            return found
        for served in self._custom.values():
            if served.resource.kind == kind and served.resource.group == group:
                return served
        return None

    def of_collection(self, group: str, plural: str) -> Served | None:
        """The resource in whichever version: keys name none."""
        found = _builtin_collections().get((group, plural))
        if found is not None:
            return found
        for served in self._custom.values():
            if served.resource.plural == plural and served.resource.group == group:
                return served
        return None

    def all(self) -> list[Served]:
        """As of now; also for another thread."""
        return [*builtin().values(), *self._custom.values()]

    def collections(self) -> Iterator[Served]:
        """Every stored resource once."""
        yield from _builtin_collections().values()
        seen: set[tuple[str, str]] = set()
        for served in self._custom.values():
            identity = (served.resource.group, served.resource.plural)
            if identity not in seen:
                seen.add(identity)
                yield served

    @property
    def has_custom(self) -> bool:
        return bool(self._custom)

    def custom(self) -> list[Served]:
        """As of now; also for another thread."""
        return list(self._custom.values())

    def since(self, served: Served) -> int:
        """Objects of a later revision were stored under the definition as it is."""
        resource = served.resource
        return self._since.get((resource.group, resource.plural), 0) if served.custom is not None else 0

    def serve(self, definition: str, versions: tuple[Served, ...], since: int = 0) -> None:
        """From now on, which is after that revision, the definition's resources are these; none, and it is served no
        more.
        """
        if self._definitions.get(definition, ()) == versions:
            return
        for served in self._definitions.pop(definition, ()):
            self._custom.pop(_identity(served.resource), None)
        if versions:
            self._definitions[definition] = versions
            for served in versions:
                self._custom[_identity(served.resource)] = served
                self._since[served.resource.group, served.resource.plural] = since
        self.revision += 1


def _identity(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


@functools.cache
def builtin() -> Mapping[tuple[str, str, str], Served]:
    return {
        _identity(kind.resource): _of_builtin(kind)
        for kind in tables.kinds()
        if (kind.resource.group, kind.resource.plural) not in _NOT_SERVED
    }


@functools.cache
def _builtin_kinds() -> Mapping[tuple[str, str], Served]:
    return {(served.resource.group, served.resource.kind): served for served in reversed(list(builtin().values()))}


@functools.cache
def _builtin_collections() -> Mapping[tuple[str, str], Served]:
    return {
        (served.resource.group, served.resource.plural): served
        for served in reversed(list(builtin().values()))
        if not served.is_review
    }


def _of_builtin(kind: tables.BuiltinKind) -> Served:
    resource = kind.resource
    counterpart = counterparts.of(resource.group, resource.plural)
    subresources = {
        each.name: Subresource(each.name, each.group, each.version, each.kind, each.verbs)
        for each in kind.subresources
        if each.name in _IMPLEMENTED
    }
    return Served(
        resource,
        tables.schema(resource.group, resource.version, resource.kind),
        kind.singular,
        f"{resource.kind}List",
        kind.short_names,
        kind.categories,
        kind.verbs,
        subresources,
        Scale(("spec", "replicas"), ("status", "replicas"), ("spec", "selector")) if "scale" in subresources else None,
        columns.builtin(resource.group, resource.plural),
        {
            name: _COMPUTED.get(name) or jsonpath.compile_path(f".{name}")
            for name in _FIELDS.get((resource.group, resource.plural), ())
        },
        strategy=lookup.of(resource),
        storage_version=counterpart.stored_version if counterpart is not None else resource.api_version,
        has_status="status" in subresources,
        conversion=counterpart,
        deprecation=_DEPRECATED.get((resource.group, resource.plural), ""),
        opening=opening(resource.api_version),
        go_type=tables.type_name(resource.group, resource.version, resource.kind) or "",
    )


def _event_source(events: list[Any]) -> list[Any]:
    """Who reported: old clients say it in one place, new ones in another."""
    return [objects.at(event, "source", "component") or event.get("reportingComponent") for event in events]


def _unschedulable(nodes: list[Any]) -> list[Any]:
    return [bool(objects.at(node, "spec", "unschedulable")) for node in nodes]


_COMPUTED: Mapping[str, jsonpath.Path] = {"source": (_event_source,), "spec.unschedulable": (_unschedulable,)}
_DEPRECATED: Mapping[tuple[str, str], str] = {
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
    "reportingComponent", "source", "type",
)  # fmt: skip
_FIELDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "secrets"): ("type",),
    ("", "namespaces"): ("status.phase",),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "pods"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "events"): _EVENT_FIELDS,
    ("events.k8s.io", "events"): (
        "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
        "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type",
    ),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
}  # fmt: skip
