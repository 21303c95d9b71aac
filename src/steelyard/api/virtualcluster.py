"""VirtualCluster: the claim for a small Kubernetes cluster, k3s in one virtual machine, or in three.

    apiVersion: compute.steelyard.dev/v1alpha1
    kind: VirtualCluster
    metadata: {name: dev-cluster, namespace: team-a}
    spec:
      parameters: {environment: dev, k8sVersion: "1.30.0", ingressClass: nginx}

On machines that KubeVirt runs, k3s is installed when a machine first starts: what is decided then stays. On others the
cluster is made as any other, of a control plane alone.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from steelyard.api import admission, claims, infrastructures, model, resources, versions
from steelyard.api.claims import ClaimSpec, ClaimStatus, EnvironmentName, ObjectReference, SecretReference
from steelyard.api.clusterfields import NAME_SCHEMA, ReplicaCounts
from steelyard.api.infrastructures import InfrastructureName
from steelyard.api.k3s import IngressClass
from steelyard.api.model import ApiModel, Column, Kind
from steelyard.api.sizes import CpuCores, DiskGb, MemoryGi

INSTALLED_ONCE: Final = ("kubevirt",)
"""Infrastructures on which a server is what it was made as: k3s is installed by its first start."""

CANNOT_CHANGE: Final = (
    "cannot change once the servers are made: new ones would be empty, and what is in the cluster lost. Put it back to "
    "what status.parameters says, or make a new claim and move there"
)

K8sVersion = Annotated[
    str, Field(max_length=32, json_schema_extra={"x-kubernetes-validations": [versions.OFFERED_RULE]})
]

_FROM_ENVIRONMENT: Final = "Default: the environment's."
_RESTARTS: Final = "A change restarts the servers one by one, or replaces them where they are not on kubevirt."
_STAYS: Final = "On kubevirt it stays what it was when the cluster was made."


class Parameters(ApiModel):
    """What kind of cluster."""

    environment: EnvironmentName = Field(
        description="The stage the cluster serves. It decides every size that is not given here, see the platform file."
    )
    cpu_cores: CpuCores | None = Field(
        default=None,
        description=f"Cores of each server. {_RESTARTS} {_FROM_ENVIRONMENT}",
    )
    memory_gi: MemoryGi | None = Field(
        default=None,
        description=f"Memory of each server, in GiB. {_RESTARTS} {_FROM_ENVIRONMENT}",
    )
    disk_gb: DiskGb | None = Field(
        default=None, description=f"Root disk of each server, in GiB. {_STAYS} {_FROM_ENVIRONMENT}"
    )
    k8s_version: K8sVersion | None = Field(
        default=None,
        alias="k8sVersion",
        description=f"Kubernetes version with its patch, e.g. v1.30.0, from {versions.RANGE}. {_STAYS} Elsewhere it "
        f"rises by one minor version at a time and never falls. {_FROM_ENVIRONMENT}",
    )
    ingress_class: IngressClass | None = Field(
        default=None,
        description="The ingress controller to install: traefik, which k3s comes with, nginx, or none. Simulated "
        f"machines run none. {_STAYS} Default: the platform file's.",
    )
    high_availability: bool | None = Field(
        default=None,
        description=f"Three servers instead of one, to survive the loss of one. {_STAYS} Default: whether the "
        "environment's control planes have three.",
    )
    infrastructure: InfrastructureName | None = Field(
        default=None, description="What the machines are made of. Default: the platform file's infrastructure."
    )


class VirtualClusterSpec(ClaimSpec):
    """The cluster asked for. The fields beside `parameters` are those of a Crossplane claim, so that a claim made for
    Crossplane is accepted as it stands; embedded, those about compositions are kept without effect.
    """

    parameters: Parameters = Field(description="What kind of cluster.")
    write_connection_secret_to_ref: SecretReference | None = Field(
        default=None,
        description="A Secret to write the cluster's kubeconfig into, under the keys kubeconfig and value.",
    )


class UsedParameters(ApiModel):
    """Every parameter with the value in use, whether from the claim or from the environment."""

    environment: EnvironmentName
    infrastructure: InfrastructureName
    cpu_cores: int
    memory_gi: int
    disk_gb: int
    k8s_version: Annotated[str, Field(max_length=32)] = Field(alias="k8sVersion")
    high_availability: bool
    ingress_class: Annotated[str, Field(max_length=32)] | None = None


class VirtualClusterStatus(ClaimStatus):
    parameters: UsedParameters | None = Field(default=None, description="What was used for each parameter.")
    release: str | None = Field(default=None, description="The release of k3s that new servers install.")
    cluster_ref: ObjectReference | None = Field(
        default=None, description="The Cluster API Cluster behind the claim, where there is one."
    )
    endpoint: str | None = Field(default=None, description="URL of the cluster's API, once it is known.")
    kubeconfig_secret: ObjectReference | None = Field(
        default=None, description="The Secret with the administrator's kubeconfig (key value), once it exists."
    )
    vault_path: str | None = Field(
        default=None, description="Where the kubeconfig is in Vault, if the platform works with one."
    )
    control_plane: ReplicaCounts | None = Field(default=None, description="Servers.")


def kind(domain: str, offered: Sequence[str] = infrastructures.OFFERED) -> Kind:
    """The kind in a domain; `offered` are the infrastructures that claims may name there."""
    return Kind(
        resource=resources.virtual_clusters(domain),
        singular="virtualcluster",
        description="A small Kubernetes cluster of one's own: k3s in one virtual machine, or in three.",
        spec=VirtualClusterSpec,
        status=VirtualClusterStatus,
        short_names=("vc",),
        categories=claims.CATEGORIES,
        columns=(
            Column("Environment", ".spec.parameters.environment", "The stage it serves."),
            Column("Version", ".status.parameters.k8sVersion", "Kubernetes version."),
            Column("Servers", ".status.controlPlane.summary", "Servers, ready/desired."),
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
        name_schema=NAME_SCHEMA,
        rules={
            "spec.parameters.infrastructure": (admission.offered_infrastructure(offered),),
            "": (
                *versions.step_rules(".spec.parameters.k8sVersion", ".status.parameters.k8sVersion"),
                *_installed_once(),
                admission.CONNECTION_NAME,
            ),
        },
    )


def _installed_once() -> list[dict[str, Any]]:
    """What cannot change where servers are what they were made as. A claim that leaves a parameter out, or as it was,
    is not held up."""
    return [
        _stays("diskGb", "{}"),
        _stays("ingressClass", "{}"),
        _stays("k8sVersion", "({0}.startsWith('v') ? {0} : 'v' + {0})"),
        _stays("highAvailability", "{}"),
    ]


def _stays(field: str, spelled: str) -> dict[str, Any]:
    asked, used = f"self.spec.parameters.{field}", f"oldSelf.status.parameters.{field}"
    return {
        **_rule(field, f"{spelled.format(asked)} == {spelled.format(used)}"),
        "message": f"{field} {CANNOT_CHANGE}",
    }


def _rule(field: str, holds: str) -> dict[str, Any]:
    used = "oldSelf.status.parameters"
    is_made = (
        f"has(oldSelf.status) && has({used}) && {used}.infrastructure in {list(INSTALLED_ONCE)!r} && "
        f"has({used}.{field})"
    )
    is_asked = (
        f"has(self.spec.parameters.{field}) && !(has(oldSelf.spec.parameters.{field}) && "
        f"oldSelf.spec.parameters.{field} == self.spec.parameters.{field})"
    )
    return {"rule": f"!({is_made} && {is_asked}) || {holds}", "fieldPath": f".spec.parameters.{field}"}
