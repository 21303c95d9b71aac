"""KubernetesCluster: the claim for a Kubernetes cluster whose control plane and workers have sizes of their own.

    apiVersion: compute.steelyard.dev/v1alpha1
    kind: KubernetesCluster
    metadata: {name: dev-cluster, namespace: team-a}
    spec:
      parameters: {environment: dev, controlPlaneNodes: 1, workerNodes: 2, workerCPU: "4", workerMemory: 8Gi}

Sizes are texts, as Kubernetes writes quantities, of whole cores and GiB. They have no schema default, for the reason
that WorkloadCluster gives: what a claim leaves out comes from its environment, and `status.parameters` says what was
used.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from steelyard.api import admission, claims, clusterrules, infrastructures, model, resources
from steelyard.api.claims import ClaimSpec, EnvironmentName, SecretReference
from steelyard.api.clusterfields import NAME_SCHEMA, ClusterFields, ClusterStatus, UsedClusterFields
from steelyard.api.dataservices import VaultPath
from steelyard.api.infrastructures import InfrastructureName
from steelyard.api.model import ApiModel, Column, Kind, Scale
from steelyard.api.workloadcluster import KubernetesVersion

CONTROL_PLANE_DISK_GB: Final = 50

_FROM_ENVIRONMENT: Final = "Default: the environment's."
_GIBIBYTES: Final = "^[1-9][0-9]{0,4}Gi$"


def _rule(rule: str, message: str) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


def _gibibytes(most: int, example: str) -> dict[str, Any]:
    return _rule(
        f"self.matches('{_GIBIBYTES}') && int(self.replace('Gi', '')) <= {most}",
        f"write whole GiB, from 1Gi to {most}Gi, as in {example}",
    )


Cores = Annotated[
    str,
    Field(
        max_length=3,
        json_schema_extra=_rule(
            "self.matches('^[1-9][0-9]{0,2}$') && int(self) <= 512",
            'write whole cores, from "1" to "512", as in "4"',
        ),
    ),
]
Memory = Annotated[str, Field(max_length=7, json_schema_extra=_gibibytes(16384, "8Gi"))]
Storage = Annotated[str, Field(max_length=7, json_schema_extra=_gibibytes(65536, "100Gi"))]
ControlPlaneNodes = Annotated[
    int,
    Field(
        ge=1,
        le=5,
        json_schema_extra=_rule(
            "self % 2 == 1",
            "an even number survives no more losses than one node less, since most must agree: choose 1, 3 or 5",
        ),
    ),
]
WorkerNodes = Annotated[int, Field(ge=1, le=10)]
NetworkPlugin = Literal["kube-ovn", "calico", "cilium", "flannel"]


class Sizes(ApiModel):
    """What this kind calls its sizes, and what only it can say."""

    environment: EnvironmentName = Field(
        description="The stage the cluster serves. It decides every size that is not given here, see the platform file."
    )
    control_plane_nodes: ControlPlaneNodes | None = Field(
        default=None,
        description="Control-plane nodes: 1, or 3 or 5 to survive the loss of one or two. " + _FROM_ENVIRONMENT,
    )
    worker_nodes: WorkerNodes | None = Field(
        default=None, description=f"Worker nodes, besides those of nodePools. {_FROM_ENVIRONMENT}"
    )
    control_plane_cpu: Cores | None = Field(
        default=None,
        alias="controlPlaneCPU",
        description=f'Cores of each control-plane node, as in "4". A change replaces them. {_FROM_ENVIRONMENT}',
    )
    control_plane_memory: Memory | None = Field(
        default=None,
        description=f"Memory of each control-plane node, as in 8Gi. A change replaces them. {_FROM_ENVIRONMENT}",
    )
    worker_cpu: Cores | None = Field(
        default=None,
        alias="workerCPU",
        description=f'Cores of each worker node, as in "4". A change replaces them. {_FROM_ENVIRONMENT}',
    )
    worker_memory: Memory | None = Field(
        default=None, description=f"Memory of each worker node, as in 8Gi. A change replaces them. {_FROM_ENVIRONMENT}"
    )
    worker_storage: Storage | None = Field(
        default=None,
        description="Root disk of each worker node, as in 100Gi; never less. A change replaces them. Control-plane "
        f"nodes have {CONTROL_PLANE_DISK_GB}Gi. {_FROM_ENVIRONMENT}",
    )
    kubernetes_version: KubernetesVersion | None = Field(
        default=None,
        description="Kubernetes version with its patch, e.g. v1.32.1. It rises by one minor version at a time and "
        f"never falls. A change replaces the nodes. {_FROM_ENVIRONMENT}",
    )
    enable_live_migration: bool | None = Field(
        default=None,
        description="Whether machines move between hosts while they run, on kubevirt. A change replaces the nodes. "
        "Default: true.",
    )
    network_plugin: NetworkPlugin | None = Field(
        default=None,
        description="What carries the traffic of pods, on machines that come without a network; flannel on kvm only. "
        "Default: the platform file's networkPlugin of the infrastructure, else kube-ovn.",
    )
    vault_path: VaultPath | None = Field(
        default=None,
        description="Where the cluster's kubeconfig goes in Vault, if the platform works with one: secret/clusters/, "
        "then the environment, the claim's namespace, or a path below the latter. Default: "
        "secret/clusters/<environment>/<namespace>/<name>.",
    )


class Parameters(ClusterFields, Sizes):
    """What kind of cluster."""


class KubernetesClusterSpec(ClaimSpec):
    """The cluster asked for. The fields beside `parameters` are those of a Crossplane claim, so that a claim made for
    Crossplane is accepted as it stands; embedded, those about compositions are kept without effect.
    """

    parameters: Parameters = Field(description="What kind of cluster.")
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None,
        description="A Secret to write the cluster's kubeconfig into, under the keys kubeconfig and value. "
        "<name>-kubeconfig in the claim's namespace is the one that Cluster API makes; it gets the second key.",
    )


Quantity = Annotated[str, Field(max_length=16)]


class UsedParameters(UsedClusterFields):
    """Every parameter with the value in use, whether from the claim or from the environment."""

    environment: EnvironmentName
    infrastructure: InfrastructureName
    control_plane_nodes: int
    worker_nodes: int
    control_plane_cpu: Quantity = Field(alias="controlPlaneCPU")
    control_plane_memory: Quantity
    worker_cpu: Quantity = Field(alias="workerCPU")
    worker_memory: Quantity
    worker_storage: Quantity
    kubernetes_version: Annotated[str, Field(max_length=32)]
    enable_live_migration: bool | None = Field(
        default=None, description="Only where the infrastructure can move machines."
    )
    network_plugin: Quantity | None = Field(default=None, description="Only where machines come without a network.")


class KubernetesClusterStatus(ClusterStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")
    cluster_endpoint: str | None = Field(default=None, description="URL of the cluster's API, once it is known.")
    cluster_ready: bool | None = Field(default=None, description="Whether the cluster can be used.")
    kubeconfig: str | None = Field(
        default=None, description="The Secret with the administrator's kubeconfig, as namespace/name, once it exists."
    )


def kind(domain: str, offered: Sequence[str] = infrastructures.OFFERED) -> Kind:
    """The kind in a domain; `offered` are the infrastructures that claims may name there."""
    return Kind(
        resource=resources.kubernetes_clusters(domain),
        singular="kubernetescluster",
        description="A Kubernetes cluster of one's own, with sizes for its control plane and for its workers.",
        spec=KubernetesClusterSpec,
        status=KubernetesClusterStatus,
        short_names=("kc",),
        categories=claims.CATEGORIES,
        columns=(
            Column("Environment", ".spec.parameters.environment", "The stage it serves."),
            Column("Version", ".status.parameters.kubernetesVersion", "Kubernetes version."),
            Column("Control-Plane", ".status.controlPlane.summary", "Control-plane nodes, ready/desired."),
            Column("Workers", ".status.workers.summary", "Worker nodes, ready/desired."),
            Column("State", ".status.state", "How it is, in one word."),
            Column("Ready", ".status.conditions[?(@.type=='Ready')].status", "Whether the cluster can be used."),
            Column(
                "Synced", ".status.conditions[?(@.type=='Synced')].status", "Whether the claim was applied.", priority=1
            ),
            Column("Infrastructure", ".status.parameters.infrastructure", "What the machines are made of.", priority=1),
            Column("Endpoint", ".status.endpoint", "URL of the cluster's API.", priority=1),
            Column("Message", ".status.message", "What is going on.", priority=1),
            model.AGE,
        ),
        scale=Scale(".spec.parameters.workerNodes", ".status.workers.ready"),
        name_schema=NAME_SCHEMA,
        rules={
            "spec.parameters.infrastructure": (admission.offered_infrastructure(offered),),
            "spec.parameters": (clusterrules.APART,),
            "": (
                *admission.VERSION_STEPS,
                admission.CONNECTION_NAME,
                *clusterrules.WHOLE,
                clusterrules.grows("workerStorage", "int({}.replace('Gi', ''))"),
            ),
        },
    )
