"""Objects of providers, met only through the fields that the Cluster API v1beta2 contract gives them.

A reference has group, kind and name but no version. The version to use is read, as upstream reads it, from the label
`cluster.x-k8s.io/v1beta2` on the kind's CRD. What a provider's kind is called and where it runs is none of our
business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.kube import errors, objects, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key

_CONTRACT_LABEL = "cluster.x-k8s.io/v1beta2"
TEMPLATE_SUFFIX = "Template"
_is_step = triggers.changed(("status", "initialization"), triggers.DELETION)
"""What others wait for. The rest is reported on."""

Tell: TypeAlias = Callable[[Key, Object | None, float], None]
"""Told whom a change concerns, what changed (None if it has gone), and for how many seconds that may wait."""


class Reference(NamedTuple):
    group: str
    kind: str
    name: str

    @classmethod
    def of(cls, value: object) -> Reference | None:
        """From `{apiGroup, kind, name}`; None where the field is not set."""
        reference = objects.mapping(value)
        if not reference.get("kind") or not reference.get("name"):
            return None
        return cls(str(reference.get("apiGroup") or ""), str(reference["kind"]), str(reference["name"]))

    def to_json(self) -> Object:
        return {"apiGroup": self.group, "kind": self.kind, "name": self.name}

    @property
    def group_kind(self) -> str:
        """`SimulatedMachineTemplate.infrastructure.cluster.x-k8s.io`, as the cloned-from annotation has it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def instance(self, name: str) -> Reference:
        """What is made from the template that this refers to."""
        return Reference(self.group, self.kind.removesuffix(TEMPLATE_SUFFIX), name)


class UnknownKind(Exception):
    """No CRD serves the kind, or it does not keep the contract; the message says what to install or label."""


class Externals:
    """Finds and watches objects of kinds that are known only at run time."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._informers = informers
        self._resources: dict[tuple[str, str], Resource] = {
            (resource.group, resource.kind): resource for resource in capi.ALL
        }
        self._watched: set[tuple[Resource, str]] = set()

    async def resource(self, group: str, kind: str) -> Resource:
        known = self._resources.get((group, kind))
        if known is not None and not self._has_gone(known):
            return known
        crd_name = f"{plural_of(kind)}.{group}"
        try:
            crd = await self._client.get(resources.CUSTOM_RESOURCE_DEFINITIONS, crd_name)
        except errors.NotFound as error:
            raise UnknownKind(
                f"no CustomResourceDefinition {crd_name}: install the provider that serves {kind}"
            ) from error
        served = str(objects.labels(crd).get(_CONTRACT_LABEL) or "")
        if not served:
            raise UnknownKind(f"CustomResourceDefinition {crd_name} has no label {_CONTRACT_LABEL}")
        found = Resource(
            group,
            served.split("_")[-1],
            str(objects.at(crd, "spec", "names", "plural") or plural_of(kind)),
            kind,
            namespaced=objects.at(crd, "spec", "scope") != "Cluster",
        )
        self._resources[group, kind] = found
        return found

    def _has_gone(self, resource: Resource) -> bool:
        """Whether its CRD was taken away since: it may come back with another version."""
        if resource in capi.ALL:
            return False
        informer = self._informers.find(resource)
        return informer is not None and informer.is_missing

    async def find(self, reference: Reference, namespace: str) -> Object | None:
        """The object, or None where it does not exist."""
        resource = await self.resource(reference.group, reference.kind)
        try:
            return await self._client.get(resource, reference.name, namespace)
        except errors.NotFound:
            return None

    async def watch(
        self,
        reference: Reference,
        watcher: str,
        mapper: Callable[[Object], Iterable[Key]],
        tell: Tell,
    ) -> None:
        """From now on changes of objects of this kind are told to those that the mapper names. Done once per kind and
        watcher."""
        resource = await self.resource(reference.group, reference.kind)
        if (resource, watcher) in self._watched:
            return
        self._watched.add((resource, watcher))

        def handler(old: Object | None, new: Object | None) -> None:
            has_come = old is None
            after = 0.0 if _is_step(old, new) and not has_come else triggers.REPORT_AFTER
            for obj in (new, old):
                if obj is not None:
                    for key in mapper(obj):
                        tell(key, new, after)

        self._informers.of(resource).on_change(handler)


def plural_of(kind: str) -> str:
    """The plural that Cluster API expects in a CRD's name."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return f"{lower}es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return f"{lower[:-1]}ies"
    return f"{lower}s"


def is_provisioned(infrastructure: Object) -> bool:
    return bool(objects.at(infrastructure, "status", "initialization", "provisioned"))


def endpoint(obj: Object) -> Object | None:
    """`spec.controlPlaneEndpoint` once both host and port are there."""
    found = objects.mapping(objects.at(obj, "spec", "controlPlaneEndpoint"))
    return {"host": found["host"], "port": found["port"]} if found.get("host") and found.get("port") else None


def endpoint_text(obj: Object) -> str:
    found = endpoint(obj)
    if found is None:
        return ""
    host = str(found["host"])
    return f"[{host}]:{found['port']}" if ":" in host else f"{host}:{found['port']}"


def clone(
    template: Object, reference: Reference, name: str, *, labels: dict[str, str], annotations: dict[str, str]
) -> Object:
    """The object that a template describes, under a new name; ownership is the caller's to add."""
    inner = objects.mapping(objects.at(template, "spec", "template"))
    metadata = objects.mapping(inner.get("metadata"))
    made: Object = {
        "apiVersion": template["apiVersion"],
        "kind": reference.kind.removesuffix(TEMPLATE_SUFFIX),
        "metadata": {
            "name": name,
            "namespace": objects.namespace(template),
            "labels": {**objects.mapping(metadata.get("labels")), **labels},
            "annotations": {
                **objects.mapping(metadata.get("annotations")),
                **annotations,
                wellknown.CLONED_FROM_NAME_ANNOTATION: reference.name,
                wellknown.CLONED_FROM_KIND_ANNOTATION: reference.group_kind,
            },
        },
    }
    if inner.get("spec"):
        made["spec"] = inner["spec"]
    return made
