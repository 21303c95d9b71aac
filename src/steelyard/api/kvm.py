"""The kinds of plain KVM hosts: clusters and machines that libvirt runs, and the hosts that they are on.

They keep the Cluster API v1beta2 contract for infrastructure providers; their own version, v1alpha4, is that of the
manifests which people have, and those are accepted as they stand. `providers/kvm` brings them about.

Who may write a KVMMachine is not who owns the host. So whatever in a machine or cluster points at something of a host
(a directory, a bridge, the host itself) is held by the provider against what the KVMHost allows, and a KVMHost is
nobody's but the platform's: it is in no namespace.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api import kvmhost, model, resources
from steelyard.api.clusterapi import wellknown
from steelyard.api.kvmhost import KVMHostSpec, KVMHostStatus, Range
from steelyard.api.machineterms import (
    IMAGE_PATTERN,
    INITIATOR_PATTERN,
    MACHINE_NAME,
    CpuTime,
    HostName,
    HostPath,
    InterfaceName,
    MemorySize,
    Server,
    VolumeName,
)
from steelyard.api.model import ApiModel, Column, Conditions, Initialization, Kind
from steelyard.api.sizes import CpuCores

PROVIDER_LABELS: Final = {"cluster.x-k8s.io/provider": "infrastructure-kvm", wellknown.CLUSTERCTL_LABEL: ""}
CONTRACT_LABELS: Final = {**PROVIDER_LABELS, "cluster.x-k8s.io/v1beta2": resources.KVM_MACHINES.version}
"""The second says which versions of the kind keep which contract."""
CATEGORIES: Final = ("cluster-api", "steelyard")

DiskSize = Annotated[str, Field(max_length=16, pattern=r"^([1-9][0-9]{0,2}T|[1-9][0-9]{0,5}G|[1-9][0-9]{2,8}M)(i|B)?$")]
"""`20Gi`: at least 100 MB, and less than 1 PiB."""
# Hundredths of a core would be more than the scheduler of a host tells apart.
Address = Annotated[
    str,
    Field(max_length=45, pattern=r"^(([0-9]{1,3}\.){3}[0-9]{1,3}|[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){2,7})$"),
]
DnsName = Annotated[
    str,
    Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$"),
]
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=IMAGE_PATTERN)]
"""`debian-12-kubernetes-v1.34.4.qcow2`, with `@sha256:` and its checksum where that is known."""


def _set_once(what: str) -> dict[str, Any]:
    return {"rule": "self == oldSelf", "message": f"{what} is set once and stays"}


class TemplateMetadata(ApiModel):
    labels: dict[str, str] | None = Field(
        default=None, description="Labels that each object made from the template gets."
    )
    annotations: dict[str, str] | None = Field(default=None, description="Annotations that each such object gets.")


class ControlPlaneEndpoint(ApiModel):
    host: str = Field(min_length=1, max_length=512, description="Host name or address of the cluster's API server.")
    port: int = Field(ge=1, le=65535, description="TCP port of the cluster's API server.")


class ClusterNetwork(ApiModel):
    """What connects the machines of a cluster."""

    mode: Literal["NAT", "Isolated", "Bridge"] = Field(
        description="NAT: a network of the cluster's own, whose machines reach out by the host's address. Isolated: "
        "one that reaches nothing else. Bridge: a bridge that the host has already."
    )
    bridge: InterfaceName | None = Field(
        default=None,
        description="With mode Bridge: its name. It must be one that the KVMHost allows to the cluster's namespace.",
    )


class KVMClusterSpec(ApiModel):
    control_plane_endpoint: ControlPlaneEndpoint | None = Field(
        default=None,
        description="Where the cluster's API is served. Filled in by the provider where it is left out; an address "
        "that is asked for must be free, and one of the cluster's network.",
    )
    network: ClusterNetwork | None = Field(default=None, description="Without: a network of its own, with NAT.")
    dns_name: DnsName | None = Field(
        default=None,
        description="A name of the cluster's API, such as shop.k8s.example.org, that its own machines resolve to where "
        "that is; in networks of the cluster's own.",
    )
    host: HostName | None = Field(
        default=None,
        description="The KVMHost that the cluster's own network is on, and with it all of its machines. Chosen by the "
        "provider, of those that allow the cluster's namespace, and filled in before anything is made there.",
    )
    range: Range | None = Field(
        default=None,
        description="Addresses of the cluster's own network, such as 10.200.3.0/24. Cut by the provider from the "
        "ranges of the host, and filled in before the network is made.",
    )
    virtual_router_id: int | None = Field(
        default=None,
        alias="virtualRouterID",
        ge=1,
        le=255,
        description="By which the control-plane machines of this cluster know each other where others are on the same "
        "bridge. Filled in by the provider.",
    )


class KVMClusterTemplateResource(ApiModel):
    metadata: TemplateMetadata | None = None
    spec: KVMClusterSpec


class KVMClusterTemplateSpec(ApiModel):
    template: KVMClusterTemplateResource = Field(description="The cluster that each copy starts as.")


class KVMClusterStatus(ApiModel):
    initialization: Initialization | None = None
    accepted: bool | None = Field(
        default=None,
        description="Whether the provider has judged that it may have what its spec says of a host. From then on "
        "nobody else gets its range, router id or address.",
    )
    conditions: Conditions | None = None


class MachineResources(ApiModel):
    """Sizes of a machine."""

    cpu: CpuCores = Field(description="Cores that the guest sees.")
    memory: MemorySize = Field(description="Memory that the guest sees, such as 8Gi.")
    disk: DiskSize = Field(description="Root disk, such as 40Gi; not smaller than the image.")
    docker_volume_size: DiskSize | None = Field(
        default=None,
        description="A disk of its own for the container runtime, which is mounted at /var/lib/containerd. Without, "
        "images and containers are on the root disk.",
    )
    kubelet_volume_size: DiskSize | None = Field(
        default=None,
        description="A disk of its own for the kubelet, which is mounted at /var/lib/kubelet. Without, volumes of pods "
        "are on the root disk.",
    )


class EtcdVolume(ApiModel):
    """Where etcd of a control-plane machine keeps its data: a disk of its own. It goes with the machine."""

    size: DiskSize | None = Field(
        default=None, description="Size of the disk, which is mounted at /var/lib/etcd. Without: 10Gi."
    )
    host_path: HostPath | None = Field(
        default=None,
        description="The directory of the host that the disk is in, under a hostVolumeRoot that its KVMHost allows to "
        "the machine's namespace, such as one on a faster device. Without: where the other disks are.",
    )


class HostVolume(ApiModel):
    """A directory of the host inside the machine."""

    name: VolumeName = Field(description="Of the volume.")
    host_path: HostPath = Field(
        description="The directory, under a hostVolumeRoot that the KVMHost allows to the machine's namespace. Links "
        "are followed before that is judged."
    )
    mount_path: HostPath = Field(description="Where the machine finds it.")
    read_only: bool | None = Field(default=None, description="Whether the machine may only read it.")


class ProcessLimits(ApiModel):
    """Of QEMU as the host sees it, the guest included."""

    cpu: CpuTime | None = Field(default=None, description="Cores' worth of time, such as 2.5.")
    memory: MemorySize | None = Field(
        default=None, description="Memory; the host ends a machine that takes more, so leave room above the guest's."
    )


class GuestLimits(ApiModel):
    """Of the guest's cores together."""

    cpu: CpuTime | None = Field(default=None, description="Cores' worth of time, such as 1.5.")


class Limits(ApiModel):
    """What a machine may take of its host. Without, its cores are as fast as the host's."""

    guest: GuestLimits | None = Field(default=None, description="Of the guest.")
    process: ProcessLimits | None = Field(default=None, description="Of the process that runs it.")


class KVMMachineSpec(ApiModel):
    provider_id: str | None = Field(
        default=None,
        alias="providerID",
        max_length=42,
        pattern=r"^kvm://[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        description="kvm:// and the UUID of its domain, a random one (version 4), filled in by the provider before "
        "anything is made; the Node carries the same.",
    )
    host: HostName | None = Field(
        default=None,
        description="The KVMHost that it is on. Chosen by the provider, of those that allow the machine's namespace, "
        "and filled in before anything is made there.",
    )
    resources: MachineResources = Field(description="How large it is.")
    image: Image | None = Field(
        default=None,
        description="What its root disk is made from: the name of an image of the host, or its path under one of the "
        "host's imageRoots, with @sha256:<checksum> to be held against it. Without: the host's for the Kubernetes "
        "version of the Machine.",
    )
    storage_root: HostPath | None = Field(
        default=None, description="Which of the host's storageRoots its disks are in. Without: the first."
    )
    etcd_volume: EtcdVolume | None = Field(default=None, description="Storage of etcd. Without: the root disk.")
    host_volumes: (
        Annotated[
            list[HostVolume],
            Field(
                max_length=16,
                json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
        ]
        | None
    ) = Field(default=None, description="Directories of the host inside the machine.")
    dns_servers: Annotated[list[Address], Field(max_length=3)] | None = Field(
        default=None,
        description="Addresses of its DNS servers, at most three as resolvers ask no more. Without: the network's.",
    )
    ntp_servers: Annotated[list[Server], Field(max_length=8)] | None = Field(
        default=None, description="Names or addresses of its time servers. Without: the image's."
    )
    iscsi_initiator_name: str | None = Field(
        default=None,
        max_length=223,
        pattern=INITIATOR_PATTERN,
        description="What it calls itself towards iSCSI targets, as in iqn.2026-01.org.example:{machine}, where "
        "{machine} stands for its name. Whoever calls itself so may reach the target: no two machines may share one.",
    )
    limits: Limits | None = Field(default=None, description="What it may take of its host.")


class MachineAddress(ApiModel):
    type: Literal["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]
    address: str = Field(min_length=1, max_length=256)


class KVMMachineStatus(ApiModel):
    initialization: Initialization | None = None
    accepted: bool | None = Field(
        default=None,
        description="Whether the provider has judged that it may be on its host. From then on it counts there.",
    )
    phase: Literal["Pending", "Starting", "Running", "Stopped", "Failed", "Deleting"] | None = Field(
        default=None, description="Where the machine is in its life."
    )
    addresses: Annotated[list[MachineAddress], Field(max_length=32)] | None = Field(
        default=None, description="Host name and addresses of the machine."
    )
    conditions: Conditions | None = None


class KVMMachineTemplateResource(ApiModel):
    metadata: TemplateMetadata | None = None
    spec: KVMMachineSpec


class KVMMachineTemplateSpec(ApiModel):
    template: KVMMachineTemplateResource = Field(description="The machine that each copy starts as.")


_BRIDGE_RULE: Final = {
    "rule": "(self.mode == 'Bridge') == has(self.bridge)",
    "message": "bridge names the bridge of mode Bridge, and belongs to no other mode",
}
_NETWORK_STAYS: Final = "a cluster stays on the network that it was made with; make a new cluster for another"
_ETCD_RULE: Final = {
    "rule": "has(self.size) || has(self.hostPath)",
    "message": "set size, hostPath or both",
}
_FILLED_IN: Final = ("host", "range", "virtualRouterID")
"""Of a cluster, by the provider."""
_IDENTITY: Final = ("providerID", "host", "storageRoot")
"""Of a machine, filled in by the provider."""
_KEEPS_IDENTITY: Final = tuple(
    {
        "rule": f"!has(oldSelf.{name}) || has(self.{name})",
        "message": f"{name} says which domain is the machine's and where its disks are, and cannot be taken away",
    }
    for name in _IDENTITY
)
_MADE_OF: Final = ("resources", "image", "etcdVolume", "hostVolumes", "limits")
"""What a machine was judged and made by, and is counted and removed by."""
_STAYS_AS_MADE: Final = "a machine stays as it was made: make another"
_KEEPS_MAKE: Final = tuple(
    {"rule": f"has(self.{name}) == has(oldSelf.{name})", "message": f"{name}: {_STAYS_AS_MADE}"}
    for name in _MADE_OF[1:]
)
_KEEPS_NETWORK: Final = tuple(
    {
        "rule": f"!has(oldSelf.{name}) || has(self.{name})",
        "message": f"{name} says what has been made for the cluster, and cannot be taken away",
    }
    for name in _FILLED_IN
)
_TEMPLATE_RULES: Final = (
    {"rule": "self == oldSelf", "message": "a template is never changed: make another, and refer to that"},
    {
        "rule": "!has(self.providerID) && !has(self.host)",
        "message": "providerID and host belong to one machine; the provider fills them in",
    },
    {
        "rule": f"!has(self.iscsiInitiatorName) || self.iscsiInitiatorName.contains('{MACHINE_NAME}')",
        "message": f"machines of one template must not share an initiator name: put {MACHINE_NAME} into it",
    },
)
_PROVISIONED: Final = Column(
    "Provisioned", ".status.initialization.provisioned", "Whether the infrastructure exists.", "boolean"
)
_CLUSTER: Final = Column(
    "Cluster", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']", "The cluster it belongs to."
)

KVM_CLUSTER: Final = Kind(
    resource=resources.KVM_CLUSTERS,
    singular="kvmcluster",
    description="The infrastructure of one cluster on KVM hosts: what connects its machines, and where its API is.",
    spec=KVMClusterSpec,
    status=KVMClusterStatus,
    categories=CATEGORIES,
    columns=(
        _CLUSTER,
        Column("Endpoint", ".spec.controlPlaneEndpoint.host", "Host of the cluster's API."),
        Column("Port", ".spec.controlPlaneEndpoint.port", "Port of the cluster's API.", "integer"),
        _PROVISIONED,
        model.AGE,
    ),
    labels=CONTRACT_LABELS,
    rules={
        "spec": ({"rule": "has(self.network) == has(oldSelf.network)", "message": _NETWORK_STAYS}, *_KEEPS_NETWORK),
        "spec.network": (_BRIDGE_RULE, {"rule": "self == oldSelf", "message": _NETWORK_STAYS}),
        **{f"spec.{name}": (_set_once(name),) for name in _FILLED_IN},
    },
)
KVM_CLUSTER_TEMPLATE: Final = Kind(
    resource=resources.KVM_CLUSTER_TEMPLATES,
    singular="kvmclustertemplate",
    description="What clusters on KVM hosts are made from, by a ClusterClass. Never changed.",
    spec=KVMClusterTemplateSpec,
    categories=CATEGORIES,
    labels=CONTRACT_LABELS,
    rules={
        "spec.template.spec": (
            {"rule": "self == oldSelf", "message": "a template is never changed: make another, and refer to that"},
            {
                "rule": " && ".join(f"!has(self.{name})" for name in _FILLED_IN),
                "message": f"{', '.join(_FILLED_IN)} belong to one cluster; the provider fills them in",
            },
        ),
        "spec.template.spec.network": (_BRIDGE_RULE,),
    },
)
KVM_MACHINE: Final = Kind(
    resource=resources.KVM_MACHINES,
    singular="kvmmachine",
    description="One virtual machine on a KVM host.",
    spec=KVMMachineSpec,
    status=KVMMachineStatus,
    categories=CATEGORIES,
    columns=(
        _CLUSTER,
        Column("Phase", ".status.phase", "Where the machine is in its life."),
        Column("Host", ".spec.host", "The KVMHost that it is on."),
        Column("Cores", ".spec.resources.cpu", "Cores.", "integer"),
        Column("Memory", ".spec.resources.memory", "Memory."),
        Column("ProviderID", ".spec.providerID", "Identity of the machine.", priority=1),
        _PROVISIONED,
        model.AGE,
    ),
    labels=CONTRACT_LABELS,
    rules={
        "spec": (*_KEEPS_IDENTITY, *_KEEPS_MAKE),
        **{f"spec.{name}": (_set_once(name),) for name in _IDENTITY},
        **{f"spec.{name}": ({"rule": "self == oldSelf", "message": _STAYS_AS_MADE},) for name in _MADE_OF},
        "spec.etcdVolume": (_ETCD_RULE, {"rule": "self == oldSelf", "message": _STAYS_AS_MADE}),
    },
)
KVM_MACHINE_TEMPLATE: Final = Kind(
    resource=resources.KVM_MACHINE_TEMPLATES,
    singular="kvmmachinetemplate",
    description="What machines on KVM hosts are made from. Never changed: another size is another template.",
    spec=KVMMachineTemplateSpec,
    categories=CATEGORIES,
    labels=CONTRACT_LABELS,
    rules={"spec.template.spec": _TEMPLATE_RULES, "spec.template.spec.etcdVolume": (_ETCD_RULE,)},
)
KVM_HOST: Final = Kind(
    resource=resources.KVM_HOSTS,
    singular="kvmhost",
    description="A host that runs virtual machines by libvirt, and what of it they may have.",
    spec=KVMHostSpec,
    status=KVMHostStatus,
    categories=("steelyard",),
    columns=kvmhost.COLUMNS,
    labels={**PROVIDER_LABELS, wellknown.CLUSTERCTL_MOVE_LABEL: ""},
    rules={"spec": kvmhost.RULES},
)
KINDS: Final = (KVM_CLUSTER, KVM_CLUSTER_TEMPLATE, KVM_MACHINE, KVM_MACHINE_TEMPLATE, KVM_HOST)
