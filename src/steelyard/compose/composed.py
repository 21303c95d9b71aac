"""What composing takes and gives: the vocabulary that every composition and its callers share.

Composing is a pure function of the claim, of what was observed, and of the platform's settings. What it must know
beyond its own objects it asks for as a `Requirement`; the caller looks that up and composes again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

Ownership: TypeAlias = Literal["no", "owned", "guarded"]
"""`guarded`: the owner's deletion in the foreground waits for it."""
FIRST_STAGE: Final = 0
LAST_STAGE: Final = 9


@frozen
class Desired:
    """One object to apply, holding exactly the fields that the composition decides."""

    resource: Resource
    object: Object
    ready: bool = False
    in_use_while_rolling: bool = False
    """Machines are made from it: an older one may go only after every machine is up to date."""
    is_shared: bool = False
    """Somebody else makes the object and takes it away; only the fields given here are the claim's."""
    owned: Ownership = "no"
    """Whether the claim is to be its owner, where an owner can be named."""
    deletion_stage: int = LAST_STAGE
    """When the claim is deleted, parts go stage by stage, the lowest first."""


@frozen
class Requirement:
    """Something to look up: the object of that name, or, without a name, all in the namespace with the label."""

    resource: Resource
    namespace: str
    name: str = ""
    label: tuple[str, str] = ("", "")


@frozen
class Observed:
    """What was found: composed objects under their resource names, what was required under the names given to it."""

    resources: Mapping[str, Object] = field(default_factory=dict[str, Object])
    required: Mapping[str, Sequence[Object]] = field(default_factory=dict[str, Sequence[Object]])
    now: str = ""
    """The time, as RFC 3339 has it. Empty where nobody knows it, as for a file: nothing is due then."""

    def one(self, requirement: str) -> Object | None:
        found = self.required.get(requirement)
        return found[0] if found else None


NOTHING = Observed()


@frozen
class Condition:
    """A condition without its times, which composing does not know."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""


@frozen
class Refusal:
    """Why the claim cannot be composed. Nothing is applied then, and nothing that exists is taken away."""

    reason: str
    message: str


@frozen
class Reading:
    """Somebody else's data that some parts would bring along: the claim's author must be allowed to read Secrets in
    that namespace, or the parts are not made."""

    namespace: str
    parts: frozenset[str]


@frozen
class Composed:
    desired: Mapping[str, Desired] = field(default_factory=dict[str, Desired])
    """By resource name, in the order in which to apply them. A resource name never changes; object names may."""
    requirements: Mapping[str, Requirement] = field(default_factory=dict[str, Requirement])
    conditions: Sequence[Condition] = ()
    status: Object = field(default_factory=dict[str, object])
    """Fields of the claim's status, without conditions and inventory."""
    rolling: bool = False
    """Machines are being replaced or scaled: what is `in_use_while_rolling` stays."""
    retained: frozenset[str] = frozenset()
    """Resource names that are wanted but cannot be composed at the moment: what exists under them stays as it is."""
    waits_untold: bool = False
    """Something is waited for that is nobody's part and that nothing tells of: it must be looked for again."""
    look_again: float = 0.0
    """In how many seconds something is due, though nothing has changed; 0 for never."""
    reading: Reading | None = None
    refusal: Refusal | None = None
    takes_turns: bool = False
    """It takes something that other claims must not have, too, and knows it taken only by what is there: one claim at a
    time is composed and applied."""
