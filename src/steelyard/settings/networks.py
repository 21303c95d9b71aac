"""Address ranges of clusters that can reach each other: pools to allocate from, and what must be left alone.

    networks:
      pods: {pools: [10.128.0.0/10], prefix: 16}
      services: {pools: [172.20.0.0/14], prefix: 20}
      reserved: [10.16.0.0/16, 10.96.0.0/12]

Without pools all clusters have the ranges of `clusterNetwork`, which is right where they are isolated.
"""

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from steelyard.settings.base import SettingsModel


def _network(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError as error:
        raise ValueError(f"must be a network such as 10.243.0.0/16: {error}") from error


Network = Annotated[str, AfterValidator(_network)]
NamespaceName = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Host = Annotated[str, Field(max_length=253, pattern=r"^([*][.])?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


def overlap(one: str, other: str) -> bool:
    """Whether two ranges have an address in common.

    >>> overlap("10.0.0.0/8", "10.243.0.0/16")
    True
    """
    left, right = ipaddress.ip_network(one), ipaddress.ip_network(other)
    # Of one version, so of one class; the type checker does not follow the comparison.
    return left.version == right.version and left.overlaps(right)  # pyright: ignore[reportArgumentType]


class Pools(SettingsModel):
    """Where ranges of one kind come from."""

    pools: tuple[Network, ...] = Field(default=(), strict=False, description="Ranges to cut them from.")
    prefix: Annotated[int, Field(ge=8, le=120)] = Field(
        default=16, description="How large each is: 16 has 65,536 addresses, for 256 nodes at the usual /24 a node."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for pool in self.pools:
            if ipaddress.ip_network(pool).prefixlen > self.prefix:
                raise ValueError(f"{pool} has no room for a range of /{self.prefix}; make prefix larger")
        return self


class PodPools(Pools):
    """Where ranges for pods come from."""


class ServicePools(Pools):
    """Where ranges for Services come from."""

    prefix: Annotated[int, Field(ge=8, le=120)] = Field(
        default=20, description="How large each is: 20 has 4,096 addresses."
    )


class ApiEndpoints(SettingsModel):
    """Claims in some namespaces may say that the API of their cluster is reached at these hosts."""

    claims_in: tuple[NamespaceName | Literal["*"], ...] = Field(
        min_length=1, strict=False, description="Namespaces of the claims; * is any."
    )
    hosts: tuple[Host, ...] = Field(
        min_length=1,
        strict=False,
        description="Names or addresses; *.team-a.example.org is every name that ends so.",
    )


class Networks(SettingsModel):
    """Address ranges of clusters, for where clusters can reach each other or the management cluster. With pools, each
    new cluster gets ranges of its own and keeps them; clusters that exist stay as they are."""

    pods: PodPools = Field(default=PodPools.known(), description="Addresses of pods.")
    services: ServicePools = Field(default=ServicePools.known(), description="Addresses of Services.")
    reserved: tuple[Network, ...] = Field(
        default=(),
        strict=False,
        description="Ranges that no cluster may have, such as those of the management cluster, of hosts and of what "
        "is outside. A claim that asks for one that overlaps is refused.",
    )

    api_endpoints: tuple[ApiEndpoints, ...] = Field(
        default=(),
        strict=False,
        description="Where claims may say that the API of their cluster is (spec.parameters.apiEndpoint): programs are "
        "installed there with the platform's rights, so nobody may name the address of another cluster: "
        "{claimsIn: [team-a], hosts: ['*.team-a.example.org']}.",
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        for one in self.pods.pools:
            for other in self.services.pools:
                if overlap(one, other):
                    raise ValueError(f"the pools of pods and services overlap: {one} and {other}")
        return self

    @property
    def allocates(self) -> bool:
        return bool(self.pods.pools or self.services.pools)

    def reserved_by(self, network: str) -> str:
        """The reserved range that a network overlaps with; empty if there is none."""
        return next((each for each in self.reserved if overlap(each, network)), "")

    def granted_hosts(self) -> dict[str, tuple[str, ...]]:
        """Hosts of APIs by the namespace of the claims, or `*`."""
        found: dict[str, set[str]] = {}
        for grant in self.api_endpoints:
            for source in grant.claims_in:
                found.setdefault(source, set()).update(grant.hosts)
        return {source: tuple(sorted(hosts)) for source, hosts in sorted(found.items())}

    def grants_host(self, namespace: str, host: str) -> bool:
        granted = self.granted_hosts()
        return any(
            host.endswith(each[1:]) if each.startswith("*") else host == each
            for each in (*granted.get(namespace, ()), *granted.get("*", ()))
        )
