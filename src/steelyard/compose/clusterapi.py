"""The Cluster API objects of a cluster, whatever its machines are made of: only the references differ.

Each object holds the fields that the claim decides and no others; what the lifecycle fills in (endpoint, owner
references, status) stays its own under server-side apply.
"""

from __future__ import annotations

from steelyard.api.clusterapi import resources
from steelyard.api.workloadcluster import UsedParameters
from steelyard.compose import names
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform

# Where containerd listens on every image that Cluster API's image-builder makes.
_CRI_SOCKET = "unix:///var/run/containerd/containerd.sock"


@frozen
class Blueprint:
    """What all parts of one cluster have in common."""

    claim: Object
    used: UsedParameters
    platform: Platform

    @property
    def cluster(self) -> str:
        return names.cluster(self.claim)

    @property
    def namespace(self) -> str:
        return objects.namespace(self.claim)

    def part(self, resource: Resource, resource_name: str, name: str, spec: Object | None = None) -> Object:
        """An object of the cluster, labelled as the claim's and the cluster's."""
        obj: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {**names.claim_labels(self.claim), names.CLUSTER_NAME: self.cluster},
                "annotations": {names.RESOURCE_NAME: resource_name},
            },
        }
        if spec is not None:
            obj["spec"] = spec
        return obj


def reference(resource: Resource, name: str) -> Object:
    """Within the namespace, and without a version: Cluster API finds the served one by the contract."""
    return {"apiGroup": resource.group, "kind": resource.kind, "name": name}


def cluster(blueprint: Blueprint, *, infrastructure: Object) -> Object:
    network = blueprint.platform.cluster_network
    obj = blueprint.part(
        resources.CLUSTERS,
        "cluster",
        blueprint.cluster,
        {
            "clusterNetwork": {"pods": {"cidrBlocks": [network.pods]}, "services": {"cidrBlocks": [network.services]}},
            "controlPlaneRef": reference(resources.KUBEADM_CONTROL_PLANES, names.control_plane(blueprint.cluster)),
            "infrastructureRef": infrastructure,
        },
    )
    obj["metadata"]["labels"][names.ENVIRONMENT] = blueprint.used.environment
    # Only the Cluster is owned by the claim: if the claim is deleted in the foreground, or loses its finalizer, garbage
    # collection deletes the Cluster first, and the Cluster takes its parts along in order.
    if objects.uid(blueprint.claim):
        obj["metadata"]["ownerReferences"] = [
            objects.owner_reference(blueprint.claim, controller=True, block_owner_deletion=True)
        ]
    return obj


def control_plane(blueprint: Blueprint, *, machines: Object) -> Object:
    return blueprint.part(
        resources.KUBEADM_CONTROL_PLANES,
        "control-plane",
        names.control_plane(blueprint.cluster),
        {
            "replicas": blueprint.used.control_plane_replicas,
            "version": blueprint.used.kubernetes_version,
            "machineTemplate": {"spec": {"infrastructureRef": machines}},
            "kubeadmConfigSpec": {
                "initConfiguration": {"nodeRegistration": {"criSocket": _CRI_SOCKET}},
                "joinConfiguration": {"nodeRegistration": {"criSocket": _CRI_SOCKET}},
            },
            # One more before one less: a single control-plane machine is never replaced by taking it away.
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        },
    )


def worker_bootstrap(blueprint: Blueprint) -> Object:
    spec: Object = {
        "template": {"spec": {"joinConfiguration": {"nodeRegistration": {"criSocket": _CRI_SOCKET}}}},
    }
    name = names.template(names.machine_deployment(blueprint.cluster), spec)
    return blueprint.part(resources.KUBEADM_CONFIG_TEMPLATES, "worker-bootstrap", name, spec)


def workers(blueprint: Blueprint, *, machines: Object, bootstrap: Object) -> Object:
    name = names.machine_deployment(blueprint.cluster)
    own = {names.CLUSTER_NAME: blueprint.cluster, names.DEPLOYMENT_NAME: name}
    return blueprint.part(
        resources.MACHINE_DEPLOYMENTS,
        "workers",
        name,
        {
            "clusterName": blueprint.cluster,
            "replicas": blueprint.used.worker_replicas,
            "selector": {"matchLabels": own},
            "rollout": {
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            },
            "template": {
                "metadata": {"labels": dict(own)},
                "spec": {
                    "clusterName": blueprint.cluster,
                    "version": blueprint.used.kubernetes_version,
                    "bootstrap": {"configRef": bootstrap},
                    "infrastructureRef": machines,
                },
            },
        },
    )
