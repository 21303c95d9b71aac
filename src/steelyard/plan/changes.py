"""What there is to do for one claim: the difference between what is composed and what is there, as a list.

Decided here, done by whoever asked: the claims controller carries the list out, a plan only shows it. Under server-side
apply an object may hold more than is composed, set by others; that alone is no difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import orjson

from steelyard.compose import comparing
from steelyard.compose.composed import Composed, Desired, Observed
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import inventory
from steelyard.plan.inventory import Entry

Action: TypeAlias = Literal["create", "update", "keep", "await", "refuse", "delete", "retain"]
"""`await`: it is going away, and is made anew when it is gone. `refuse`: somebody else's object has its name. `retain`:
it is no longer composed, and still needed."""

DIGEST: Final = "steelyard.dev/applied"
"""Annotation: digest of what was applied. A field that is no longer composed leaves no other trace to compare with."""


@frozen
class Change:
    action: Action
    entry: Entry
    part: Desired | None = None
    """What is composed; None for what no longer is."""
    observed: Object | None = None

    def __str__(self) -> str:
        return f"{self.action} {self.entry}"


def decide(
    composed: Composed, observed: Observed, recorded: Sequence[Entry], foreign: Mapping[str, Object]
) -> list[Change]:
    """In the order in which to do it: parts as they are composed, then what is to go."""
    changes = [
        _of_part(entry, part, observed.resources.get(name), is_foreign=name in foreign)
        for (name, part), entry in zip(composed.desired.items(), inventory.entries(composed), strict=True)
    ]
    surplus = set(inventory.surplus(composed, recorded))
    wanted = set(inventory.wanted(composed))
    left = (entry for entry in recorded if entry not in wanted)
    return [*changes, *(Change("delete" if entry in surplus else "retain", entry) for entry in left)]


def is_applied(desired: Object, observed: Object) -> bool:
    return objects.annotations(observed).get(DIGEST) == digest(desired) and comparing.covers(observed, desired)


def digest(desired: Object) -> str:
    return hashlib.sha256(orjson.dumps(desired, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _of_part(entry: Entry, part: Desired, observed: Object | None, *, is_foreign: bool) -> Change:
    action: Action = "update"
    if is_foreign:
        action = "refuse"
    elif observed is None:
        action = "create"
    elif objects.is_being_deleted(observed):
        action = "await"
    elif is_applied(part.object, observed):
        action = "keep"
    return Change(action, entry, part, observed)
