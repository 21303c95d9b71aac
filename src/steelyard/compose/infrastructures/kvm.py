"""Virtual machines on plain KVM hosts, run by libvirt.

A cluster is in the claim's namespace. Nothing tells its Nodes which machines they are but the machines themselves: the
instance id that a machine is given at its start is the UUID of its domain, and the kubelet makes the providerID of it.
No cloud provider is named, as its taint would stay on every Node without a cloud controller manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api import kvm, resources
from steelyard.api.nodesettings import NodeSettings
from steelyard.compose.infrastructure import KUBEADM_MEMORY_GI, Infrastructure, Patience
from steelyard.compose.infrastructures import containerd, kubeproxy, leases, probes
from steelyard.compose.shape import Shape, Sizes
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.catalogue import Versions
from steelyard.settings.kvm import (
    IMAGE,
    Conntrack,
    ControlPlaneMachines,
    HostVolume,
    Kvm,
    KvmNetwork,
    MachineLimits,
    Proxy,
    WorkerMachines,
)
from steelyard.settings.kvmhosts import KvmHost
from steelyard.settings.networkplugins import FLANNEL

NAME: Final = "kvm"

_MODES: Final = {"nat": "NAT", "isolated": "Isolated", "bridge": "Bridge"}
_HOST_NAME: Final = "{{ ds.meta_data.hostname }}"
_PROVIDER_ID: Final = "kvm://{{ ds.meta_data.instance_id }}"


def infrastructure(settings: Kvm, versions: Versions, domain: str, hosts: Mapping[str, KvmHost]) -> Infrastructure:
    kubelet = {"provider-id": _PROVIDER_ID}
    if settings.cluster_dns is not None:
        kubelet["cluster-dns"] = settings.cluster_dns
    patience = settings.timeouts
    return Infrastructure(
        name=NAME,
        cluster=resources.KVM_CLUSTERS,
        template=resources.KVM_MACHINE_TEMPLATES,
        cluster_spec=lambda shape: _cluster(shape, settings.network, domain),
        machine_spec=lambda shape, sizes: _machine(shape, sizes, settings),
        control_plane_machine=lambda _: _control_plane_machine(settings.control_plane),
        worker_machine=lambda _shape, _pool: _worker_machine(settings.workers),
        kinds=kvm.KINDS,
        configured=_configured,
        adjusted=_adjusted,
        image=lambda version: _image(version, versions),
        has_health_checks=True,
        patience=Patience(patience.startup_minutes * 60, patience.silent_minutes * 60, patience.unready_minutes * 60),
        has_network=False,
        network_plugin=settings.network_plugin,
        own_plugins=frozenset({FLANNEL}),
        network_manifests=settings.network_manifests,
        # In a network of its own a cluster has an address of that; on a bridge others decide who has which.
        has_endpoint=settings.network.mode == "bridge",
        needs_address=settings.network.mode == "bridge",
        least_memory_gi=KUBEADM_MEMORY_GI,
        allows_one_core=True,
        has_pods=True,
        node_name=_HOST_NAME,
        kubelet_arguments=kubelet,
        bootstrap=lambda shape: _bootstrap(shape, settings),
        control_plane_bootstrap=lambda shape: _control_plane_bootstrap(shape, settings, domain),
        kubeadm_seconds=(patience.kubeadm_minutes or 0) * 60,
        kubeadm_patches=probes.FOLDER if patience.changes_probes else "",
        cluster_domain=settings.cluster_domain or "",
        node_ranges=tuple(dict.fromkeys(each for host in hosts.values() for each in host.networks.ranges)),
    )


def _configured(platform: Platform) -> Infrastructure:
    return infrastructure(platform.kvm, platform.versions, platform.domain, platform.kvm_hosts())


def _adjusted(platform: Platform, nodes: NodeSettings) -> Infrastructure:
    settings = claimed(platform.kvm, nodes)
    return infrastructure(settings, platform.versions, platform.domain, platform.kvm_hosts())


def claimed(settings: Kvm, nodes: NodeSettings) -> Kvm:
    """What the claim does not say stays as the file has it."""
    said: Object = {
        name: getattr(nodes, name)
        for name in ("container_volume_gb", "kubelet_volume_gb", "cluster_domain", "cluster_dns")
    }
    said["dns_servers"] = tuple(nodes.dns_servers) if nodes.dns_servers is not None else None
    said["ntp_servers"] = tuple(nodes.ntp_servers) if nodes.ntp_servers is not None else None
    if nodes.registry_mirrors is not None:
        said["registry_mirrors"] = {each.registry: tuple(each.urls) for each in nodes.registry_mirrors}
    if nodes.proxy is not None:
        proxy = {**settings.proxy.model_dump(), **nodes.proxy.model_dump(exclude_none=True)}
        # Exceptions of no proxy mean nothing.
        said["proxy"] = Proxy.model_validate(proxy) if proxy["http"] or proxy["https"] else settings.proxy
    if nodes.conntrack is not None:
        conntrack = {**settings.conntrack.model_dump(), **nodes.conntrack.model_dump(exclude_none=True)}
        said["conntrack"] = Conntrack.model_validate(conntrack)
    if nodes.etcd_volume_gb is not None:
        etcd = {"etcd_volume_gb": nodes.etcd_volume_gb, "etcd_host_path": None}
        said["control_plane"] = settings.control_plane.model_copy(update=etcd)
    if nodes.host_volumes is not None:
        volumes = tuple(HostVolume.model_validate(each.model_dump(exclude_none=True)) for each in nodes.host_volumes)
        said["workers"] = settings.workers.model_copy(update={"host_volumes": volumes})
    return settings.model_copy(update={name: value for name, value in said.items() if value is not None})


def dns_name(cluster: str, domain: str) -> str:
    """By which the API of a cluster is called, inside it and wherever somebody lets the name lead there.

    >>> dns_name("shop", "example.org")
    'shop.k8s.example.org'
    """
    return f"{cluster}.k8s.{domain}"


def _image(version: str, versions: Versions) -> str:
    listed = versions.find(NAME, version)
    return (listed.image if listed is not None else "") or IMAGE.replace("{version}", version)


def _cluster(shape: Shape, network: KvmNetwork, domain: str) -> Object:
    connected: Object = {"mode": _MODES[network.mode]}
    if network.bridge is not None:
        connected["bridge"] = network.bridge
    spec: Object = {"network": connected, "dnsName": dns_name(shape.name, domain)}
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


def _control_plane_machine(settings: ControlPlaneMachines) -> Object:
    spec = _limited(settings.limits)
    if settings.etcd_volume_gb is not None:
        spec["etcdVolume"] = {"size": f"{settings.etcd_volume_gb}Gi"}
    if settings.etcd_host_path is not None:
        spec["etcdVolume"] = {"hostPath": settings.etcd_host_path}
    if settings.iscsi_initiator_name is not None:
        spec["iscsiInitiatorName"] = settings.iscsi_initiator_name
    return spec


def _worker_machine(settings: WorkerMachines) -> Object:
    spec = _limited(settings.limits)
    if settings.host_volumes:
        spec["hostVolumes"] = [each.model_dump(exclude_defaults=True) for each in settings.host_volumes]
    return spec


def _limited(limits: MachineLimits | None) -> Object:
    said = limits.model_dump(exclude_none=True) if limits is not None else {}
    found = {name: each for name, each in said.items() if each}
    return {"limits": found} if found else {}


def _bootstrap(shape: Shape, settings: Kvm) -> Object:
    made = containerd.bootstrap(settings.registry_mirrors, settings.proxy, shape.network)
    if settings.users:
        made["users"] = [{"name": name, "sshAuthorizedKeys": list(keys)} for name, keys in settings.users.items()]
    return made


def _control_plane_bootstrap(shape: Shape, settings: Kvm, domain: str) -> Object:
    called = [dns_name(shape.name, domain)]
    configuration: Object = {"apiServer": {"certSANs": called}}
    made: Object = {"clusterConfiguration": configuration}
    told = _bootstrap(shape, settings)
    patience = settings.timeouts
    if patience.lease_seconds is not None:
        configuration |= leases.cluster_configuration(patience.lease_seconds)
    if patches := probes.patches(patience.probe_seconds, patience.probe_period_seconds, shape.version):
        made["files"] = told["files"] = [*objects.sequence(told.get("files")), *patches]
    return {**made, **kubeproxy.bootstrap(settings.conntrack, told)}


KVM: Final = _configured(Platform.known())
"""With the settings that a platform has where its file says nothing."""
