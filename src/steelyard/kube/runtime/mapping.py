"""Which objects to reconcile when another one changes: the mappers that most controllers need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version
from steelyard.kube.runtime.keys import Key

Mapper: TypeAlias = Callable[[Object], Iterable[Key]]


def to_owner(owner: Resource, *, controller_only: bool = False) -> Mapper:
    """The owners of that kind, in any version of its group: a Machine leads to its MachineSet."""

    def mapper(obj: Object) -> Iterable[Key]:
        namespace = objects.namespace(obj) if owner.namespaced else ""
        return [
            Key(namespace, str(reference.get("name") or ""))
            for reference in objects.owner_references(obj)
            if reference.get("kind") == owner.kind
            and split_api_version(str(reference.get("apiVersion") or ""))[0] == owner.group
            and (not controller_only or reference.get("controller"))
        ]

    return mapper


def to_label(label: str) -> Mapper:
    """The object of that name in the same namespace: `cluster.x-k8s.io/cluster-name: a` leads to Cluster a."""

    def mapper(obj: Object) -> Iterable[Key]:
        name = objects.labels(obj).get(label)
        return [Key(objects.namespace(obj), name)] if name else []

    return mapper
