"""Which ranges a cluster's pods and Services have: what it has already, else what it asks for, else a free one.

Allocation looks at the ranges of the clusters that are there. It begins at a place that follows from the claim's name,
so that claims that are composed in the same moment, before either is seen, hardly ever begin at the same one; and it is
the same each time it is asked. Once a cluster has ranges it keeps them: nothing inside it could follow a change.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from steelyard.api.clusterapi import resources
from steelyard.compose import names
from steelyard.compose.composed import Observed, Requirement
from steelyard.compose.refusing import Refused
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.networks import Pools, overlap

KINDS: Final = ("WorkloadCluster", "KubernetesCluster", "VirtualCluster")
"""Kinds of claims whose clusters have ranges."""
CHOOSE_ANOTHER: Final = "choose another range, or leave the field out"
RESERVED: Final = f"which the platform file reserves (networks.reserved); {CHOOSE_ANOTHER}"
OF_MACHINES: Final = f"where the machines of such clusters have their addresses; {CHOOSE_ANOTHER}"
_REQUIRED: Final = "clusters-of-"
_FIELDS: Final = {"pods": "spec.parameters.podCidr", "services": "spec.parameters.serviceCidr"}
_MOST_TRIED: Final = 4096

_IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@frozen
class Ranges:
    pods: str
    services: str


def requirements(
    claim: Object, observed: Observed, platform: Platform, kinds: Iterable[str] = KINDS
) -> dict[str, Requirement]:
    """What must be looked up first: all clusters of claims of these kinds, where ranges are to be allocated and the
    claim has none yet.
    """
    if not platform.networks.allocates or has_ranges(claim, observed):
        return {}
    return {f"{_REQUIRED}{kind}": Requirement(resources.CLUSTERS, "", label=(names.CLAIM_KIND, kind)) for kind in kinds}


def has_ranges(claim: Object, observed: Observed) -> bool:
    own = _own(claim, observed)
    return bool(own.get("pods") and own.get("services"))


def of(claim: Object, asked: Ranges, observed: Observed, platform: Platform) -> Ranges:
    """`asked` are those of the claim, empty where it says nothing."""
    own = _own(claim, observed)
    shared = {"pods": platform.cluster_network.pods, "services": platform.cluster_network.services}
    pools = {"pods": platform.networks.pods, "services": platform.networks.services}
    wanted = {"pods": asked.pods, "services": asked.services}
    found: dict[str, str] = {}
    for what in ("pods", "services"):
        found[what] = own.get(what) or wanted[what]
    taken = [*_taken(claim, observed), *platform.networks.reserved]
    for what in ("pods", "services"):
        if not found[what]:
            beside = [each for each in found.values() if each]
            found[what] = _allocated(claim, what, pools[what], [*taken, *beside]) if pools[what].pools else shared[what]
    return Ranges(found["pods"], found["services"])


def problems(
    claim: Object, asked: Ranges, observed: Observed, platform: Platform, machines: Sequence[str] = ()
) -> Iterator[str]:
    """What is wrong with the ranges that a claim asks for, each with its field. One that the cluster has already is not
    judged again. `machines` are ranges in which machines have their addresses."""
    own = _own(claim, observed)
    taken = list(_taken(claim, observed))
    wanted = {"pods": asked.pods, "services": asked.services}
    for what in ("pods", "services"):
        range_ = wanted[what]
        if not range_ or own.get(what):
            continue
        if reserved := platform.networks.reserved_by(range_):
            yield f"{_FIELDS[what]}: {range_} overlaps with {reserved}, {RESERVED}"
        elif own_network := next((each for each in machines if overlap(each, range_)), ""):
            yield f"{_FIELDS[what]}: {range_} overlaps with {own_network}, {OF_MACHINES}"
        elif other := next((each for each in taken if overlap(each, range_)), ""):
            yield f"{_FIELDS[what]}: {range_} overlaps with {other}, which another cluster has; {CHOOSE_ANOTHER}"
    yield from _beside_shared(own, wanted, platform)


def _beside_shared(own: Mapping[str, str], wanted: Mapping[str, str], platform: Platform) -> Iterator[str]:
    """Of one that is asked for alone, where the other is that of all clusters."""
    shared = {"pods": platform.cluster_network.pods, "services": platform.cluster_network.services}
    has_pools = {"pods": platform.networks.pods.pools, "services": platform.networks.services.pools}
    for what, other in (("pods", "services"), ("services", "pods")):
        is_alone = wanted[what] and not wanted[other] and not own.get(what) and not own.get(other)
        if is_alone and not has_pools[other] and overlap(wanted[what], shared[other]):
            yield f"{_FIELDS[what]}: {wanted[what]} overlaps with {shared[other]}, {of_all_clusters(other)}"


def of_all_clusters(what: str) -> str:
    """After a range that all clusters share: what it is, and what to do."""
    return f"which the {'pods' if what == 'pods' else 'Services'} of the cluster have; {CHOOSE_ANOTHER}, or set both"


def _own(claim: Object, observed: Observed) -> Mapping[str, str]:
    """What the cluster has: as its claim reports it, else as the Cluster says."""
    used = objects.mapping(objects.at(claim, "status", "parameters"))
    network = objects.mapping(objects.at(observed.resources.get("cluster"), "spec", "clusterNetwork"))
    pods, services = (next(_blocks(objects.mapping(network.get(what))), "") for what in ("pods", "services"))
    return {"pods": str(used.get("podCidr") or pods), "services": str(used.get("serviceCidr") or services)}


def _taken(claim: Object, observed: Observed) -> Iterator[str]:
    itself = names.claim_labels(claim)
    for name, found in observed.required.items():
        if not name.startswith(_REQUIRED):
            continue
        for cluster in found:
            if not objects.matches(itself, cluster):
                network = objects.mapping(objects.at(cluster, "spec", "clusterNetwork"))
                yield from _blocks(objects.mapping(network.get("pods")))
                yield from _blocks(objects.mapping(network.get("services")))


def _blocks(ranges: Object) -> Iterator[str]:
    for each in objects.sequence(ranges.get("cidrBlocks")):
        if _is_network(str(each)):
            yield str(each)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _allocated(claim: Object, what: str, pools: Pools, taken: Sequence[str]) -> str:
    places = [(ipaddress.ip_network(pool), _count(pool, pools.prefix)) for pool in pools.pools]
    total = sum(count for _, count in places)
    seed = hashlib.sha256(f"{what}/{objects.namespace(claim)}/{objects.name(claim)}".encode()).digest()
    start = int.from_bytes(seed[:8], "big") % total
    for step in range(min(total, _MOST_TRIED)):
        candidate = _cut(places, pools.prefix, (start + step) % total)
        if not any(overlap(candidate, each) for each in taken):
            return candidate
    raise Refused(
        "NoAddressesLeft",
        f"no range of /{pools.prefix} is free for {what} in {', '.join(pools.pools)}; add a pool to "
        f"networks.{what}.pools in the platform file, or name a range in spec.parameters",
    )


def _count(pool: str, prefix: int) -> int:
    return 1 << (prefix - ipaddress.ip_network(pool).prefixlen)


def _cut(places: Sequence[tuple[_IpNetwork, int]], prefix: int, index: int) -> str:
    """The range of that number, counted through all pools."""
    for pool, count in places:
        if index < count:
            size = 1 << (pool.max_prefixlen - prefix)
            return f"{pool.network_address + index * size}/{prefix}"
        index -= count
    raise IndexError(index)
