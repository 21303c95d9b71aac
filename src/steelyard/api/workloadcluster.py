"""WorkloadCluster: the claim for a Kubernetes cluster.

    apiVersion: compute.steelyard.dev/v1alpha1
    kind: WorkloadCluster
    metadata: {name: dev-cluster, namespace: team-a}
    spec:
      parameters: {environment: dev, workerReplicas: 4}

Sizes have no schema default. What a claim leaves out comes from its environment in the platform file each time the
claim is composed, and `status.parameters` says what was used: a default written into the claim by the API server could
never be told from a choice of its author, nor follow the environment.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from steelyard.api import admission, claims, clusterrules, infrastructures, model, resources, versions
from steelyard.api.claims import ClaimSpec, EnvironmentName, SecretReference
from steelyard.api.clusterfields import NAME_SCHEMA, ClusterFields, ClusterStatus, UsedClusterFields
from steelyard.api.infrastructures import InfrastructureName
from steelyard.api.model import ApiModel, Column, Kind, Scale
from steelyard.api.sizes import ControlPlaneReplicas, CpuCores, DiskGb, MemoryGi, WorkerReplicas

_FROM_ENVIRONMENT = "Default: the environment's."

KubernetesVersion = Annotated[
    str, Field(max_length=32, json_schema_extra={"x-kubernetes-validations": [versions.OFFERED_RULE]})
]


class Sizes(ApiModel):
    """What this kind calls its sizes."""

    environment: EnvironmentName = Field(
        description="The stage the cluster serves. It decides every size that is not given here, see the platform file."
    )
    control_plane_replicas: ControlPlaneReplicas | None = Field(
        default=None,
        description=f"Control-plane nodes: 1, or 3 to survive the loss of one. {_FROM_ENVIRONMENT}",
    )
    worker_replicas: WorkerReplicas | None = Field(default=None, description=f"Worker nodes. {_FROM_ENVIRONMENT}")
    cpu_cores: CpuCores | None = Field(
        default=None, description=f"Cores of each node. A change replaces the nodes. {_FROM_ENVIRONMENT}"
    )
    memory_gi: MemoryGi | None = Field(
        default=None, description=f"Memory of each node, in GiB. A change replaces the nodes. {_FROM_ENVIRONMENT}"
    )
    disk_gb: DiskGb | None = Field(
        default=None, description=f"Root disk of each node, in GiB. A change replaces the nodes. {_FROM_ENVIRONMENT}"
    )
    kubernetes_version: KubernetesVersion | None = Field(
        default=None,
        description=f"Kubernetes version with its patch, e.g. v1.32.1, from {versions.RANGE}. It rises by one minor "
        f"version at a time and never falls. A change replaces the nodes. {_FROM_ENVIRONMENT}",
    )


class Parameters(ClusterFields, Sizes):
    """What kind of cluster."""


class WorkloadClusterSpec(ClaimSpec):
    """The cluster asked for. The fields beside `parameters` are those of a Crossplane claim, so that a claim made for
    Crossplane is accepted as it stands. Where Crossplane runs, it acts on those about compositions; embedded, there is
    one composition, and they are kept without effect.
    """

    parameters: Parameters = Field(description="What kind of cluster.")
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None,
        description="A Secret to write the cluster's kubeconfig into, under the keys kubeconfig and value. "
        "<name>-kubeconfig in the claim's namespace is the one that Cluster API makes; it gets the second key.",
    )


class UsedParameters(UsedClusterFields):
    """Every parameter with the value in use, whether from the claim or from the environment."""

    environment: EnvironmentName
    infrastructure: InfrastructureName
    control_plane_replicas: int
    worker_replicas: int
    cpu_cores: int
    memory_gi: int
    disk_gb: int
    kubernetes_version: Annotated[str, Field(max_length=32)]


class WorkloadClusterStatus(ClusterStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")


def kind(domain: str, offered: Sequence[str] = infrastructures.OFFERED) -> Kind:
    """The kind in a domain; `offered` are the infrastructures that claims may name there."""
    return Kind(
        resource=resources.workload_clusters(domain),
        singular="workloadcluster",
        description="A Kubernetes cluster of one's own, asked for by environment and, where wanted, sizes.",
        spec=WorkloadClusterSpec,
        status=WorkloadClusterStatus,
        short_names=("wc",),
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
        scale=Scale(".spec.parameters.workerReplicas", ".status.workers.ready"),
        name_schema=NAME_SCHEMA,
        rules={
            "spec.parameters.infrastructure": (admission.offered_infrastructure(offered),),
            "spec.parameters": (clusterrules.APART,),
            "": (
                *admission.VERSION_STEPS,
                admission.CONNECTION_NAME,
                *clusterrules.WHOLE,
                clusterrules.grows("diskGb"),
            ),
        },
    )
