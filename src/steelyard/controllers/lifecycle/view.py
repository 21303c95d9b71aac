"""What the reconcilers read together: clusters and their machines, from the shared caches, by indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key

_CLUSTER = "lifecycle-cluster"
_CONTROLLER = "lifecycle-controller"
_PROVIDER_ID = "lifecycle-provider-id"
_REFERENCE = "lifecycle-reference"


class View:
    def __init__(self, informers: Informers) -> None:
        self.clusters = informers.of(capi.CLUSTERS)
        self.control_planes = informers.of(capi.KUBEADM_CONTROL_PLANES)
        self.machine_deployments = informers.of(capi.MACHINE_DEPLOYMENTS)
        self.machine_sets = informers.of(capi.MACHINE_SETS)
        self.machines = informers.of(capi.MACHINES)
        self.configs = informers.of(capi.KUBEADM_CONFIGS)
        self.locks = informers.of(CONFIG_MAPS, label=wellknown.CLUSTER_NAME_LABEL)
        for informer in (self.machine_deployments, self.machine_sets, self.machines):
            informer.add_index(_CLUSTER, _cluster_index)
        for informer in (self.machine_sets, self.machines):
            informer.add_index(_CONTROLLER, _controller_index)
        self.machines.add_index(_PROVIDER_ID, _provider_id_index)
        self.clusters.add_index(_REFERENCE, _cluster_references)

    def cluster(self, namespace: str, name: str) -> Object | None:
        return self.clusters.get(namespace, name) if name else None

    def cluster_of(self, obj: Object) -> Object | None:
        """By `spec.clusterName`, or by the label for kinds without that field."""
        name = objects.at(obj, "spec", "clusterName") or objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
        return self.cluster(objects.namespace(obj), str(name or ""))

    def control_plane_of(self, cluster: Object) -> Object | None:
        """The KubeadmControlPlane that the cluster refers to."""
        reference = objects.mapping(objects.at(cluster, "spec", "controlPlaneRef"))
        if reference.get("kind") != capi.KUBEADM_CONTROL_PLANES.kind:
            return None
        return self.control_planes.get(objects.namespace(cluster), str(reference.get("name") or ""))

    def cluster_owning(self, control_plane: Object) -> Object | None:
        """The Cluster that refers to the control plane and owns it; one of the same name made later does not."""
        referring = self.clusters_referring_to(control_plane)
        return next((each for each in referring if objects.is_owned_by(control_plane, each)), None)

    def machines_of_cluster(self, cluster: Object) -> list[Object]:
        return _of_cluster(self.machines, cluster)

    def machine_sets_of_cluster(self, cluster: Object) -> list[Object]:
        return _of_cluster(self.machine_sets, cluster)

    def machine_deployments_of_cluster(self, cluster: Object) -> list[Object]:
        return _of_cluster(self.machine_deployments, cluster)

    def machines_of(self, owner: Object) -> list[Object]:
        return objects.by_name(self.machines.by_index(_CONTROLLER, objects.uid(owner)))

    def machine_sets_of(self, owner: Object) -> list[Object]:
        return objects.by_name(self.machine_sets.by_index(_CONTROLLER, objects.uid(owner)))

    def machines_with_provider_id(self, cluster: Key, provider_id: str) -> list[Object]:
        return self.machines.by_index(_PROVIDER_ID, _joined(cluster.namespace, cluster.name, provider_id))

    def clusters_referring_to(self, obj: Object) -> list[Object]:
        """Clusters whose infrastructureRef or controlPlaneRef names the object, whether it is owned already or not."""
        group = str(obj.get("apiVersion") or "").rpartition("/")[0]
        value = _joined(objects.namespace(obj), group, str(obj.get("kind")), objects.name(obj))
        return self.clusters.by_index(_REFERENCE, value)

    def to_clusters_referring(self, obj: Object) -> Iterable[Key]:
        return [Key.of(cluster) for cluster in self.clusters_referring_to(obj)]

    def owner_of(self, obj: Object, resource: Resource) -> Object | None:
        """The object's controller, where it is of that kind and exists."""
        reference = objects.controller_of(obj)
        if reference is None or reference.get("kind") != resource.kind:
            return None
        informer = {
            capi.MACHINE_SETS: self.machine_sets,
            capi.MACHINE_DEPLOYMENTS: self.machine_deployments,
            capi.KUBEADM_CONTROL_PLANES: self.control_planes,
            capi.MACHINES: self.machines,
        }[resource]
        found = informer.get(objects.namespace(obj), str(reference.get("name") or ""))
        return found if found is not None and objects.uid(found) == reference.get("uid") else None


def to_cluster(obj: Object) -> Iterable[Key]:
    name = objects.at(obj, "spec", "clusterName") or objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
    return [Key(objects.namespace(obj), str(name))] if name else []


def to_objects_of_cluster(*listings: Callable[[Object], list[Object]]) -> Callable[[Object], Iterable[Key]]:
    """A cluster's change reaches what belongs to it."""

    def mapper(cluster: Object) -> Iterable[Key]:
        return [Key.of(obj) for listing in listings for obj in listing(cluster)]

    return mapper


def is_control_plane_machine(machine: Object) -> bool:
    return wellknown.CONTROL_PLANE_LABEL in objects.labels(machine)


def _of_cluster(informer: Informer, cluster: Object) -> list[Object]:
    found = informer.by_index(_CLUSTER, _joined(objects.namespace(cluster), objects.name(cluster)))
    return objects.by_name(found)


def _cluster_index(obj: Object) -> Iterable[str]:
    name = objects.at(obj, "spec", "clusterName")
    return [_joined(objects.namespace(obj), str(name))] if name else []


def _controller_index(obj: Object) -> Iterable[str]:
    reference = objects.controller_of(obj)
    return [str(reference.get("uid"))] if reference else []


def _provider_id_index(machine: Object) -> Iterable[str]:
    provider_id = objects.at(machine, "spec", "providerID")
    cluster = objects.at(machine, "spec", "clusterName")
    return [_joined(objects.namespace(machine), str(cluster), str(provider_id))] if provider_id else []


def _cluster_references(cluster: Object) -> Iterable[str]:
    for field in ("infrastructureRef", "controlPlaneRef"):
        reference = objects.mapping(objects.at(cluster, "spec", field))
        if reference.get("name"):
            parts = (str(reference.get(part) or "") for part in ("apiGroup", "kind", "name"))
            yield _joined(objects.namespace(cluster), *parts)


def _joined(*parts: str) -> str:
    return "\0".join(parts)
