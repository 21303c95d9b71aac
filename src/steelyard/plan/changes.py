"""What there is to do for one claim: the difference between what is composed and what is there, as a list.

Decided here, done by whoever asked: the claims controller carries the list out, a plan only shows it. Under server-side
apply an object may hold more than is composed, set by others; that alone is no difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from steelyard.compose import comparing
from steelyard.compose.composed import Composed, Desired, Observed
from steelyard.compose.effects import Effect, Effects, no_effects
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.plan import drift, inventory, marks
from steelyard.plan.inventory import Entry

Action: TypeAlias = Literal["create", "update", "keep", "await", "refuse", "hold", "delete", "retain"]
"""`await`: it is going away, and is made anew when it is gone. `refuse`: somebody else's object has its name. `hold`:
it was changed by hand, and putting it back would disrupt what runs. `retain`: it is no longer composed, and still
needed."""


@frozen
class Change:
    action: Action
    entry: Entry
    part: Desired | None = None
    """What is composed; None for what no longer is."""
    observed: Object | None = None
    effects: tuple[Effect, ...] = ()
    """Of what is held: what putting it back would do."""

    def __str__(self) -> str:
        return f"{self.action} {self.entry}"


def decide(
    composed: Composed,
    observed: Observed,
    recorded: Sequence[Entry],
    foreign: Mapping[str, Object],
    *,
    effects: Effects = no_effects,
    agreed: frozenset[str] = frozenset(),
) -> list[Change]:
    """In the order in which to do it: parts as they are composed, then what is to go.

    `effects` are those of the claim's kind; `agreed` are the corrections that a person has agreed to (`drift.py`).
    """
    changes = [
        _of_part(entry, part, observed.resources.get(name), is_foreign=name in foreign)
        for (name, part), entry in zip(composed.desired.items(), inventory.entries(composed), strict=True)
    ]
    surplus = set(inventory.surplus(composed, recorded))
    wanted = set(inventory.wanted(composed))
    left = (entry for entry in recorded if entry not in wanted)
    going = [Change("delete" if entry in surplus else "retain", entry) for entry in left]
    return [*_with_held(changes, effects, agreed), *going]


def is_applied(desired: Object, observed: Object) -> bool:
    return marks.is_of(desired, observed) and comparing.covers(observed, desired)


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


def _with_held(changes: Sequence[Change], effects: Effects, agreed: frozenset[str]) -> list[Change]:
    there = {
        change.entry.resource_name: (change.observed, change.part.object)
        for change in changes
        if change.action in ("update", "keep") and change.observed is not None and change.part is not None
    }
    changed = [change.entry.resource_name for change in changes if change.action == "update"]
    held = drift.to_hold(there, changed, effects, agreed)
    return [
        dataclasses.replace(change, action="hold", effects=held[change.entry.resource_name])
        if change.entry.resource_name in held
        else change
        for change in changes
    ]
