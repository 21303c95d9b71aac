"""Address ranges of clusters: allocated without overlap, the same each time, and kept."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import settings
from steelyard.compose import names, networks
from steelyard.compose.composed import NOTHING, Observed
from steelyard.compose.networks import Ranges
from steelyard.compose.refusing import Refused
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from steelyard.settings.networks import overlap

NONE = Ranges("", "")
SMALL = settings.parse("networks: {pods: {pools: [10.128.0.0/14], prefix: 16}, services: {pools: [172.20.0.0/16]}}")
KINDS = ("WorkloadCluster",)


def claim(name: str, namespace: str = "team-a", **used: str) -> Object:
    return {
        "kind": "WorkloadCluster",
        "metadata": {"name": name, "namespace": namespace},
        "status": {"parameters": used},
    }


def cluster(owner: Object, ranges: Ranges) -> Object:
    return {
        "metadata": {"name": owner["metadata"]["name"], "labels": names.claim_labels(owner)},
        "spec": {
            "clusterNetwork": {
                "pods": {"cidrBlocks": [ranges.pods]},
                "services": {"cidrBlocks": [ranges.services]},
            }
        },
    }


def seen(*clusters: Object) -> Observed:
    return Observed(required={"clusters-of-WorkloadCluster": clusters})


def test_without_pools_clusters_share_the_ranges_of_the_platform_and_nothing_is_looked_up() -> None:
    platform = Platform()
    assert networks.of(claim("a"), NONE, NOTHING, platform) == Ranges("10.243.0.0/16", "10.95.0.0/16")
    assert networks.requirements(claim("a"), NOTHING, platform, KINDS) == {}


def test_clusters_get_ranges_apart_until_none_are_left() -> None:
    made: list[Object] = []
    given_out: list[str] = []
    for number in range(4):
        owner = claim(f"c{number}")
        assert set(networks.requirements(owner, NOTHING, SMALL, KINDS)) == {"clusters-of-WorkloadCluster"}
        ranges = networks.of(owner, NONE, seen(*made), SMALL)
        assert ranges == networks.of(owner, NONE, seen(*reversed(made)), SMALL), "whatever the order"
        made.append(cluster(owner, ranges))
        given_out += [ranges.pods, ranges.services]
    assert not any(overlap(one, other) for one, other in itertools.combinations(given_out, 2))
    with pytest.raises(Refused, match=r"no range of /16 is free for pods in 10\.128\.0\.0/14; add a pool"):
        networks.of(claim("late"), NONE, seen(*made), SMALL)


def test_what_is_reserved_or_asked_for_is_left_alone() -> None:
    platform = settings.parse("networks: {pods: {pools: [10.128.0.0/15], prefix: 16}, reserved: [10.128.7.0/24]}")
    assert networks.of(claim("a"), NONE, NOTHING, platform).pods == "10.129.0.0/16"
    assert networks.of(claim("a"), Ranges("192.168.0.0/20", ""), NOTHING, platform).pods == "192.168.0.0/20"
    within = settings.parse("networks: {pods: {pools: [10.128.0.0/15], prefix: 16}}")
    asked = Ranges("", "10.128.0.0/20")
    assert networks.of(claim("a"), asked, NOTHING, within) == Ranges("10.129.0.0/16", "10.128.0.0/20")


def test_a_cluster_keeps_what_its_claim_reports_and_what_the_cluster_has() -> None:
    has = Ranges("10.243.0.0/16", "10.95.0.0/16")
    reported = claim("a", podCidr=has.pods, serviceCidr=has.services)
    other = cluster(claim("b"), has)
    assert networks.of(reported, NONE, seen(other), SMALL) == has, "also where it shares them with others"
    assert networks.requirements(reported, NOTHING, SMALL, KINDS) == {}
    running = Observed(resources={"cluster": cluster(claim("a"), has)})
    assert networks.of(claim("a"), NONE, running, SMALL) == has
    assert networks.requirements(claim("a"), running, SMALL, KINDS) == {}


def test_its_own_cluster_is_not_in_its_way() -> None:
    first = networks.of(claim("a"), NONE, NOTHING, SMALL)
    assert networks.of(claim("a"), NONE, seen(cluster(claim("a"), first)), SMALL) == first


@given(st.lists(st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True), unique=True, max_size=12))
def test_no_two_clusters_overlap_whatever_they_are_called(called: list[str]) -> None:
    platform = settings.parse(
        "networks: {pods: {pools: ['fd00::/44'], prefix: 48}, services: {pools: [172.16.0.0/12]}}"
    )
    made: list[Object] = []
    ranges: list[str] = []
    for name in called:
        found = networks.of(claim(name), NONE, seen(*made), platform)
        made.append(cluster(claim(name), found))
        ranges += [found.pods, found.services]
    assert not any(overlap(one, other) for one, other in itertools.combinations(ranges, 2))
