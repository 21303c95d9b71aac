"""What becomes of the parameters that all kinds of clusters have: pools, ranges, and what cannot be had here.

What is wrong is told all at once, each with its field. The same is refused by the policy of `api/clusterpolicies.py`
when a claim is written; here it is asked of claims that no API has seen, and of other platform files than those had.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steelyard.api import clusterfields, clusterpolicies
from steelyard.api.clusterfields import ClusterFields, NodePool, UsedPool
from steelyard.compose import autoscaling, clusterapi, names, networks
from steelyard.compose.composed import Observed, Requirement
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.networks import Ranges
from steelyard.compose.refusing import Refused
from steelyard.compose.shape import Pool, Sizes, Taint
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

COUNTS: Final = frozenset({"nodePools", "podCidr", "serviceCidr"})
"""What the status reports of them and, if it changes, replaces no machine by itself."""


_ADDRESS_NEEDED: Final = (
    "clusters here are on a bridge that others use, too (kvm.network in the platform file): give an address of that "
    "network which is nobody else's, as in 192.168.7.10:6443"
)


@frozen
class Settled:
    pools: tuple[Pool, ...]
    """Besides the first."""
    ranges: Ranges
    reported: Object
    """For `status.parameters`."""
    requirements: Mapping[str, Requirement]


def settled(
    claim: Object,
    asked: ClusterFields,
    observed: Observed,
    platform: Platform,
    *,
    revision: str,
    infrastructure: Infrastructure,
    control_plane: Sizes,
    workers: Sizes,
    problems: Sequence[str] = (),
) -> Settled:
    """Raises `Refused` with everything that cannot be; `problems` are what the kind has found already."""
    wanted = Ranges(asked.pod_cidr or "", asked.service_cidr or "")
    if revision == "v1":
        _refuse_what_v1_has_not(claim, asked)
        shared = Ranges(platform.cluster_network.pods, platform.cluster_network.services)
        _refuse(list(_of_machines(infrastructure, control_plane)))
        return Settled((), shared, {}, {})
    _refuse(
        [
            *networks.problems(claim, wanted, observed, platform, infrastructure.node_ranges),
            *_of_endpoint(claim, asked, infrastructure, platform),
            *_of_machines(infrastructure, control_plane),
            *_of_labels(asked.node_pools or ()),
            *_of_names(claim, asked.node_pools or ()),
            *problems,
        ]
    )
    ranges = networks.of(claim, wanted, observed, platform)
    pools = tuple(_pool(each, workers, observed) for each in asked.node_pools or ())
    reported: Object = {"podCidr": ranges.pods, "serviceCidr": ranges.services}
    if pools:
        reported["nodePools"] = [_reported(each) for each in pools]
    return Settled(pools, ranges, reported, networks.requirements(claim, observed, platform))


def _refuse_what_v1_has_not(claim: Object, asked: ClusterFields) -> None:
    given = clusterfields.in_use(asked)
    if given:
        name = f"{objects.name(claim)} -n {objects.namespace(claim)}"
        raise Refused(
            "NeedsNewerRevision",
            f"the claim is pinned to composition revision v1, which knows nothing of {', '.join(given)}; move it on "
            f"with steelyard revise {name} --to v2, or take them out of spec.parameters",
        )


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise Refused("ParametersNotAvailable", "; ".join(problems))


def _of_endpoint(
    claim: Object, asked: ClusterFields, infrastructure: Infrastructure, platform: Platform
) -> Iterator[str]:
    if asked.api_endpoint is None:
        if infrastructure.needs_address:
            yield f"{clusterpolicies.ENDPOINT}: {_ADDRESS_NEEDED}"
        return
    host, namespace = asked.api_endpoint.rpartition(":")[0], objects.namespace(claim)
    if not infrastructure.has_endpoint:
        yield f"{clusterpolicies.ENDPOINT}: {clusterpolicies.no_endpoint(infrastructure.name)}"
    elif not platform.networks.grants_host(namespace, host):
        yield f"{clusterpolicies.ENDPOINT}: {clusterpolicies.not_granted(host, namespace)}"
    elif infrastructure.needs_address and not _is_address(host):
        yield f"{clusterpolicies.ENDPOINT}: {host} is no address; {_ADDRESS_NEEDED}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _of_machines(infrastructure: Infrastructure, control_plane: Sizes) -> Iterator[str]:
    least = infrastructure.least_memory_gi
    if control_plane.memory_gi < least:
        yield (
            f"control-plane machines have {control_plane.memory_gi} GiB of memory, "
            f"{clusterpolicies.too_little_memory(least)}"
        )


def _of_labels(pools: Sequence[NodePool]) -> Iterator[str]:
    for pool in pools:
        for key in pool.labels or {}:
            if problem := clusterpolicies.label_problem(key):
                yield f"{clusterpolicies.POOLS}: {key}: {problem}"


def _of_names(claim: Object, pools: Sequence[NodePool]) -> Iterator[str]:
    """Two with one name would be one object."""
    cluster = names.cluster(claim)
    called = [pool.name for pool in pools]
    for name in dict.fromkeys(called):
        if called.count(name) > 1:
            yield f"{clusterpolicies.POOLS}: {name} is there {called.count(name)} times; give each pool its own name"
        if len(names.machine_deployment(cluster, name)) > clusterpolicies.LABEL_MAX:
            too_long = names.machine_deployment(cluster, name)
            yield f"{clusterpolicies.POOLS}: {too_long} is too long; shorten the pool's name"


def _pool(asked: NodePool, workers: Sizes, observed: Observed) -> Pool:
    bounds = None
    if asked.min_replicas is not None and asked.max_replicas is not None:
        bounds = (asked.min_replicas, asked.max_replicas)
    first = bounds[0] if bounds is not None else 1
    pool = Pool(
        replicas=first if asked.replicas is None else asked.replicas,
        sizes=Sizes(
            workers.cpu_cores if asked.cpu_cores is None else asked.cpu_cores,
            workers.memory_gi if asked.memory_gi is None else asked.memory_gi,
            workers.disk_gb if asked.disk_gb is None else asked.disk_gb,
        ),
        name=asked.name,
        labels=dict(asked.labels or {}),
        taints=tuple(Taint(each.key, each.effect, each.value or "") for each in asked.taints or ()),
        bounds=bounds,
    )
    return autoscaling.settled(pool, observed.resources.get(clusterapi.workers(pool)))


def _reported(pool: Pool) -> Object:
    return UsedPool(
        name=pool.name,
        replicas=pool.replicas,
        cpu_cores=pool.sizes.cpu_cores,
        memory_gi=pool.sizes.memory_gi,
        disk_gb=pool.sizes.disk_gb,
    ).to_json()
