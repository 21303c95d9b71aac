"""Everything that a platform offers: kinds of claims, and what machines are made of.

Whoever starts a platform may hand over another offering, with kinds and infrastructures of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Final

from steelyard.api import crd
from steelyard.api.model import Kind
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.infrastructures.kubevirt import KUBEVIRT
from steelyard.compose.infrastructures.kvm import KVM
from steelyard.compose.infrastructures.simulated import SIMULATED
from steelyard.compose.kubernetescluster import kind as kubernetescluster
from steelyard.compose.postgresqlaccess.kind import POSTGRESQL_ACCESS
from steelyard.compose.postgresqlinstance.kind import POSTGRESQL_INSTANCE
from steelyard.compose.redisinstance.kind import REDIS_INSTANCE
from steelyard.compose.virtualcluster import kind as virtualcluster
from steelyard.compose.workloadcluster import kind as workloadcluster
from steelyard.frozen import frozen
from steelyard.kube.objects import Object


@frozen
class Offering:
    kinds: tuple[ClaimKind, ...]
    infrastructures: tuple[Infrastructure, ...]
    _defined: dict[str, tuple[Object, ...]] = field(
        default_factory=dict[str, tuple[Object, ...]], init=False, compare=False
    )

    @property
    def infrastructure_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.infrastructures)

    def definitions(self, domain: str) -> tuple[Object, ...]:
        """The CRDs of all its kinds. Shared: copy before a change."""
        if domain not in self._defined:
            claims: Iterable[Kind] = (each.definition(domain) for each in self.kinds)
            own: Iterable[Kind] = (kind for each in self.infrastructures for kind in each.kinds)
            self._defined[domain] = tuple(crd.definition(kind) for kind in (*claims, *own))
        return self._defined[domain]

    def kind_of(self, claim: Object) -> ClaimKind | None:
        """The description of an object's kind, in whatever domain; None for what is no claim here."""
        group, _, _ = str(claim.get("apiVersion") or "").partition("/")
        for each in self.kinds:
            resource = each.resource("")
            if claim.get("kind") == resource.kind and group.startswith(resource.group):
                return each
        return None


def offering(infrastructures: tuple[Infrastructure, ...], *more: ClaimKind) -> Offering:
    """The kinds of this version on these infrastructures, and further kinds."""
    own = (
        workloadcluster.claim_kind(infrastructures),
        kubernetescluster.claim_kind(infrastructures),
        virtualcluster.claim_kind(infrastructures),
        POSTGRESQL_INSTANCE,
        POSTGRESQL_ACCESS,
        REDIS_INSTANCE,
    )
    return Offering((*own, *more), infrastructures)


STANDARD: Final = offering((SIMULATED, KUBEVIRT, KVM))
"""What a platform of this version makes claims come true with."""
