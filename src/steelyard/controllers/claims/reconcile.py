"""One claim from what it asks for to what there is: fetch, paused?, deletion, finalizer, compose, rights, decide,
record, do, report.

Safe to stop at any line: what is about to be made is recorded first, names are deterministic, and each step looks at
what is there. A claim that is as it should be causes no write at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Final

from steelyard.api import state
from steelyard.compose import identity
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import Composed, Condition, Observed
from steelyard.compose.connection import CONNECTION
from steelyard.controllers.claims import applying, conditions, expiry
from steelyard.controllers.claims import lookup as lookups
from steelyard.controllers.claims.deletion import Deletion
from steelyard.controllers.claims.expiry import Expiry
from steelyard.controllers.claims.lookup import Found, Lookup
from steelyard.controllers.claims.rights import Rights
from steelyard.controllers.claims.telling import Teller
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.plan import changes, drift, inventory
from steelyard.plan.changes import Change
from steelyard.plan.inventory import Entry
from steelyard.settings import Platform

FINALIZER: Final = "steelyard.dev/claim"
_LOOK_AGAIN_WHILE_DELETING = 15.0
_LOOK_AGAIN_UNTOLD = 60.0


class ClaimReconciler:
    """For one kind of claim."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        kind: ClaimKind,
        platform: Platform,
        *,
        lookup: Lookup,
        rights: Rights,
        recorder: Recorder,
        clock: Clock,
        turns: asyncio.Lock | None = None,
    ) -> None:
        """`turns` is shared by reconcilers whose claims take of the same: what `Composed.takes_turns` is about."""
        self._client = client
        self._resource = resource
        self._kind = kind
        self._platform = platform
        self._lookup = lookup
        self._rights = rights
        self._teller = Teller(recorder, kind.noun)
        self._clock = clock
        self._turns = turns or asyncio.Lock()
        kinds = {(each.api_version, each.kind): each for each in kind.makes}
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

    def _compose(self, claim: Object, observed: Observed) -> Composed:
        dated = dataclasses.replace(observed, now=clocks.rfc3339(self._clock.now()))
        return identity.of_claim(claim, self._kind.compose(claim, dated, self._platform))

    async def _bring_about(self, claim: Object) -> Result:
        found = await lookups.compose(self._lookup, self._compose, claim)
        if not found.composed.takes_turns:
            return await self._carry_out(claim, found)
        async with self._turns:
            # Whoever had the turn before may have taken what was just seen to be free.
            return await self._carry_out(claim, await lookups.compose(self._lookup, self._compose, claim))

    async def _carry_out(self, claim: Object, found: Found) -> Result:
        composed = found.composed
        if composed.refusal is not None:
            refusal = conditions.refused(composed.refusal)
            await self._report(claim, [refusal, *composed.conditions], kept=True)
            return Result()
        forbidden = await self._rights.problem(claim) if CONNECTION in composed.desired else ""
        unreadable = await self._rights.reading_problem(claim, composed.reading) if composed.reading else ""
        composed = _within_rights(composed, forbidden, unreadable)
        decided = changes.decide(
            composed,
            found.observed,
            inventory.recorded(claim),
            found.foreign,
            effects=self._kind.effects,
            agreed=drift.agreed(claim),
        )
        held = [change for change in decided if change.action == "hold"]
        claim = await self._record(claim, composed)
        applied, failures = await self._apply(decided)
        if applied:
            # What was just applied makes older counts stale: Ready must not be read from them.
            anew = await lookups.compose(self._lookup, self._compose, claim)
            composed = _within_rights(anew.composed, forbidden, unreadable)
        entries = inventory.recorded(claim)
        if not applied and not failures:
            entries = await self._prune(claim, decided, entries)
        synced = conditions.forbidden(forbidden) if forbidden else conditions.APPLIED
        if unreadable:
            synced = conditions.not_to_be_copied(unreadable)
        if held:
            synced = conditions.drifted(claim, self._resource, held)
        if failures:
            synced = self._failed(*failures[0])
        ending = expiry.of(
            claim,
            self._clock.now(),
            ttl=self._kind.ttl(claim, self._platform),
            protection=self._kind.protected_by(claim, self._platform),
        )
        if ending is not None:
            composed = _ending(composed, ending)
        claim = await self._report(claim, [synced, *composed.conditions], composed=composed, entries=entries)
        if failures:
            raise failures[0][1]
        if ending is not None and ending.is_due:
            return await self._expire(claim, ending)
        # Nobody tells of a right that is given, nor of an hour that has come.
        again = [_LOOK_AGAIN_UNTOLD] if forbidden or unreadable or composed.waits_untold else []
        again += [ending.look_again] if ending is not None and ending.look_again else []
        again += [composed.look_again] if composed.look_again else []
        return Result(requeue_after=min(again)) if again else Result()

    async def _expire(self, claim: Object, ending: Expiry) -> Result:
        """The claim as it was judged, or not at all: one that has been changed since is looked at again."""
        try:
            await self._client.delete(
                self._resource,
                objects.name(claim),
                objects.namespace(claim),
                uid=objects.uid(claim),
                resource_version=objects.resource_version(claim),
            )
        except errors.NotFound:
            return Result()
        self._teller.expired(claim, ending.text)
        return Result()

    async def _record(self, claim: Object, composed: Composed) -> Object:
        """Everything that may be made from here on stands in the inventory, or this raises."""
        entries = inventory.union(inventory.recorded(claim), inventory.wanted(composed))
        if inventory.written(entries) == objects.sequence(objects.at(claim, "status", "inventory")):
            return claim
        status: Object = {
            **composed.status,
            "conditions": conditions.written(claim, composed.conditions, now=self._clock.now()),
            # What is known of an older state of the claim stays until the new one has been applied.
            **objects.mapping(claim.get("status")),
            "inventory": inventory.written(entries),
        }
        return await patching.patch_status(self._client, self._resource, claim, status)

    async def _apply(self, decided: Sequence[Change]) -> tuple[bool, list[tuple[Change, errors.ApiError]]]:
        """Whether anything was applied, and what failed. A failure does not keep the other parts from being applied."""
        done: list[Change] = []
        failures: list[tuple[Change, errors.ApiError]] = []
        for change in decided:
            try:
                if await applying.carry_out(self._client, change):
                    done.append(change)
            except errors.Conflict:
                raise
            except errors.ApiError as error:
                failures.append((change, error))
        self._teller.applied(done)
        return bool(done), failures

    def _failed(self, change: Change, error: errors.ApiError) -> Condition:
        to_install = self._kind.foreign.get(change.part.resource, "") if change.part is not None else ""
        return conditions.failed(str(change.entry), error, to_install=to_install)

    async def _prune(self, claim: Object, decided: Sequence[Change], entries: list[Entry]) -> list[Entry]:
        """Deletes what is no longer composed, stage by stage as with the claim; returns what is left: only what is seen
        to be gone is forgotten."""
        gone: list[Entry] = []
        for stage in inventory.stages(change.entry for change in decided if change.action == "delete"):
            removed = [entry for entry in stage if not await self._deletion.remove(claim, entry)]
            gone += removed
            if len(removed) < len(stage):
                break
        return [entry for entry in entries if entry not in gone]

    async def _delete(self, claim: Object) -> Result:
        if not finalizers.has(claim, FINALIZER):
            return Result()
        entries = inventory.recorded(claim)
        found = await lookups.compose(self._lookup, self._compose, claim)
        # A claim whose status was lost, as after a restore from Git, still finds what it would have made.
        entries = inventory.union(entries, inventory.wanted(found.composed))
        try:
            left = self._kind.left(found.observed.required)
            waiting_for = await self._deletion.advance(claim, entries, left=left)
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
            status["inventory"] = inventory.written(entries)
        status["conditions"] = conditions.written(claim, wanted, now=self._clock.now(), others_stay=kept)
        status["message"] = conditions.summary(wanted)
        status["observedGeneration"] = objects.generation(claim)
        status["state"] = state.of({**claim, "status": status}).word
        self._teller.reported(claim, wanted, before=claim.get("status"), after=status)
        return await patching.patch_status(self._client, self._resource, claim, status)


def _ending(composed: Composed, ending: Expiry) -> Composed:
    told = [ending.condition] if ending.condition is not None else []
    return dataclasses.replace(
        composed,
        conditions=[*composed.conditions, *told],
        status={**composed.status, "expiresAt": ending.text},
    )


def _within_rights(composed: Composed, forbidden: str, unreadable: str) -> Composed:
    """Without the connection Secret where it may not be written, and without copies of what may not be read; what is
    there already stays as it is."""
    withheld = frozenset({CONNECTION} if forbidden else ())
    if unreadable and composed.reading is not None:
        withheld |= composed.reading.parts
    if not withheld:
        return composed
    desired = {name: part for name, part in composed.desired.items() if name not in withheld}
    return dataclasses.replace(composed, desired=desired, retained=composed.retained | withheld)
