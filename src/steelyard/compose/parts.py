"""Objects that are parts of a cluster, and the resource names of those that each of its pools has."""

from __future__ import annotations

from steelyard.api.clusterapi import wellknown
from steelyard.compose.shape import Pool, Shape
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource


def of_cluster(shape: Shape, resource: Resource, name: str, spec: Object | None = None) -> Object:
    """Named, in the cluster's namespace, with the label by which Cluster API finds it."""
    metadata: Object = {"name": name}
    if resource.namespaced:
        metadata["namespace"] = shape.namespace
    metadata["labels"] = {wellknown.CLUSTER_NAME_LABEL: shape.name}
    obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    if spec is not None:
        obj["spec"] = spec
    return obj


def of_pool(part: str, pool: Pool) -> str:
    return f"{part}-{pool.name}" if pool.name else part
