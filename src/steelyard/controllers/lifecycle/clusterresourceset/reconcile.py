"""Brings what a set names into every cluster that it selects, and writes down in the cluster's binding what is there.

Applying is safe to repeat, so it is recorded afterwards: a crash in between applies once more. Clusters are served side
by side, each for a limited time, so that one that hangs does not hold up the others. Nothing is taken out of a cluster
when a set goes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS, CLUSTER_RESOURCE_SETS
from steelyard.controllers.lifecycle import pausing
from steelyard.controllers.lifecycle.clusterresourceset import binding as bindings
from steelyard.controllers.lifecycle.clusterresourceset import manifests, status
from steelyard.controllers.lifecycle.clusterresourceset.applying import Applying
from steelyard.controllers.lifecycle.clusterresourceset.selection import Selection
from steelyard.controllers.lifecycle.clusterresourceset.status import Problem
from steelyard.controllers.lifecycle.contract import Reference
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import drafts, logs, patching, verdicts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.keys import Key

_SOURCES: Final = {each.kind: each for each in (SECRETS, CONFIG_MAPS)}
_AT_ONCE: Final = 8
"""Clusters."""
_SECONDS_EACH: Final = 120.0
_LOOK_AGAIN: Final = 30.0
_FIRST_RETRY: Final = 2.0
_LAST_RETRY: Final = 60.0
_RECORD_TRIES: Final = 5

_log = logs.get(__name__)


@frozen
class Source:
    """A Secret or ConfigMap that the set names."""

    reference: Reference
    texts: Sequence[bytes]
    digest: str

    def __str__(self) -> str:
        return f"{self.reference.kind} {self.reference.name}"


class ClusterResourceSetReconciler:
    def __init__(self, client: Client, selection: Selection, workloads: Workloads, clock: Clock) -> None:
        self._client = client
        self._selection = selection
        self._workloads = workloads
        self._clock = clock
        self._failures: dict[Key, int] = {}

    async def reconcile(self, key: Key) -> Result:
        found = self._selection.sets.get(*key)
        if found is None:
            self._failures.pop(key, None)
            return Result()
        draft = Draft(self._client, CLUSTER_RESOURCE_SETS, found)
        if await pausing.hold(draft, None, self._clock):
            return Result()
        if objects.is_being_deleted(found):
            await self._let_go(draft)
            return Result()
        draft.add_finalizer(wellknown.RESOURCE_SET_FINALIZER)
        await draft.save_object()
        clusters = self._selection.clusters_of(found)
        problems = await self._bring_about(draft.object, clusters) if clusters else []
        said = [status.verdict(problems)] if clusters else []
        verdicts.record(draft.object, [*said, pausing.NOT_PAUSED], self._clock.now())
        await draft.save_status()
        return Result(self._look_again(key, problems))

    async def _bring_about(self, set_: Object, clusters: Sequence[Object]) -> list[Problem]:
        sources, problems = await self._sources(set_)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def serve(cluster: Object) -> list[Problem]:
            async with turns:
                try:
                    async with asyncio.timeout(_SECONDS_EACH):
                        return await self._serve(set_, cluster, sources)
                except TimeoutError:
                    return [status.waiting(cluster, f"not done after {_SECONDS_EACH:g} seconds", _LOOK_AGAIN)]
                except errors.ServiceUnavailable as error:
                    return [status.unreachable(cluster, error.message)]

        for found in await asyncio.gather(*map(serve, clusters)):
            problems += found
        return problems

    async def _sources(self, set_: Object) -> tuple[list[Source], list[Problem]]:
        """What the set names, owned by it from now on, and what of that cannot be used."""
        sources: list[Source] = []
        problems: list[Problem] = []
        for named in map(objects.mapping, objects.sequence(objects.at(set_, "spec", "resources"))):
            reference = Reference("", str(named.get("kind")), str(named.get("name")))
            called = f"{reference.kind} {reference.name}"
            resource = _SOURCES[reference.kind]
            try:
                found = await self._client.get(resource, reference.name, objects.namespace(set_))
            except errors.NotFound:
                problems.append(status.missing(called))
                continue
            type_ = str(found.get("type") or "Opaque")
            if resource == SECRETS and type_ != wellknown.RESOURCE_SET_SECRET_TYPE:
                problems.append(status.wrong_type(called, type_, wellknown.RESOURCE_SET_SECRET_TYPE))
                continue
            if not objects.is_being_deleted(found):
                await drafts.ensure_owner(self._client, resource, found, set_, controller=False, labels={})
            try:
                texts = manifests.texts(found)
            except manifests.Unusable as error:
                problems.append(Problem("NotApplied", f"{called} cannot be used: {error}"))
                continue
            sources.append(Source(reference, texts, manifests.digest(texts)))
        return sources, problems

    async def _serve(self, set_: Object, cluster: Object, sources: Sequence[Source]) -> list[Problem]:
        """Applies to one cluster what is due there. Raises ServiceUnavailable."""
        strategy = str(objects.at(set_, "spec", "strategy") or bindings.APPLY_ONCE)
        recorded = self._selection.bindings.get(*Key.of(cluster))
        due = [
            each
            for each in sources
            if bindings.is_due(bindings.find(recorded, objects.name(set_), each.reference), strategy, each.digest)
        ]
        if not due:
            return []
        if pausing.verdict(cluster, cluster).is_true:
            return [status.paused(cluster)]
        if not objects.at(cluster, "status", "initialization", "controlPlaneInitialized"):
            return [status.waiting(cluster, "waiting for its control plane to be initialized")]
        key = Key.of(cluster)
        connection = await self._workloads.connection(key)
        if connection is None or not connection.is_synced:
            why = self._workloads.problem(key) or "waiting for its API to be reached"
            return [status.waiting(cluster, why, _LOOK_AGAIN)]
        applying = Applying(connection.client, strategy)
        problems: list[Problem] = []
        for source in due:
            may_pass = True
            try:
                causes = await applying.apply(await manifests.read(source.texts, objects.namespace(set_)))
            except manifests.Unusable as error:
                causes, may_pass = [str(error)], False
            if causes:
                problems.append(status.failed(cluster, str(source), causes, may_pass=may_pass))
            else:
                _log.info("applied", source=str(source), cluster=objects.name(cluster))
            await self._record(set_, cluster, source, applied=not causes)
        return problems

    async def _record(self, set_: Object, cluster: Object, source: Source, *, applied: bool) -> None:
        """Other sets write into the same binding."""
        for attempt in range(1, _RECORD_TRIES + 1):
            current = self._selection.bindings.get(*Key.of(cluster))
            before = bindings.find(current, objects.name(set_), source.reference) or {}
            at = clocks.rfc3339(self._clock.now()) if applied else str(before.get("lastAppliedTime") or "")
            made = bindings.entry(source.reference, digest=source.digest, applied=applied, at=at)
            if made == before:
                return
            try:
                await self._write(set_, cluster, current, made)
            except (errors.Conflict, errors.AlreadyExists):
                if attempt == _RECORD_TRIES:
                    raise
            else:
                return

    async def _write(self, set_: Object, cluster: Object, current: Object | None, entry: Object) -> None:
        draft = Draft(self._client, CLUSTER_RESOURCE_SET_BINDINGS, current or bindings.new(cluster))
        bindings.put(draft.object, objects.name(set_), entry)
        draft.add_owner(set_, controller=False)
        if current is None:
            await self._client.create(CLUSTER_RESOURCE_SET_BINDINGS, draft.object)
        else:
            await patching.patch(self._client, CLUSTER_RESOURCE_SET_BINDINGS, current, draft.object)

    async def _let_go(self, draft: Draft) -> None:
        set_ = draft.object
        for binding in self._selection.bindings.list(objects.namespace(set_)):
            if not bindings.names(binding, objects.name(set_)):
                continue
            left = objects.copy(binding)
            with contextlib.suppress(errors.NotFound):
                if bindings.take_out(left, set_):
                    await patching.patch(self._client, CLUSTER_RESOURCE_SET_BINDINGS, binding, left)
                else:
                    await self._client.delete(
                        CLUSTER_RESOURCE_SET_BINDINGS,
                        objects.name(binding),
                        objects.namespace(binding),
                        uid=objects.uid(binding),
                        resource_version=objects.resource_version(binding),
                    )
        await draft.finish(wellknown.RESOURCE_SET_FINALIZER)

    def _look_again(self, key: Key, problems: Sequence[Problem]) -> float | None:
        """What failed is tried again after a while that grows; the rest when its time has come."""
        delays = [each.look_again for each in problems if each.look_again is not None]
        if any(each.has_failed for each in problems):
            count = self._failures[key] = self._failures.get(key, 0) + 1
            delays.append(min(_FIRST_RETRY * 2.0 ** min(count - 1, 16), _LAST_RETRY))
        else:
            self._failures.pop(key, None)
        return min(delays, default=None)
