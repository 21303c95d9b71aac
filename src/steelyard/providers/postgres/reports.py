"""What the kinds of ours have in common: Crossplane's conventions of managed resources, and one status patch at the
end.

    Ready    whether what the object stands for is there: Available, Creating, Deleting, Unavailable
    Synced   whether the last look at it went through: ReconcileSuccess, ReconcileError

Nothing is written where nothing differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import patching, verdicts
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.verdicts import Verdict
from steelyard.providers.postgres.problems import Problem

FINALIZER: Final = "finalizer.managedresource.crossplane.io"
PAUSED: Final = "crossplane.io/paused"

AVAILABLE: Final = verdicts.true("Ready", "Available")
DELETING: Final = verdicts.false("Ready", "Deleting")
SYNCED: Final = verdicts.true("Synced", "ReconcileSuccess")


def creating(message: str) -> Verdict:
    return verdicts.false("Ready", "Creating", message)


def unavailable(message: str, reason: str = "Unavailable") -> Verdict:
    return verdicts.false("Ready", reason, message)


def not_synced(message: str) -> Verdict:
    return verdicts.false("Synced", "ReconcileError", message)


def is_paused(obj: Object) -> bool:
    return objects.annotations(obj).get(PAUSED) == "true"


async def fetch(client: CachedClient, resource: Resource, key: Key) -> Object | None:
    try:
        return await client.get(resource, key.name)
    except errors.NotFound:
        return None


async def report(
    client: CachedClient,
    resource: Resource,
    obj: Object,
    clock: Clock,
    said: Sequence[Verdict],
    more: Object | None = None,
) -> Object:
    """`more` are fields of the status; those of None are taken out."""
    wanted: Object = {**obj, "status": {**objects.mapping(obj.get("status")), **(more or {})}}
    verdicts.record(wanted, said, clock.now())
    status = {key: value for key, value in wanted["status"].items() if value is not None}
    return await patching.patch_status(client, resource, obj, status)


async def failed(
    client: CachedClient, resource: Resource, key: Key, clock: Clock, problem: Problem, *also: Verdict
) -> None:
    """Says on the object what went wrong; as it is now, whatever was written to it before that."""
    obj = await fetch(client, resource, key)
    if obj is not None:
        await report(client, resource, obj, clock, (*also, not_synced(str(problem))))
