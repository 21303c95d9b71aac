"""What a provider reads of Cluster API's objects: owners, labels, references, pause. Nothing else ties it to them."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.keys import Key


def is_paused(cluster: Object, obj: Object) -> bool:
    return bool(objects.at(cluster, "spec", "paused")) or wellknown.PAUSED_ANNOTATION in objects.annotations(obj)


def is_control_plane(obj: Object) -> bool:
    return wellknown.CONTROL_PLANE_LABEL in objects.labels(obj)


def endpoint_port(infrastructure: Object) -> int:
    """The port recorded for the cluster's API; 0 where none is yet."""
    return int(objects.at(infrastructure, "spec", "controlPlaneEndpoint", "port") or 0)


async def owner_cluster(client: CachedClient, infrastructure: Object) -> Object | None:
    return await _owner(client, infrastructure, CLUSTERS)


async def owner_machine(client: CachedClient, infrastructure: Object) -> Object | None:
    return await _owner(client, infrastructure, MACHINES)


async def cluster_of(client: CachedClient, obj: Object) -> Object | None:
    """The Cluster that the object's label names."""
    name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
    return await _get(client, CLUSTERS, name, objects.namespace(obj)) if name else None


async def infrastructure_of(client: CachedClient, cluster: Object, resource: Resource) -> Object | None:
    """The infrastructure object that a Cluster refers to; None also for a Cluster on other infrastructure."""
    name = reference_to(cluster, resource)
    return await _get(client, resource, name, objects.namespace(cluster)) if name else None


def reference_to(obj: Object, resource: Resource) -> str:
    """The name in the infrastructure reference of a Cluster or Machine, if it is of this kind."""
    reference = objects.mapping(objects.at(obj, "spec", "infrastructureRef"))
    is_meant = reference.get("kind") == resource.kind and reference.get("apiGroup") == resource.group
    return str(reference["name"]) if is_meant else ""


def referred(resource: Resource) -> Callable[[Object], list[Key]]:
    """For a watch on Clusters or Machines: leads to the infrastructure object of this kind behind each."""

    def keys(obj: Object) -> list[Key]:
        name = reference_to(obj, resource)
        return [Key(objects.namespace(obj), name)] if name else []

    return keys


async def _owner(client: CachedClient, obj: Object, resource: Resource) -> Object | None:
    for reference in objects.owner_references(obj):
        group = split_api_version(str(reference.get("apiVersion")))[0]
        if reference.get("kind") == resource.kind and group == resource.group:
            return await _get(client, resource, str(reference.get("name")), objects.namespace(obj))
    return None


async def _get(client: CachedClient, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except errors.NotFound:
        return None
