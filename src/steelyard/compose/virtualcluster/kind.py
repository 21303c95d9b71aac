"""The description of the kind: what `claimkind.py` asks of every kind, said of VirtualCluster."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from steelyard.api import programs, virtualcluster
from steelyard.api.k3s import VIRTUAL_MACHINES
from steelyard.api.virtualcluster import INSTALLED_ONCE
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.cluster import making, watching
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.virtualcluster import composing, effects, servers
from steelyard.compose.virtualcluster.guide import GUIDE
from steelyard.kube.resources import Resource


def claim_kind(infrastructures: Sequence[Infrastructure]) -> ClaimKind:
    others = [each for each in infrastructures if each.name not in INSTALLED_ONCE]
    makes: tuple[Resource, ...] = making.resources(others)
    foreign = making.of_others(others)
    if len(others) < len(infrastructures):
        makes = tuple(dict.fromkeys((*makes, *servers.MAKES)))
        foreign[VIRTUAL_MACHINES] = programs.that_define(f"{VIRTUAL_MACHINES.kind}.{VIRTUAL_MACHINES.group}")
    return ClaimKind(
        noun="virtual-cluster",
        nouns="virtual-clusters",
        definition=functools.partial(virtualcluster.kind, offered=tuple(each.name for each in infrastructures)),
        parameters=virtualcluster.Parameters,
        compose=functools.partial(composing.compose, infrastructures={each.name: each for each in infrastructures}),
        guide=GUIDE,
        makes=makes,
        foreign=foreign,
        watches=watching.WATCHES,
        indexed=watching.INDEXED,
        left=watching.left,
        effects=effects.of,
    )
