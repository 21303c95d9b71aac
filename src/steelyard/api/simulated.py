"""The kinds of simulated infrastructure: clusters and machines that exist only as state.

They keep the Cluster API v1beta2 contract for infrastructure providers, so that Steelyard's lifecycle and upstream's
treat them as they treat real machines.
"""

from typing import Annotated, Literal

from pydantic import Field

from steelyard.api import model, resources
from steelyard.api.clusterapi import wellknown
from steelyard.api.model import ApiModel, Column, Conditions, Initialization, Kind, Timestamp

CONTRACT_LABELS = {
    "cluster.x-k8s.io/provider": "infrastructure-simulated",
    "cluster.x-k8s.io/v1beta2": "v1beta2",
    wellknown.CLUSTERCTL_LABEL: "",
}
CATEGORIES = ("cluster-api", "steelyard")

Phase = Literal["Pending", "Booting", "Running", "Failed", "Deleting"]

CpuCores = Annotated[int, Field(ge=1, le=512, description="Cores of the machine, as its Node reports them.")]
MemoryGi = Annotated[int, Field(ge=1, le=16384, description="Memory of the machine in GiB, as its Node reports it.")]
DiskGb = Annotated[int, Field(ge=1, le=65536, description="Root disk of the machine in GiB, as its Node reports it.")]


class ControlPlaneEndpoint(ApiModel):
    host: str = Field(max_length=512, description="Host name or address of the cluster's API server.")
    port: int = Field(ge=1, le=65535, description="TCP port of the cluster's API server.")


class SimulatedClusterSpec(ApiModel):
    control_plane_endpoint: ControlPlaneEndpoint | None = Field(
        default=None,
        description="Where the cluster's API is served. Filled in by the provider; it keeps the port over restarts.",
    )


class SimulatedClusterStatus(ApiModel):
    initialization: Initialization | None = None
    conditions: Conditions | None = None


class Address(ApiModel):
    type: Literal["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]
    address: str = Field(min_length=1, max_length=256)


class SimulatedMachineSpec(ApiModel):
    provider_id: str | None = Field(
        default=None,
        alias="providerID",
        max_length=512,
        description="simulated://<namespace>/<name>, filled in by the provider; the Node carries the same.",
    )
    cpu_cores: CpuCores
    memory_gi: MemoryGi
    disk_gb: DiskGb
    boot_seconds: float | None = Field(
        default=None,
        ge=0,
        le=86400,
        description="Seconds from bootstrap data to running, for this machine. Default: the platform file's "
        "simulated.bootSeconds.",
    )


class SimulatedMachineStatus(ApiModel):
    initialization: Initialization | None = None
    phase: Phase | None = Field(default=None, description="Where the simulated machine is in its life.")
    addresses: list[Address] | None = Field(default=None, description="Host name and address of the machine.")
    boot_started_at: Timestamp | None = Field(
        default=None,
        description="When it was switched on. Recorded first, so that a restart does not start the boot anew.",
    )
    conditions: Conditions | None = None


class TemplateMetadata(ApiModel):
    labels: dict[str, str] | None = Field(
        default=None, description="Labels that each machine made from the template gets."
    )
    annotations: dict[str, str] | None = Field(default=None, description="Annotations that each such machine gets.")


class SimulatedMachineTemplateResource(ApiModel):
    metadata: TemplateMetadata | None = None
    spec: SimulatedMachineSpec


class SimulatedMachineTemplateSpec(ApiModel):
    template: SimulatedMachineTemplateResource = Field(description="The machine that each copy starts as.")


_PROVISIONED = Column(
    "Provisioned", ".status.initialization.provisioned", "Whether the infrastructure exists.", "boolean"
)
_CLUSTER = Column("Cluster", r".metadata.labels['cluster\.x-k8s\.io/cluster-name']", "The cluster it belongs to.")

SIMULATED_CLUSTER = Kind(
    resource=resources.SIMULATED_CLUSTERS,
    singular="simulatedcluster",
    description="The infrastructure of one simulated cluster: an API endpoint served by this process.",
    spec=SimulatedClusterSpec,
    status=SimulatedClusterStatus,
    categories=CATEGORIES,
    columns=(
        _CLUSTER,
        Column("Endpoint", ".spec.controlPlaneEndpoint.host", "Host of the cluster's API."),
        Column("Port", ".spec.controlPlaneEndpoint.port", "Port of the cluster's API.", "integer"),
        _PROVISIONED,
        model.AGE,
    ),
    labels=CONTRACT_LABELS,
)
SIMULATED_MACHINE = Kind(
    resource=resources.SIMULATED_MACHINES,
    singular="simulatedmachine",
    description="One simulated machine. It boots after a settable delay and then runs a Node in its cluster's API.",
    spec=SimulatedMachineSpec,
    status=SimulatedMachineStatus,
    categories=CATEGORIES,
    columns=(
        _CLUSTER,
        Column("Phase", ".status.phase", "Where the machine is in its life."),
        Column("Cores", ".spec.cpuCores", "Cores.", "integer"),
        Column("MemoryGi", ".spec.memoryGi", "Memory in GiB.", "integer"),
        Column("ProviderID", ".spec.providerID", "Identity of the machine.", priority=1),
        _PROVISIONED,
        model.AGE,
    ),
    labels=CONTRACT_LABELS,
)
SIMULATED_MACHINE_TEMPLATE = Kind(
    resource=resources.SIMULATED_MACHINE_TEMPLATES,
    singular="simulatedmachinetemplate",
    description="What simulated machines are made from. Never changed: another size is another template.",
    spec=SimulatedMachineTemplateSpec,
    categories=CATEGORIES,
    labels=CONTRACT_LABELS,
)
KINDS = (SIMULATED_CLUSTER, SIMULATED_MACHINE, SIMULATED_MACHINE_TEMPLATE)
