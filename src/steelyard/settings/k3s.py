"""k3s in virtual machines, for VirtualClusters on KubeVirt: what they boot from, which release, who may log in."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from steelyard.api import versions
from steelyard.api.k3s import IngressClass
from steelyard.settings.base import SettingsModel
from steelyard.settings.integrations import Address, Chart

IMAGE: Final = "quay.io/containerdisks/ubuntu:24.04"
INSTALLER: Final = "https://get.k3s.io"
NGINX: Final = Chart.known(repository="https://kubernetes.github.io/ingress-nginx", version="4.12.1")


def _version(value: str) -> str:
    if problem := versions.problem(value):
        raise ValueError(problem)
    return versions.canonical(value)


Version = Annotated[str, AfterValidator(_version)]
Release = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^v[0-9]+[.][0-9]+[.][0-9]+[+]k3s[0-9]+$")]
ReleaseSuffix = Annotated[str, Field(pattern=r"^[+]k3s[0-9]+$", max_length=16)]
SshKey = Annotated[str, Field(max_length=2000, pattern=r"^(ssh|ecdsa|sk)-[-a-z0-9@.]+ [A-Za-z0-9+/=]+( [^\r\n]*)?$")]
UserName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]


class K3s(SettingsModel):
    """Servers of VirtualClusters. What is changed here is for servers that are made from then on; those that there are
    stay as they were made."""

    image: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\s]+$")] = Field(
        default=IMAGE,
        description="Container disk with a Linux that has cloud-init, systemd and curl. The root disk is a copy of it.",
    )
    installer: Address = Field(
        default=INSTALLER,
        description="Where servers get k3s' installation script from; it fetches the release and checks its digest.",
    )
    release_suffix: ReleaseSuffix = Field(
        default="+k3s1", description="What follows a Kubernetes version in the name of its release: v1.30.0+k3s1."
    )
    releases: dict[Version, Release] = Field(
        default={}, description="By Kubernetes version: the release, where it is another, as in v1.30.4: v1.30.4+k3s2."
    )
    ssh_authorized_keys: tuple[SshKey, ...] = Field(
        default=(),
        strict=False,
        description="Public keys that may log in to servers. None by default: the platform itself never logs in.",
    )
    user: UserName = Field(default="kube", description="As whom they log in. It may become root.")
    ingress_class: IngressClass = Field(
        default="traefik", description="The ingress controller of clusters whose claims name none."
    )
    nginx: Chart = Field(default=NGINX, description="The chart of the ingress controller nginx.")

    def release(self, version: str) -> str:
        name = versions.canonical(version)
        return self.releases.get(name, f"{name}{self.release_suffix}")
