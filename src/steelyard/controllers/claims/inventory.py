"""The list of every object that was made for a claim, kept in `status.inventory`.

An object is recorded before it is applied and struck off after it is seen to be gone. So whatever line the process dies
at, the inventory names at least everything that exists, and what is named but no longer composed is taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from steelyard.compose import names
from steelyard.compose.composed import Composed
from steelyard.compose.workloadcluster import CONNECTION
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object


@frozen
class Entry:
    resource_name: str
    api_version: str
    kind: str
    namespace: str
    name: str

    def to_json(self) -> Object:
        return {
            "resourceName": self.resource_name,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
        }

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def recorded(claim: Object) -> list[Entry]:
    entries = cast("list[Object]", objects.sequence(objects.at(claim, "status", "inventory")))
    return [
        Entry(
            resource_name=str(entry.get("resourceName") or ""),
            api_version=str(entry.get("apiVersion") or ""),
            kind=str(entry.get("kind") or ""),
            namespace=str(entry.get("namespace") or ""),
            name=str(entry.get("name") or ""),
        )
        for entry in entries
    ]


def wanted(composed: Composed) -> list[Entry]:
    return [
        Entry(
            resource_name=resource_name,
            api_version=part.resource.api_version,
            kind=part.resource.kind,
            namespace=objects.namespace(part.object),
            name=objects.name(part.object),
        )
        for resource_name, part in composed.desired.items()
        if not part.is_shared
    ]


def union(one: Iterable[Entry], other: Iterable[Entry]) -> list[Entry]:
    """In order of first appearance, so that the same set is always written the same way."""
    return list(dict.fromkeys((*one, *other)))


def surplus(composed: Composed, entries: Sequence[Entry]) -> list[Entry]:
    """What is recorded, no longer composed, and may go now."""
    kept = set(wanted(composed))
    return [entry for entry in entries if entry not in kept and not _is_still_needed(composed, entry)]


def is_the_claims(obj: Object, claim: Object) -> bool:
    """Whether an object was made for this claim: nothing else is ever changed or deleted."""
    return objects.matches(names.claim_labels(claim), obj)


def is_entry_of(entry: Entry, obj: Object, claim: Object) -> bool:
    """Whether an object is what the inventory says. Who may write a status could put anything into an inventory, so it
    counts only for what the claim's composition makes: parts in its own namespace, and one Secret elsewhere.
    """
    is_at_home = entry.namespace == objects.namespace(claim)
    is_part = objects.annotations(obj).get(names.RESOURCE_NAME) == entry.resource_name
    return is_the_claims(obj, claim) and is_part and (is_at_home or entry.resource_name == CONNECTION)


def _is_still_needed(composed: Composed, entry: Entry) -> bool:
    if entry.resource_name in composed.retained:
        return True
    part = composed.desired.get(entry.resource_name)
    return composed.rolling and (part is None or part.in_use_while_rolling)
