"""One claim from what it asks for to what there is: fetch, paused?, deletion, finalizer, rights, record, apply, prune,
report.

Safe to stop at any line: what is about to be made is recorded first, names are deterministic, and each step looks at
what is there. A claim that is as it should be causes no write at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Final

from steelyard.api import state
from steelyard.compose.composed import Composed, Condition
from steelyard.compose.workloadcluster import CONNECTION
from steelyard.controllers.claims import applying, conditions, inventory
from steelyard.controllers.claims import lookup as lookups
from steelyard.controllers.claims.deletion import Deletion
from steelyard.controllers.claims.inventory import Entry
from steelyard.controllers.claims.lookup import Compose, Found, Lookup
from steelyard.controllers.claims.rights import Rights
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions as condition_lists
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key

FINALIZER: Final = "steelyard.dev/claim"
_LOOK_AGAIN_WHILE_DELETING = 15.0
_LOOK_AGAIN_WHILE_FORBIDDEN = 60.0


class ClaimReconciler:
    """For one kind of claim; `function` is its composition with the platform's settings filled in."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        function: Compose,
        composed_resources: Sequence[Resource],
        *,
        lookup: Lookup,
        rights: Rights,
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._resource = resource
        self._function = function
        self._lookup = lookup
        self._rights = rights
        self._recorder = recorder
        self._clock = clock
        kinds = {(each.api_version, each.kind): each for each in composed_resources}
        self._deletion = Deletion(client, lookup, kinds)

    async def reconcile(self, key: Key) -> Result:
        claim = await self._lookup.find(self._resource, key.namespace, key.name)
        if claim is None:
            return Result()
        annotation = conditions.paused_by(claim)
        if annotation:
            await self._report(claim, [conditions.paused(annotation)], kept=True)
            return Result()
        if objects.is_being_deleted(claim):
            return await self._delete(claim)
        claim = await finalizers.ensure(self._client, self._resource, claim, FINALIZER)
        return await self._bring_about(claim)

    async def _bring_about(self, claim: Object) -> Result:
        found = await lookups.compose(self._lookup, self._function, claim)
        composed = found.composed
        if composed.refusal is not None:
            refusal = conditions.refused(composed.refusal)
            await self._report(claim, [refusal, *composed.conditions], kept=True)
            return Result()
        forbidden = await self._rights.problem(claim) if CONNECTION in composed.desired else ""
        composed = _within_rights(composed, forbidden)
        claim = await self._record(claim, composed)
        applied, failures = await self._apply(found, composed)
        if applied:
            # What was just applied makes older counts stale: Ready must not be read from them.
            anew = await lookups.compose(self._lookup, self._function, claim)
            composed = _within_rights(anew.composed, forbidden)
        entries = inventory.recorded(claim)
        if not applied and not failures:
            entries = await self._prune(claim, composed, entries)
        synced = conditions.forbidden(forbidden) if forbidden else conditions.APPLIED
        if failures:
            synced = conditions.failed(*failures[0])
        await self._report(claim, [synced, *composed.conditions], composed=composed, entries=entries)
        if failures:
            raise failures[0][1]
        # Nobody tells of a right that is given.
        return Result(requeue_after=_LOOK_AGAIN_WHILE_FORBIDDEN) if forbidden else Result()

    async def _record(self, claim: Object, composed: Composed) -> Object:
        """Everything that may be made from here on stands in the inventory, or this raises."""
        before = inventory.recorded(claim)
        entries = inventory.union(before, inventory.wanted(composed))
        if entries == before:
            return claim
        status: Object = {
            **composed.status,
            "conditions": conditions.written(claim, composed.conditions, now=self._clock.now()),
            # What is known of an older state of the claim stays until the new one has been applied.
            **objects.mapping(claim.get("status")),
            "inventory": [entry.to_json() for entry in entries],
        }
        return await patching.patch_status(self._client, self._resource, claim, status)

    async def _apply(self, found: Found, composed: Composed) -> tuple[bool, list[tuple[str, errors.ApiError]]]:
        """Whether anything was applied, and what failed. A failure does not keep the other parts from being applied."""
        applied = False
        failures: list[tuple[str, errors.ApiError]] = []
        for name, part in composed.desired.items():
            try:
                applied |= await applying.apply(
                    self._client, part, observed=found.observed.resources.get(name), foreign=found.foreign.get(name)
                )
            except errors.Conflict:
                raise
            except errors.ApiError as error:
                failures.append((f"{part.resource.kind} {objects.qualified_name(part.object)}", error))
        return applied, failures

    async def _prune(self, claim: Object, composed: Composed, entries: list[Entry]) -> list[Entry]:
        """Deletes what is no longer composed; returns what is left: only what is seen to be gone is forgotten."""
        gone = [
            entry for entry in inventory.surplus(composed, entries) if not await self._deletion.remove(claim, entry)
        ]
        return [entry for entry in entries if entry not in gone]

    async def _delete(self, claim: Object) -> Result:
        if not finalizers.has(claim, FINALIZER):
            return Result()
        entries = inventory.recorded(claim)
        found = await lookups.compose(self._lookup, self._function, claim)
        # A claim whose status was lost, as after a restore from Git, still finds what it would have made.
        entries = inventory.union(entries, inventory.wanted(found.composed))
        try:
            waiting_for = await self._deletion.advance(claim, entries)
        except errors.Conflict:
            raise
        except errors.ApiError as error:
            await self._report(
                claim, [conditions.failed("deleting", error), conditions.deleting(error.message)], kept=True
            )
            raise
        if waiting_for:
            await self._report(claim, [conditions.APPLIED, conditions.deleting(waiting_for)], kept=True)
            return Result(requeue_after=_LOOK_AGAIN_WHILE_DELETING)
        with contextlib.suppress(errors.NotFound):
            await finalizers.remove(self._client, self._resource, claim, FINALIZER)
        return Result()

    async def _report(
        self,
        claim: Object,
        wanted: Sequence[Condition],
        *,
        composed: Composed | None = None,
        entries: Sequence[Entry] = (),
        kept: bool = False,
    ) -> Object:
        """Writes the status where it differs. With `kept`, what is not said anew stays as it was."""
        status: Object = dict(objects.mapping(claim.get("status"))) if kept else {}
        if composed is not None:
            status |= composed.status
            status["inventory"] = [entry.to_json() for entry in entries]
        status["conditions"] = conditions.written(claim, wanted, now=self._clock.now(), others_stay=kept)
        status["message"] = conditions.summary(wanted)
        status["observedGeneration"] = objects.generation(claim)
        status["state"] = state.of({**claim, "status": status}).word
        self._tell(claim, wanted)
        return await patching.patch_status(self._client, self._resource, claim, status)

    def _tell(self, claim: Object, wanted: Sequence[Condition]) -> None:
        """An event for each failure or loss that is new, and for a cluster that has become ready."""
        for condition in wanted:
            before = condition_lists.find(claim, condition.type) or {}
            is_new = (before.get("status"), before.get("message")) != (condition.status, condition.message)
            if condition.type == conditions.SYNCED and condition.status == "False" and is_new:
                self._recorder.warning(claim, condition.reason, condition.message)
            if condition.type == conditions.READY and conditions.is_loss(before, condition):
                self._recorder.warning(claim, condition.reason, condition.message)
            if condition.type == conditions.READY and condition.status == "True" and before.get("status") != "True":
                self._recorder.normal(claim, "Ready", f"the cluster is ready: {condition.message}")


def _within_rights(composed: Composed, forbidden: str) -> Composed:
    """Without the connection Secret where it may not be written; one that is there already stays as it is."""
    if not forbidden:
        return composed
    desired = {name: part for name, part in composed.desired.items() if name != CONNECTION}
    return dataclasses.replace(composed, desired=desired, retained=composed.retained | {CONNECTION})
