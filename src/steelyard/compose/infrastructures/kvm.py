"""Virtual machines on plain KVM hosts, run by libvirt.

A cluster is in the claim's namespace. Nothing tells its Nodes which machines they are but the machines themselves: the
instance id that a machine is given at its start is the UUID of its domain, and the kubelet makes the providerID of it.
No cloud provider is named, as its taint would stay on every Node without a cloud controller manager.
"""

from __future__ import annotations

from typing import Final

from steelyard.api import kvm, resources
from steelyard.compose.infrastructure import KUBEADM_MEMORY_GI, Infrastructure
from steelyard.compose.infrastructures import containerd
from steelyard.compose.shape import Shape, Sizes
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.catalogue import Versions
from steelyard.settings.kvm import IMAGE, Kvm, KvmNetwork

NAME: Final = "kvm"

_MODES: Final = {"nat": "NAT", "isolated": "Isolated", "bridge": "Bridge"}
_HOST_NAME: Final = "{{ ds.meta_data.hostname }}"
_PROVIDER_ID: Final = "kvm://{{ ds.meta_data.instance_id }}"


def infrastructure(settings: Kvm, versions: Versions) -> Infrastructure:
    return Infrastructure(
        name=NAME,
        cluster=resources.KVM_CLUSTERS,
        template=resources.KVM_MACHINE_TEMPLATES,
        cluster_spec=lambda shape: _cluster(shape, settings.network),
        machine_spec=lambda shape, sizes: _machine(shape, sizes, settings),
        kinds=kvm.KINDS,
        configured=_configured,
        image=lambda version: _image(version, versions),
        has_health_checks=True,
        has_network=False,
        network_plugin=settings.network_plugin or "",
        network_manifests=settings.network_manifests,
        has_endpoint=True,
        least_memory_gi=KUBEADM_MEMORY_GI,
        has_pods=True,
        node_name=_HOST_NAME,
        kubelet_arguments={"provider-id": _PROVIDER_ID},
        bootstrap=lambda shape: _bootstrap(shape, settings),
    )


def _configured(platform: Platform) -> Infrastructure:
    return infrastructure(platform.kvm, platform.versions)


def _image(version: str, versions: Versions) -> str:
    listed = versions.find(NAME, version)
    return (listed.image if listed is not None else "") or IMAGE.replace("{version}", version)


def _cluster(shape: Shape, network: KvmNetwork) -> Object:
    connected: Object = {"mode": _MODES[network.mode]}
    if network.bridge is not None:
        connected["bridge"] = network.bridge
    spec: Object = {"network": connected}
    if shape.endpoint:
        host, _, port = shape.endpoint.rpartition(":")
        spec["controlPlaneEndpoint"] = {"host": host, "port": int(port)}
    return spec


def _machine(shape: Shape, sizes: Sizes, settings: Kvm) -> Object:
    size: Object = {"cpu": sizes.cpu_cores, "memory": f"{sizes.memory_gi}Gi", "disk": f"{sizes.disk_gb}Gi"}
    if settings.container_volume_gb is not None:
        size["dockerVolumeSize"] = f"{settings.container_volume_gb}Gi"
    if settings.kubelet_volume_gb is not None:
        size["kubeletVolumeSize"] = f"{settings.kubelet_volume_gb}Gi"
    spec: Object = {"resources": size, "image": shape.image}
    if settings.storage_root is not None:
        spec["storageRoot"] = settings.storage_root
    if settings.dns_servers:
        spec["dnsServers"] = list(settings.dns_servers)
    if settings.ntp_servers:
        spec["ntpServers"] = list(settings.ntp_servers)
    return spec


def _bootstrap(shape: Shape, settings: Kvm) -> Object:
    made = containerd.bootstrap(settings.registry_mirrors, settings.proxy, shape.network)
    if settings.users:
        made["users"] = [{"name": name, "sshAuthorizedKeys": list(keys)} for name, keys in settings.users.items()]
    return made


KVM: Final = infrastructure(Kvm(), Versions())
"""With the settings that a platform has where its file says nothing."""
