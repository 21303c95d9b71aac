"""Machines of plain KVM hosts: where their disks are, what connects them, and what they are told at their start."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from steelyard.api.kvm import Server
from steelyard.api.kvmhost import HostPath, InterfaceName
from steelyard.api.sizes import DiskGb
from steelyard.settings.base import SettingsModel
from steelyard.settings.networkplugins import NetworkManifests, NetworkPlugin

IMAGE: Final = "debian-12-kubernetes-{version}.qcow2"
"""Where the catalogue of versions names none."""
ANY_REGISTRY: Final = "*"

_HOST = r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?"
# What machines are told at their start goes through cloud-init's templates, systemd and TOML: nothing that any of them
# would take for its own is in these. Nor is a password: templates are no Secrets.
ProxyUrl = Annotated[str, Field(max_length=300, pattern=rf"^https?://{_HOST}/?$")]
MirrorUrl = Annotated[str, Field(max_length=300, pattern=rf"^https?://{_HOST}(/[A-Za-z0-9._-]+)*/?$")]
Registry = Annotated[str, Field(max_length=300, pattern=rf"^(\*|{_HOST})$")]
Unproxied = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.*:/_-]+$")]
UserName = Annotated[str, Field(max_length=32, pattern=r"^[a-z_][a-z0-9_-]*$")]
SshKey = Annotated[
    str, Field(max_length=2048, pattern=r"^(ssh|ecdsa|sk)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/=]+( [A-Za-z0-9@._ -]*)?$")
]


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
    def _complete(self) -> KvmNetwork:
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
    def _complete(self) -> Proxy:
        if self.exceptions and not (self.http or self.https):
            raise ValueError("exceptions are those of a proxy: set http or https")
        return self


class Kvm(SettingsModel):
    """Machines of infrastructure kvm. What they boot from is the image of the catalogue (versions.infrastructures.kvm),
    else debian-12-kubernetes-<version>.qcow2 of their host. A change of what machines are
    made of or told replaces those of every cluster."""

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
    network: KvmNetwork = Field(default=KvmNetwork(), description="What connects the machines of a cluster.")
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
    proxy: Proxy = Field(default=Proxy(), description="What images are pulled through.")
    users: dict[UserName, Annotated[tuple[SshKey, ...], Field(min_length=1, strict=False)]] = Field(
        default={}, description="Who may log in to machines by SSH: public keys by the name of the user."
    )
    network_plugin: NetworkPlugin | None = Field(
        default=None,
        description="What carries the traffic of pods where a claim does not say: cilium, calico or kube-ovn. Unset: "
        "cilium for a WorkloadCluster, kube-ovn for a KubernetesCluster.",
    )
    network_manifests: NetworkManifests = Field(
        default=NetworkManifests(), description="Where network plugins come from without Argo CD."
    )
