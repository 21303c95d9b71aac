"""The list of every object that was made for a claim, kept in `status.inventory`.

An object is recorded before it is applied and struck off after it is seen to be gone. So whatever line the process dies
at, the inventory names at least everything that exists, and what is named but no longer composed is taken away. It also
says in which order: what is no longer composed still has a turn when the claim is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final, cast

from steelyard.compose import delivery, names
from steelyard.compose.composed import FIRST_STAGE, LAST_STAGE, Composed
from steelyard.compose.connection import CONNECTION
from steelyard.compose.integrations import ELSEWHERE
from steelyard.compose.managed import VAULT
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

_BEFORE_STAGES: Final = {CONNECTION: FIRST_STAGE, "cluster": FIRST_STAGE + 1}
"""For inventories that were written before stages were recorded: the order that all claims had then."""
_ELSEWHERE: Final = ELSEWHERE | {VAULT, delivery.SOURCE}


@frozen
class Entry:
    resource_name: str
    api_version: str
    kind: str
    namespace: str
    name: str
    deletion_stage: int = field(default=LAST_STAGE, compare=False)

    def to_json(self) -> Object:
        return {
            "resourceName": self.resource_name,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "deletionStage": self.deletion_stage,
        }

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def recorded(claim: Object) -> list[Entry]:
    found = cast("list[Object]", objects.sequence(objects.at(claim, "status", "inventory")))
    return [
        Entry(
            resource_name=str(entry.get("resourceName") or ""),
            api_version=str(entry.get("apiVersion") or ""),
            kind=str(entry.get("kind") or ""),
            namespace=str(entry.get("namespace") or ""),
            name=str(entry.get("name") or ""),
            deletion_stage=_stage(entry),
        )
        for entry in found
    ]


def _stage(entry: Object) -> int:
    stage = entry.get("deletionStage")
    return _BEFORE_STAGES.get(str(entry.get("resourceName")), LAST_STAGE) if stage is None else int(stage)


def entries(composed: Composed) -> list[Entry]:
    """One for each part, in the order in which they are applied."""
    return [
        Entry(
            resource_name=resource_name,
            api_version=part.resource.api_version,
            kind=part.resource.kind,
            namespace=objects.namespace(part.object),
            name=objects.name(part.object),
            deletion_stage=part.deletion_stage,
        )
        for resource_name, part in composed.desired.items()
    ]


def wanted(composed: Composed) -> list[Entry]:
    """Those that are the claim's own: what is only shared is not recorded, and never deleted."""
    return [entry for entry in entries(composed) if not composed.desired[entry.resource_name].is_shared]


def union(recorded: Iterable[Entry], wanted: Iterable[Entry]) -> list[Entry]:
    """In order of first appearance, so that the same set is always written the same way. What the composition says of
    an entry now counts over what was recorded."""
    return list({entry: entry for entry in (*recorded, *wanted)}.values())


def written(entries: Iterable[Entry]) -> list[Object]:
    """As they go into the status."""
    return [entry.to_json() for entry in entries]


def stages(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Those that go together, the first to go first."""
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.deletion_stage, []).append(entry)
    return [found[stage] for stage in sorted(found)]


def surplus(composed: Composed, entries: Sequence[Entry]) -> list[Entry]:
    """What is recorded, no longer composed, and may go now."""
    kept = set(wanted(composed))
    return [entry for entry in entries if entry not in kept and not _is_still_needed(composed, entry)]


def is_the_claims(obj: Object, claim: Object) -> bool:
    """Whether an object was made for this claim: nothing else is ever changed or deleted."""
    return objects.matches(names.claim_labels(claim), obj)


def is_entry_of(entry: Entry, obj: Object, claim: Object) -> bool:
    """Whether an object is what the inventory says. Who may write a status could put anything into an inventory, so it
    counts only for what the claim's composition makes: parts in its own namespace, in one that was made for it, or in
    none, where who only has rights in namespaces writes nothing, and what has a place with other programs.
    """
    made = names.external(objects.namespace(claim), objects.name(claim))
    is_at_home = entry.namespace in ("", objects.namespace(claim), made)
    is_part = objects.annotations(obj).get(names.RESOURCE_NAME) == entry.resource_name
    return is_the_claims(obj, claim) and is_part and (is_at_home or entry.resource_name in _ELSEWHERE)


def _is_still_needed(composed: Composed, entry: Entry) -> bool:
    if entry.resource_name in composed.retained:
        return True
    part = composed.desired.get(entry.resource_name)
    return composed.rolling and (part is None or part.in_use_while_rolling)
