"""Virtual machines on a management cluster, run by KubeVirt, for upstream's Cluster API provider.

Each cluster has a namespace of its own there: its machines, their disks and the Services that lead to them are kept
apart from those of other clusters, and go with it. The API is reached by a Service of type LoadBalancer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api.clusterapi.resources import INFRASTRUCTURE_GROUP
from steelyard.compose.composed import Desired
from steelyard.compose.infrastructure import KUBEADM_MEMORY_GI, Infrastructure
from steelyard.compose.infrastructures import kubevirtcloud, kubevirtpolicies
from steelyard.compose.shape import Shape, Sizes
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform
from steelyard.settings.catalogue import CONTAINER_DISK, Versions
from steelyard.settings.integrations import SharedServices
from steelyard.settings.kubevirt import Kubevirt

NAME: Final = "kubevirt"
CLUSTERS: Final = Resource(INFRASTRUCTURE_GROUP, "v1alpha1", "kubevirtclusters", "KubevirtCluster")
MACHINE_TEMPLATES: Final = Resource(
    INFRASTRUCTURE_GROUP, "v1alpha1", "kubevirtmachinetemplates", "KubevirtMachineTemplate"
)

MAY_MIGRATE: Final = "kubevirt.io/allow-pod-bridge-network-live-migration"
_DISK: Final = "dv-volume"
_NETWORK: Final = "default"


def infrastructure(settings: Kubevirt, shared: SharedServices, versions: Versions) -> Infrastructure:
    has_cloud_controller = settings.cloud_controller_manager.enabled

    def further(shape: Shape) -> Mapping[str, Desired]:
        policies = kubevirtpolicies.parts(
            shape, settings.network_policies, has_load_balancers=has_cloud_controller, shared=shared
        )
        cloud = kubevirtcloud.parts(shape, settings.cloud_controller_manager) if has_cloud_controller else {}
        return {**policies, **cloud}

    return Infrastructure(
        name=NAME,
        cluster=CLUSTERS,
        template=MACHINE_TEMPLATES,
        cluster_spec=_cluster,
        machine_spec=lambda shape, sizes: _machine(shape, sizes, settings),
        configured=_configured,
        image=lambda version: _image(version, versions),
        has_namespace=True,
        has_services=True,
        has_health_checks=True,
        has_network=False,
        has_pods=True,
        network_plugin=settings.network_plugin or "",
        network_manifests=settings.network_manifests,
        has_cloud_controller=has_cloud_controller,
        has_endpoint=True,
        moves_machines=True,
        least_memory_gi=KUBEADM_MEMORY_GI,
        further=further,
        makes=(*kubevirtcloud.MAKES, *kubevirtpolicies.MAKES),
        hands_on=kubevirtcloud.HANDS_ON,
    )


def _configured(platform: Platform) -> Infrastructure:
    return infrastructure(platform.kubevirt, platform.integrations.shared_services, platform.versions)


def _image(version: str, versions: Versions) -> str:
    listed = versions.find(NAME, version)
    return (listed.image if listed is not None else "") or CONTAINER_DISK.replace("{version}", version)


def _cluster(shape: Shape) -> Object:
    spec: Object = {"controlPlaneServiceTemplate": {"spec": {"type": "LoadBalancer"}}}
    if shape.endpoint:
        host, _, port = shape.endpoint.rpartition(":")
        spec["controlPlaneEndpoint"] = {"host": host, "port": int(port)}
    return spec


def _machine(shape: Shape, sizes: Sizes, settings: Kubevirt) -> Object:
    # The provider puts the machine's name before that of the disk, so that it need not differ between machines.
    disk = f"{shape.name}-boot-volume"
    return {
        "virtualMachineBootstrapCheck": {"checkStrategy": "ssh"},
        "virtualMachineTemplate": {
            "metadata": {"namespace": shape.namespace},
            "spec": {
                "runStrategy": "Always",
                "dataVolumeTemplates": [
                    {"metadata": {"name": disk}, "spec": disk_spec(shape, sizes, settings.storage_class)}
                ],
                "template": _guest(shape, sizes, disk),
            },
        },
    }


def disk_spec(shape: Shape, sizes: Sizes, storage_class: str) -> Object:
    """Of the DataVolume that a machine boots from: a copy of the image, as large as asked for."""
    return {
        "pvc": {
            # A machine that moves has its disk open on both hosts for a moment.
            "accessModes": ["ReadWriteMany" if shape.live_migration else "ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{sizes.disk_gb}Gi"}},
            "storageClassName": storage_class,
        },
        "source": {"registry": {"url": f"docker://{shape.image}"}},
    }


def _guest(shape: Shape, sizes: Sizes, disk: str) -> Object:
    spec: Object = {
        "domain": {
            "cpu": {"cores": sizes.cpu_cores},
            "memory": {"guest": f"{sizes.memory_gi}Gi"},
            "devices": {
                "networkInterfaceMultiqueue": True,
                "disks": [{"name": _DISK, "disk": {"bus": "virtio"}}],
                "interfaces": [{"name": _NETWORK, "bridge": {}}],
            },
        },
        "networks": [{"name": _NETWORK, "pod": {}}],
        "volumes": [{"name": _DISK, "dataVolume": {"name": disk}}],
    }
    if not shape.live_migration:
        return {"spec": spec}
    return {
        "metadata": {"annotations": {MAY_MIGRATE: "true"}},
        "spec": {**spec, "evictionStrategy": "LiveMigrate"},
    }


KUBEVIRT: Final = infrastructure(Kubevirt.known(), SharedServices.known(), Versions.known())
"""With the settings that a platform has where its file says nothing."""
