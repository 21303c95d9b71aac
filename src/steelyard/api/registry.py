"""All kinds of Steelyard's own, for a platform with the given domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from steelyard.api import crd, simulated, workloadcluster
from steelyard.api.model import Kind
from steelyard.api.workloadcluster import OFFERED_INFRASTRUCTURES, Infrastructure
from steelyard.kube.objects import Object


def kinds(domain: str, infrastructures: Sequence[Infrastructure] = OFFERED_INFRASTRUCTURES) -> tuple[Kind, ...]:
    return (workloadcluster.kind(domain, infrastructures), *simulated.KINDS)


@lru_cache(maxsize=8)
def definitions(
    domain: str, infrastructures: tuple[Infrastructure, ...] = OFFERED_INFRASTRUCTURES
) -> tuple[Object, ...]:
    """Their CRDs, for a platform that offers these infrastructures. Shared: copy before a change."""
    return tuple(crd.definition(kind) for kind in kinds(domain, infrastructures))
