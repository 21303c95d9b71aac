"""Machines of plain KVM hosts: which hosts, where their disks are, what connects them, and what they are told at their
start."""

import ipaddress
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from steelyard.api.machineterms import (
    INITIATOR_PATTERN,
    MACHINE_NAME,
    CpuTime,
    Domain,
    Duration,
    HostName,
    HostPath,
    InterfaceName,
    LeastConnections,
    MaxPerCore,
    MemorySize,
    MirrorUrl,
    ProxyUrl,
    Registry,
    Server,
    Unproxied,
    VolumeName,
)
from steelyard.api.sizes import DiskGb
from steelyard.settings import kvmhosts
from steelyard.settings.base import SettingsModel
from steelyard.settings.kvmhosts import KvmHost
from steelyard.settings.networkplugins import FLANNEL, NetworkManifests, NetworkPlugin

IMAGE: Final = "debian-12-kubernetes-{version}.qcow2"
"""Where the catalogue of versions names none."""
ANY_REGISTRY: Final = "*"

UserName = Annotated[str, Field(max_length=32, pattern=r"^[a-z_][a-z0-9_-]*$")]
SshKey = Annotated[
    str, Field(max_length=2048, pattern=r"^(ssh|ecdsa|sk)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [A-Za-z0-9@._ -]*)?$")
]


Minutes = Annotated[int, Field(ge=1, le=1440)]


def _address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError(f'must be an address such as 10.0.0.53, not "{value}"') from None


class KvmNetwork(SettingsModel):
    """What connects the machines of a cluster. Choose it once: clusters that exist stay on the network that they were
    made with, and the objects of one for which the file says otherwise are refused until it says so again."""

    mode: Literal["nat", "isolated", "bridge"] = Field(
        default="nat",
        description="nat: each cluster has a network of its own, whose machines reach out by the host's address. "
        "isolated: one that reaches nothing else. bridge: all are on a bridge that hosts have.",
    )
    bridge: InterfaceName | None = Field(
        default=None, description="With mode bridge: its name on the hosts, whose KVMHosts must allow it."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.mode == "bridge") != (self.bridge is not None):
            raise ValueError("mode bridge needs the name of a bridge, and no other mode has one")
        return self


class Proxy(SettingsModel):
    """What images are pulled through, by containerd. Without name and password: what machines are told is readable for
    everybody who may read their templates."""

    http: ProxyUrl | None = Field(default=None, description="For registries by HTTP, as in http://proxy:3128.")
    https: ProxyUrl | None = Field(default=None, description="For registries by HTTPS.")
    exceptions: tuple[Unproxied, ...] = Field(
        default=(),
        strict=False,
        description="Names, domains such as .example.org and networks that are reached without it, besides the "
        "machine itself and the cluster's own ranges.",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.exceptions and not (self.http or self.https):
            raise ValueError("exceptions are those of a proxy: set http or https")
        return self


class HostVolume(SettingsModel):
    """A directory of the host inside machines."""

    name: VolumeName = Field(description="Of the volume.")
    host_path: HostPath = Field(description="The directory, under one of the host's hostVolumeRoots.")
    mount_path: HostPath = Field(description="Where machines find it.")
    read_only: bool = Field(default=False, description="Whether machines may only read it.")


class GuestLimits(SettingsModel):
    """Of the guest's cores together."""

    cpu: CpuTime | None = Field(default=None, description='Cores\' worth of time, such as "1.5".')


class ProcessLimits(SettingsModel):
    """Of QEMU as the host sees it, the guest included."""

    cpu: CpuTime | None = Field(default=None, description='Cores\' worth of time, such as "2.5".')
    memory: MemorySize | None = Field(
        default=None, description="Memory, such as 10Gi; the host ends a machine that takes more: leave room."
    )


class MachineLimits(SettingsModel):
    """What a machine may take of its host."""

    guest: GuestLimits | None = Field(default=None, description="Of the guest.")
    process: ProcessLimits | None = Field(default=None, description="Of the process that runs it.")


def _shared_by_none(value: str) -> str:
    if MACHINE_NAME not in value:
        raise ValueError(f"machines must not share an initiator name: put {MACHINE_NAME} into it")
    return value


class ControlPlaneMachines(SettingsModel):
    """What only control-plane machines have."""

    etcd_volume_gb: DiskGb | None = Field(
        default=None, description="Size in GiB of a disk of its own for etcd. Unset: it is on the root disk."
    )
    etcd_host_path: HostPath | None = Field(
        default=None,
        description="Instead, a directory of the host for etcd, under one of its hostVolumeRoots; each machine has one "
        "of its own name in it.",
    )
    iscsi_initiator_name: (
        Annotated[str, Field(max_length=223, pattern=INITIATOR_PATTERN), AfterValidator(_shared_by_none)] | None
    ) = Field(
        default=None,
        description="What they call themselves towards iSCSI targets, as in iqn.2026-01.org.example:{machine}, where "
        "{machine} stands for the machine's name.",
    )
    limits: MachineLimits | None = Field(default=None, description="What each may take of its host. Unset: its size.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.etcd_volume_gb is not None and self.etcd_host_path is not None:
            raise ValueError("set either etcdVolumeGb or etcdHostPath")
        return self


class WorkerMachines(SettingsModel):
    """What only workers have."""

    host_volumes: tuple[HostVolume, ...] = Field(
        default=(),
        max_length=16,
        strict=False,
        description="Directories of the host inside them: [{name: data, hostPath: /srv/data, mountPath: /data}]. The "
        "host must allow them to the claim's namespace (hostVolumeRoots).",
    )
    limits: MachineLimits | None = Field(default=None, description="What each may take of its host. Unset: its size.")


class Conntrack(SettingsModel):
    """How many connections kube-proxy has each machine remember, and for how long. Unset: kube-proxy's."""

    max_per_core: MaxPerCore | None = Field(
        default=None, description="Connections a core; 0 leaves the machine's limit alone."
    )
    min: LeastConnections | None = Field(default=None, description="The fewest, whatever the number of cores.")
    tcp_established_timeout: Duration | None = Field(
        default=None, description="How long an idle connection is remembered, as in 24h."
    )
    tcp_close_wait_timeout: Duration | None = Field(
        default=None, description="How long one that the other side has closed, as in 1h."
    )


class Timeouts(SettingsModel):
    """How long things may take before they count as failed. Machines without hardware virtualisation need more."""

    startup_minutes: Minutes = Field(
        default=20, description="From a machine's creation to its Node; one without is replaced."
    )
    silent_minutes: Minutes = Field(default=5, description="A machine whose Node says nothing for longer is replaced.")
    unready_minutes: Minutes = Field(default=10, description="A worker whose Node is not ready for longer is replaced.")
    kubeadm_minutes: Annotated[int, Field(ge=4, le=240)] | None = Field(
        default=None,
        description="What kubeadm waits for the kubelet, for each program of the control plane and for the API. Unset: "
        "its own times, of 1 to 5 minutes. A change replaces machines.",
    )
    lease_seconds: Annotated[int, Field(ge=15, le=600)] | None = Field(
        default=None,
        description="How long the controller manager and the scheduler may be silent before another one takes over; "
        "etcd's times grow with it. More of it bears machines that stand still for seconds, and a lost machine is "
        "noticed later. Unset: Kubernetes' own times, a lease of 15 s. A change replaces control-plane machines.",
    )
    probe_seconds: Annotated[int, Field(ge=15, le=600)] | None = Field(
        default=None,
        description="What the kubelet waits for one answer of a program of the control plane; when it has waited in "
        "vain eight times it starts the program anew. Unset: kubeadm's 15 s. A change replaces control-plane machines.",
    )
    probe_period_seconds: Annotated[int, Field(ge=1, le=600)] | None = Field(
        default=None,
        description="How often the kubelet asks each program of the control plane whether it lives and whether it is "
        "ready. Each time is a connection of its own: more seconds leave slow machines time for other things, and "
        "what is wrong is noticed later. Unset: kubeadm's, 10 s and 1 s. A change replaces control-plane machines.",
    )

    @property
    def changes_probes(self) -> bool:
        return self.probe_seconds is not None or self.probe_period_seconds is not None


class Kvm(SettingsModel):
    """Machines of infrastructure kvm. What they boot from is the image of the catalogue (versions.infrastructures.kvm),
    else debian-12-kubernetes-<version>.qcow2 of their host. A change of what machines are
    made of or told replaces those of every cluster."""

    hosts: Annotated[dict[HostName, KvmHost], Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Where machines are, by a name for each. Unset: one called local, which is this machine, where the "
        "platform's infrastructure is kvm. A host that the file no longer names goes when no machine is on it.",
    )
    storage_root: HostPath | None = Field(
        default=None,
        description="The directory of disks on hosts, one of those that their KVMHosts allow. Unset: the first.",
    )
    container_volume_gb: DiskGb | None = Field(
        default=None,
        description="Size in GiB of a disk of its own for images and containers. Unset: they are on the root disk.",
    )
    kubelet_volume_gb: DiskGb | None = Field(
        default=None,
        description="Size in GiB of a disk of its own for volumes of pods. Unset: they are on the root disk.",
    )
    control_plane: ControlPlaneMachines = Field(
        default=ControlPlaneMachines.known(), description="What only control-plane machines have."
    )
    workers: WorkerMachines = Field(default=WorkerMachines.known(), description="What only workers have.")
    network: KvmNetwork = Field(default=KvmNetwork.known(), description="What connects the machines of a cluster.")
    dns_servers: Annotated[tuple[Annotated[str, AfterValidator(_address)], ...], Field(max_length=3)] = Field(
        default=(), strict=False, description="Addresses of the machines' DNS servers. None: their network's."
    )
    ntp_servers: Annotated[tuple[Server, ...], Field(max_length=8)] = Field(
        default=(), strict=False, description="Names or addresses of the machines' time servers. None: the image's."
    )
    registry_mirrors: dict[Registry, Annotated[tuple[MirrorUrl, ...], Field(min_length=1, strict=False)]] = Field(
        default={},
        description="Where images are pulled from before their registry is asked, by registry, as in "
        "{docker.io: [https://mirror.example.org]}; * is every registry that is not listed. A URL with a path is used "
        "as it stands, /v2 included. Images of machines must have containerd look into /etc/containerd/certs.d.",
    )
    proxy: Proxy = Field(default=Proxy.known(), description="What images are pulled through.")
    cluster_domain: Domain | None = Field(
        default=None,
        description="What names of Services end in. It stays what it is in a cluster. Unset: cluster.local.",
    )
    cluster_dns: Annotated[str, AfterValidator(_address)] | None = Field(
        default=None,
        description="The address that pods ask for names, such as that of a cache on each node. Unset: the tenth of "
        "the cluster's Services, where CoreDNS is.",
    )
    conntrack: Conntrack = Field(default=Conntrack.known(), description="Connections that machines remember.")
    timeouts: Timeouts = Field(default=Timeouts.known(), description="How long things may take.")
    users: dict[UserName, Annotated[tuple[SshKey, ...], Field(min_length=1, strict=False)]] = Field(
        default={}, description="Who may log in to machines by SSH: public keys by the name of the user."
    )
    network_plugin: NetworkPlugin = Field(
        default=FLANNEL,
        description="What carries the traffic of pods where a claim does not say: flannel, which the images have and "
        "which needs no download; cilium, calico or kube-ovn, which Argo CD or networkManifests bring.",
    )
    network_manifests: NetworkManifests = Field(
        default=NetworkManifests.known(), description="Where network plugins come from without Argo CD."
    )

    def hosts_for(self, infrastructure: str) -> dict[str, KvmHost]:
        """Those that are named; this machine, where none are and the platform's machines are of kvm."""
        if self.hosts is not None:
            return self.hosts
        return dict(kvmhosts.STANDARD) if infrastructure == "kvm" else {}
