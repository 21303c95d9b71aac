"""What the provider reads of Cluster API's objects: owners, labels, references, pause. Nothing else ties it to them."""

from __future__ import annotations

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import INFRASTRUCTURE_GROUP, SIMULATED_CLUSTERS
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource, split_api_version
from steelyard.kube.runtime.cached import CachedClient

CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
_PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"


def is_paused(cluster: Object, obj: Object) -> bool:
    return bool(objects.at(cluster, "spec", "paused")) or _PAUSED_ANNOTATION in objects.annotations(obj)


def is_control_plane(obj: Object) -> bool:
    return CONTROL_PLANE_LABEL in objects.labels(obj)


def endpoint_port(infrastructure: Object) -> int:
    """The port recorded for the cluster's API; 0 where none is yet."""
    return int(objects.at(infrastructure, "spec", "controlPlaneEndpoint", "port") or 0)


async def owner_cluster(client: CachedClient, infrastructure: Object) -> Object | None:
    return await _owner(client, infrastructure, CLUSTERS)


async def owner_machine(client: CachedClient, infrastructure: Object) -> Object | None:
    return await _owner(client, infrastructure, MACHINES)


async def cluster_of(client: CachedClient, obj: Object) -> Object | None:
    """The Cluster that the object's label names."""
    name = objects.labels(obj).get(CLUSTER_NAME_LABEL)
    return await _get(client, CLUSTERS, name, objects.namespace(obj)) if name else None


async def infrastructure_of(client: CachedClient, cluster: Object) -> Object | None:
    """The SimulatedCluster that a Cluster refers to; None also for a Cluster on other infrastructure."""
    reference = objects.mapping(objects.at(cluster, "spec", "infrastructureRef"))
    is_ours = reference.get("kind") == SIMULATED_CLUSTERS.kind and reference.get("apiGroup") == INFRASTRUCTURE_GROUP
    return (
        await _get(client, SIMULATED_CLUSTERS, str(reference["name"]), objects.namespace(cluster)) if is_ours else None
    )


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
