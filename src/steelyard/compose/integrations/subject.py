"""What an integration is told of a cluster, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from steelyard.compose import names
from steelyard.compose.composed import Condition, Desired, Observed, Requirement
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.shape import Shape
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform


@frozen
class Subject:
    """A cluster, as far as it has come."""

    shape: Shape
    claim: Object
    infrastructure: Infrastructure
    platform: Platform
    observed: Observed
    machines: Sequence[Object]
    endpoint: str
    """URL of its API; empty until it is known."""
    kubeconfig: Object | None
    """The Secret with it; None until there is one that can be passed on."""
    vault_path: str | None = None
    """Where in Vault its kubeconfig goes, where the claim says so."""
    is_told_at_first: bool = False
    """Whether its machines are given what its DNS must know when they first start."""
    has_door: bool = True
    """Whether objects can be brought into it: where Cluster API has a Cluster for it."""

    @property
    def name(self) -> str:
        """By which programs that know many clusters tell this one from all others."""
        return names.external(objects.namespace(self.claim), objects.name(self.claim))


@frozen
class Integrated:
    parts: Mapping[str, Desired] = field(default_factory=dict[str, Desired])
    requirements: Mapping[str, Requirement] = field(default_factory=dict[str, Requirement])
    retained: frozenset[str] = frozenset()
    """Parts that cannot be composed yet."""
    waiting_for: str = ""
    conditions: Sequence[Condition] = ()
    status: Object = field(default_factory=dict[str, object])
    """Fields of the claim's status."""
    waits_untold: bool = False
    """As that of `Composed`."""

    def __or__(self, other: Integrated) -> Integrated:
        """Both. What the first waits for is told first."""
        return Integrated(
            {**self.parts, **other.parts},
            {**self.requirements, **other.requirements},
            self.retained | other.retained,
            self.waiting_for or other.waiting_for,
            (*self.conditions, *other.conditions),
            {**self.status, **other.status},
            self.waits_untold or other.waits_untold,
        )


NOTHING = Integrated()
