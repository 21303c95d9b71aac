"""All kinds of Steelyard's own, for a platform with the given domain."""

from __future__ import annotations

from functools import lru_cache

from steelyard.api import crd, simulated, workloadcluster
from steelyard.api.model import Kind
from steelyard.kube.objects import Object


def kinds(domain: str) -> tuple[Kind, ...]:
    return (workloadcluster.kind(domain), *simulated.KINDS)


@lru_cache(maxsize=8)
def definitions(domain: str) -> tuple[Object, ...]:
    """Their CRDs. Shared: copy before a change."""
    return tuple(crd.definition(kind) for kind in kinds(domain))
