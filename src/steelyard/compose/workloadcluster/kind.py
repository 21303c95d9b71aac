"""The description of the kind: what `claimkind.py` asks of every kind, said of WorkloadCluster."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from steelyard.api import workloadcluster
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.cluster import making, watching
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.workloadcluster import composing
from steelyard.compose.workloadcluster.guide import GUIDE


def claim_kind(infrastructures: Sequence[Infrastructure]) -> ClaimKind:
    return ClaimKind(
        noun="cluster",
        nouns="clusters",
        definition=functools.partial(workloadcluster.kind, offered=tuple(each.name for each in infrastructures)),
        parameters=workloadcluster.Parameters,
        compose=functools.partial(composing.compose, infrastructures={each.name: each for each in infrastructures}),
        guide=GUIDE,
        makes=making.resources(infrastructures),
        foreign=making.of_others(infrastructures),
        watches=watching.WATCHES,
        indexed=watching.INDEXED,
        left=watching.left,
        effects=watching.effects_of,
    )
