"""What every claim for a cluster can say besides its sizes, whichever kind it is: all of it optional.

    nodePools: [{name: gpu, replicas: 2, cpuCores: 32, labels: {gpu: "true"}}]
    podCidr: 10.200.0.0/16
    deletionProtection: true
    ttl: 168h

A kind inherits `ClusterFields` for its parameters, `UsedClusterFields` for what its status says was used of them, and
`ClusterStatus`; `clusterrules.py` has the rules that go with them. Composition acts on them from revision v2 on.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api.claims import ClaimStatus, ObjectReference
from steelyard.api.infrastructures import InfrastructureName
from steelyard.api.model import ApiModel, Timestamp
from steelyard.api.nodesettings import NodeSettings
from steelyard.api.sizes import CpuCores, DiskGb, MemoryGi, WorkerReplicas

NAME_MAX: Final = 49
"""Of a cluster: `<name>-control-plane` must fit into a label value, which holds 63 characters."""
NAME_SCHEMA: Final[dict[str, Any]] = {"maxLength": NAME_MAX, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
POOLS_MAX: Final = 20
TTL_LEAST: Final = "10m"
TTL_MOST: Final = "8760h"

AddOn = Literal["metrics-server", "kube-state-metrics", "node-exporter", "cert-exporter"]

_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
LABEL_KEY: Final = rf"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_NAME}$"
LabelValue = Annotated[str, Field(max_length=63, pattern=rf"^({_NAME})?$")]
TaintKey = Annotated[str, Field(min_length=1, max_length=253, pattern=LABEL_KEY)]


def _rule(rule: str, message: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


def _network(least: int, most: int, example: str) -> dict[str, Any]:
    return _rule(
        "isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self) == cidr(self).masked() && "
        f"cidr(self).prefixLength() >= {least} && cidr(self).prefixLength() <= {most}",
        f"write an IPv4 network of /{least} to /{most} by its first address, as in {example}",
    )


# The bounds are kubeadm's: room for the /24 of a node, and for at most 65,536 nodes; at most 2^20 Services.
PodCidr = Annotated[str, Field(max_length=18, json_schema_extra=_network(8, 24, "10.243.0.0/16"))]
ServiceCidr = Annotated[str, Field(max_length=18, json_schema_extra=_network(12, 28, "10.95.0.0/16"))]
Endpoint = Annotated[
    str,
    Field(
        max_length=259,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?:[1-9][0-9]{0,4}$",
        json_schema_extra=_rule(
            "int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",
            "a port is at most 65535; the usual one is 6443",
        ),
    ),
]
Ttl = Annotated[
    str,
    Field(
        max_length=9,
        pattern=r"^([1-9][0-9]{0,3}h([1-5]?[0-9]m)?|[1-9][0-9]{0,5}m)$",
        json_schema_extra=_rule(
            f"duration(self) >= duration('{TTL_LEAST}') && duration(self) <= duration('{TTL_MOST}')",
            f"from {TTL_LEAST} to {TTL_MOST}, as in 168h for a week",
        ),
    ),
]


class Taint(ApiModel):
    """Keeps pods away that do not tolerate it."""

    key: TaintKey = Field(description="Name of the taint.")
    value: LabelValue | None = Field(default=None, description="Its value, if it has one.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        description="What becomes of pods that do not tolerate it."
    )


PoolName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=40,
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        json_schema_extra=_rule(
            "!self.matches('(^|-)md-') && !self.matches('(^|-)control-plane$')",
            "md- and control-plane are parts of the names that other things of clusters have; choose another name",
        ),
    ),
]


class NodePool(ApiModel):
    """Workers that are alike, besides the cluster's first ones."""

    name: PoolName = Field(description="Of the pool, within the cluster. Another name is another pool.")
    replicas: WorkerReplicas | None = Field(
        default=None,
        description="How many machines; where an autoscaler decides (minReplicas), only how many at first. "
        "Default: minReplicas, else 1.",
    )
    min_replicas: WorkerReplicas | None = Field(
        default=None, description="With maxReplicas: a cluster-autoscaler decides, and this is the fewest."
    )
    max_replicas: WorkerReplicas | None = Field(default=None, description="The most that an autoscaler may make.")
    cpu_cores: CpuCores | None = Field(
        default=None, description="Cores of each machine. Default: as the cluster's first workers have."
    )
    memory_gi: MemoryGi | None = Field(
        default=None, description="Memory of each machine, in GiB. Default: as the first workers have."
    )
    disk_gb: DiskGb | None = Field(
        default=None, description="Root disk of each machine, in GiB; never less. Default: as the first workers have."
    )
    labels: Annotated[dict[str, LabelValue], Field(max_length=20)] | None = Field(
        default=None, description="Labels of its Nodes. Those of kubernetes.io and k8s.io are not a machine's to set."
    )
    taints: Annotated[list[Taint], Field(max_length=20)] | None = Field(
        default=None, description="Taints of its Nodes."
    )


_POOL_RULES: Final[list[Any]] = [
    {
        "rule": "has(self.minReplicas) == has(self.maxReplicas)",
        "message": "minReplicas and maxReplicas go together: give both, or neither",
    },
    {
        "rule": "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        "message": "minReplicas must not be more than maxReplicas",
    },
    {
        "rule": "!has(self.replicas) || !has(self.minReplicas) || !has(self.maxReplicas) || "
        "(self.replicas >= self.minReplicas && self.replicas <= self.maxReplicas)",
        "message": "replicas must lie between minReplicas and maxReplicas; or leave it out, and begin with minReplicas",
    },
    {
        "rule": "!has(self.diskGb) || !has(oldSelf.diskGb) || self.diskGb >= oldSelf.diskGb",
        "message": "disks do not shrink: leave diskGb as it was, or make a pool of another name",
    },
]
NodePools = Annotated[
    list[Annotated[NodePool, Field(json_schema_extra={"x-kubernetes-validations": _POOL_RULES})]],
    Field(
        max_length=POOLS_MAX,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]
AddOns = Annotated[list[AddOn], Field(max_length=10, json_schema_extra={"x-kubernetes-list-type": "set"})]


class ClusterFields(ApiModel):
    """Parameters that all kinds of clusters have."""

    infrastructure: InfrastructureName | None = Field(
        default=None,
        description="What the machines are made of. It stays what it is. Default: the platform file's infrastructure.",
    )
    node_pools: NodePools | None = Field(default=None, description="Workers besides the first ones, pool by pool.")
    pod_cidr: PodCidr | None = Field(
        default=None,
        description="Addresses of pods, as in 10.243.0.0/16. They stay what they are. Default: a free range of the "
        "platform file's networks.pods, else clusterNetwork.pods.",
    )
    service_cidr: ServiceCidr | None = Field(
        default=None,
        description="Addresses of Services, as in 10.95.0.0/16. They stay what they are. Default: a free range of the "
        "platform file's networks.services, else clusterNetwork.services.",
    )
    api_endpoint: Endpoint | None = Field(
        default=None,
        description="host:port at which the cluster's API is to be reached, in its certificate and in kubeconfigs; "
        "you see to it that it leads there, by DNS or a load balancer. The platform file says which hosts a claim may "
        "name (networks.apiEndpoints). It stays what it is. Not on simulated machines. Default: the address that the "
        "infrastructure gives it.",
    )
    node_settings: NodeSettings | None = Field(
        default=None,
        description="What machines have and are told besides their sizes, on kvm: in place of what the platform file "
        "says there.",
    )
    deletion_protection: bool | None = Field(
        default=None,
        description="Whether the claim is kept from being deleted, by anybody: to delete it takes setting this to "
        "false first. Default: false.",
    )
    ttl: Ttl | None = Field(
        default=None,
        description=f"How long after its creation the claim is deleted with all that was made for it, as in 168h: from "
        f"{TTL_LEAST} to {TTL_MOST}. It is told beforehand by an event and the condition Expiring, and does not happen "
        "while the claim is protected. Default: never.",
    )
    add_ons: AddOns | None = Field(
        default=None,
        description="What is installed in the cluster, by Argo CD: metrics-server, kube-state-metrics, node-exporter, "
        "cert-exporter. What is taken off the list stays in the cluster until somebody removes it there.",
    )


SINCE_V2: Final = tuple(name for name in ClusterFields.model_fields if name != "infrastructure")
"""What composition revision v1 knows nothing of."""


def in_use(parameters: ClusterFields) -> list[str]:
    """Those of them that a claim gives, as it writes them."""
    fields = ClusterFields.model_fields
    return [fields[name].alias or name for name in SINCE_V2 if getattr(parameters, name) is not None]


class UsedPool(ApiModel):
    name: Annotated[str, Field(max_length=63)]
    replicas: int = Field(description="How many machines; at first, where an autoscaler decides.")
    cpu_cores: int
    memory_gi: int
    disk_gb: int


class UsedClusterFields(ApiModel):
    """What was used of them, where revision v2 or a later one composed the claim."""

    node_pools: Annotated[list[UsedPool], Field(max_length=POOLS_MAX)] | None = None
    pod_cidr: Annotated[str, Field(max_length=64)] | None = None
    service_cidr: Annotated[str, Field(max_length=64)] | None = None


class ReplicaCounts(ApiModel):
    desired: int = Field(description="How many there are to be.")
    ready: int = Field(description="How many are ready.")
    summary: str = Field(description="ready/desired, for the printed table.")


class ClusterStatus(ClaimStatus):
    cluster_ref: ObjectReference | None = Field(default=None, description="The Cluster API Cluster behind the claim.")
    endpoint: str | None = Field(default=None, description="URL of the cluster's API, once it is known.")
    kubeconfig_secret: ObjectReference | None = Field(
        default=None, description="The Secret with the administrator's kubeconfig (key value), once it exists."
    )
    vault_path: str | None = Field(
        default=None, description="Where the kubeconfig is in Vault, if the platform works with one."
    )
    control_plane: ReplicaCounts | None = Field(default=None, description="Control-plane nodes.")
    workers: ReplicaCounts | None = Field(default=None, description="Worker nodes.")
    expires_at: Timestamp | None = Field(default=None, description="When the claim is deleted, where it has a ttl.")
