"""A kind of claim, described once: what it is called, what it is made into, and what it is looked at for.

The claims controller, the command line, plans and the reference pages go through these descriptions; none of them knows
a kind by name. `offering.py` has those of this version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from steelyard.api import claims
from steelyard.api.model import ApiModel, Kind
from steelyard.compose.composed import Composed, Observed
from steelyard.compose.effects import Effects, no_effects
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform

Compose: TypeAlias = Callable[[Object, Observed, Platform], Composed]
ClaimKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


def always(_old: Object | None, _new: Object | None) -> bool:
    return True


def no_words(_: Mapping[str, Sequence[Object]]) -> str:
    return ""


def own_ttl(claim: Object, _: Platform) -> str:
    return str(objects.at(claim, "spec", "parameters", "ttl") or "")


def own_protection(claim: Object, _: Platform) -> str:
    return claims.protected_by(claim)


def no_guards(_: Platform) -> Sequence[Object]:
    return ()


@frozen
class Watched:
    """Objects besides the claim's own that a claim is looked at again for."""

    resource: Resource
    claims: Callable[[Object], Iterable[ClaimKey]]
    """Those that such an object concerns."""
    matters: Callable[[Object | None, Object | None], bool] = always
    """Whether a change from one to the other does."""


@frozen
class Reported:
    """A condition that claims of the kind can have, for the reference page."""

    type: str
    status: str
    reason: str
    meaning: str


@frozen
class Guide:
    """What the reference page tells of a kind besides its fields."""

    example: Object = field(default_factory=dict[str, object])
    """The spec of a claim, to be copied."""
    conditions: tuple[Reported, ...] = ()
    """Besides those that all claims have."""
    notes: tuple[str, ...] = ()
    """Paragraphs about the fields."""
    deletion: str = "the connection Secret goes first, then everything else"
    """In which order what was made goes away."""


@frozen
class ClaimKind:
    noun: str
    """What people call what they get: `cluster`. Commands are made of it."""
    nouns: str
    definition: Callable[[str], Kind]
    """The kind in a domain."""
    parameters: type[ApiModel]
    """What a claim can ask for: flags of the command line, fields of forms."""
    compose: Compose
    makes: tuple[Resource, ...]
    """Everything that any revision of its composition can make: what is watched, and can be deleted."""
    foreign: Mapping[Resource, str] = field(default_factory=dict[Resource, str])
    """Those of them that other people's programs define, each with what there is to install where it is not served."""
    guide: Guide = field(default_factory=Guide)
    of_environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Parameters that come from the environment under another name, each with the name of the environment's field."""
    guards: Callable[[Platform], Sequence[Object]] = no_guards
    """Admission policies of the kind's own, besides those for all claims."""
    watches: tuple[Watched, ...] = ()
    requires: tuple[Resource, ...] = ()
    """Kinds that compositions look objects up of by name, besides those above."""
    indexed: tuple[tuple[Resource, str], ...] = ()
    """Kinds that compositions require by the value of a label, and that label."""
    left: Callable[[Mapping[str, Sequence[Object]]], str] = no_words
    """While it is being deleted: what of the required objects is still there, in words."""
    effects: Effects = no_effects
    """What becomes of the world when one set of objects takes the place of another: machines replaced, data lost."""

    ttl: Callable[[Object, Platform], str] = own_ttl
    """How long a claim lives, from its creation on, as in 168h; empty for ever."""
    protected_by: Callable[[Object, Platform], str] = own_protection
    """What keeps a claim from being deleted, in words; empty where nothing does."""

    @property
    def parameter_names(self) -> frozenset[str]:
        """As claims write them."""
        return frozenset(field.alias or name for name, field in self.parameters.model_fields.items())

    def resource(self, domain: str) -> Resource:
        return self.definition(domain).resource
