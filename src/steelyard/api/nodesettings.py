"""What a claim for a cluster can say of its machines besides their sizes, in place of what the platform file says: for
machines that the platform itself makes, such as those of kvm.

    nodeSettings:
      containerVolumeGb: 40
      dnsServers: [10.0.0.53]
      registryMirrors: [{registry: docker.io, urls: [https://mirror.example.org]}]

What machines are told at their start goes through cloud-init's templates, systemd and TOML, so nothing that any of them
would take for its own gets into a text here. Nor does a password: templates are no Secrets. Directories of the host are
held against what the KVMHost allows to the claim's namespace.
"""

from typing import Annotated, Any

from pydantic import Field

from steelyard.api.kvm import HostVolume
from steelyard.api.machineterms import (
    Domain,
    Duration,
    LeastConnections,
    MaxPerCore,
    MirrorUrl,
    ProxyUrl,
    Registry,
    Server,
    Unproxied,
)
from steelyard.api.model import ApiModel
from steelyard.api.sizes import DiskGb

Address = Annotated[
    str,
    Field(
        max_length=45,
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": "isIP(self)", "message": "write an address such as 10.0.0.53"}]
        },
    ),
]


def _map(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class Mirrors(ApiModel):
    """Where images of a registry are pulled from before it is asked itself."""

    registry: Registry = Field(description="Such as docker.io; * is every one that is not listed.")
    urls: Annotated[list[MirrorUrl], Field(min_length=1, max_length=8)] = Field(
        description="The mirrors, in the order in which they are asked."
    )


class NodeProxy(ApiModel):
    """What images are pulled through."""

    http: ProxyUrl | None = Field(default=None, description="For registries by HTTP, as in http://proxy:3128.")
    https: ProxyUrl | None = Field(default=None, description="For registries by HTTPS.")
    exceptions: Annotated[list[Unproxied], Field(max_length=64)] | None = Field(
        default=None, description="What is reached without it, besides the cluster's own ranges."
    )


class NodeConntrack(ApiModel):
    """Connections that kube-proxy has each machine remember."""

    max_per_core: MaxPerCore | None = Field(default=None, description="How many a core.")
    min: LeastConnections | None = Field(default=None, description="The fewest, whatever the number of cores.")
    tcp_established_timeout: Duration | None = Field(default=None, description="For how long an idle one, as in 24h.")
    tcp_close_wait_timeout: Duration | None = Field(
        default=None, description="For how long one that the other side has closed, as in 1h."
    )


class NodeSettings(ApiModel):
    """What machines have and are told, in place of what the platform file says. A change replaces the nodes."""

    container_volume_gb: DiskGb | None = Field(
        default=None, description="A disk of its own for images and containers, in GiB."
    )
    kubelet_volume_gb: DiskGb | None = Field(default=None, description="A disk of its own for volumes of pods, in GiB.")
    etcd_volume_gb: DiskGb | None = Field(
        default=None, description="A disk of its own for etcd on control-plane nodes, in GiB."
    )
    host_volumes: Annotated[list[HostVolume], Field(max_length=16, json_schema_extra=_map("name"))] | None = Field(
        default=None,
        description="Directories of the host inside workers; its KVMHost must allow them to the claim's namespace.",
    )
    dns_servers: Annotated[list[Address], Field(max_length=3)] | None = Field(
        default=None, description="Addresses of the machines' DNS servers."
    )
    ntp_servers: Annotated[list[Server], Field(max_length=8)] | None = Field(
        default=None, description="Names or addresses of the machines' time servers."
    )
    registry_mirrors: Annotated[list[Mirrors], Field(max_length=32, json_schema_extra=_map("registry"))] | None = Field(
        default=None, description="Where images are pulled from before their registry is asked."
    )
    proxy: NodeProxy | None = Field(default=None, description="What images are pulled through.")
    cluster_domain: Domain | None = Field(
        default=None, description="What names of Services end in. It stays what it is."
    )
    cluster_dns: Address | None = Field(default=None, description="The address that pods ask for names.")
    conntrack: NodeConntrack | None = Field(default=None, description="Connections that machines remember.")
