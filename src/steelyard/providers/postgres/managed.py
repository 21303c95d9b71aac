"""Crossplane's managed resources: what every kind of provider-sql has in common, whichever thing it stands for.

    fetch, paused? -> deletion: observe, delete, finalizer off
                   -> else:     observe -> record the intent, make -> or bring up to date -> one status patch

Read before anything is written, and recorded before anything is made: an object whose record does not say that it set
out to make what is there has nothing to do with it, and leaves it alone. What fails is told in `Synced`, in the words
of `problems`; what was Ready stays so for a while, since a restart of the server is no news.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Protocol, cast

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions, logs, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.postgres import indexes, policies, records, references
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Away, Broken, Missing, Problem, Taken
from steelyard.providers.postgres.records import FINALIZER

DEFAULT_CONFIG: Final = "default"
_UNAVAILABLE_AFTER: Final = 30.0
"""Seconds without the server after which what was Ready no longer is."""
_LONGEST_RETRY: Final = 120.0
_WAITING: Final = 5.0

_log = logs.get(__name__)


@frozen
class Subject:
    """An object, with what its kind needs to know of it."""

    object: Object
    name: str
    """Of the thing on the server."""
    config: str
    """Of the ProviderConfig."""

    @property
    def parameters(self) -> Object:
        return objects.mapping(objects.at(self.object, "spec", "forProvider"))

    def text(self, key: str) -> str:
        return str(self.parameters.get(key) or "")


@frozen
class Observation:
    exists: bool
    is_current: bool = True
    late: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the spec leaves open and the thing has: goes into `spec.forProvider`."""
    at_provider: Object | None = None


class Kind(Protocol):
    """What is special about a kind. Every method may be called again after it was interrupted anywhere."""

    @property
    def resource(self) -> Resource: ...

    @property
    def is_named(self) -> bool:
        """Whether the thing has a name that somebody else's can have too."""
        ...

    def needs(self, subject: Subject) -> Iterable[tuple[Resource, str]]:
        """Things that must be there first, by kind and name on the server."""
        ...

    async def observe(self, subject: Subject) -> Observation: ...

    async def create(self, subject: Subject) -> None: ...

    async def update(self, subject: Subject) -> None: ...

    async def delete(self, subject: Subject) -> None: ...


def subject(obj: Object) -> Subject:
    config = str(objects.at(obj, "spec", "providerConfigRef", "name") or DEFAULT_CONFIG)
    return Subject(obj, records.external_name(obj), config)


class ManagedReconciler:
    def __init__(self, tools: Tools, kind: Kind) -> None:
        self._client: CachedClient = tools.client
        self._clock = tools.clock
        self._kind = kind
        self._resource = kind.resource

    async def reconcile(self, key: Key) -> Result:
        try:
            obj = await self._client.get(self._resource, key.name)
        except errors.NotFound:
            return Result()
        if records.is_paused(obj) or not policies.is_managed(obj):
            await self._report(obj, synced=("False", "ReconcilePaused", "it is paused"))
            return Result()
        try:
            if objects.is_being_deleted(obj):
                return await self._delete(obj)
            return await self._bring_about(obj)
        except Problem as problem:
            return await self._tell(key, problem)

    async def _bring_about(self, obj: Object) -> Result:
        obj = await references.resolve(self._client, self._resource, obj)
        this = subject(obj)
        waiting_for = self._waiting_for(this)
        if waiting_for:
            return Result(requeue_after=_WAITING)
        found = await self._kind.observe(this)
        if not found.exists:
            if not policies.allows(obj, "Create"):
                raise Missing(f"{self._kind.resource.kind} {this.name} is not on the server, and is not to be made")
            obj = await self._create(this)
            found = await self._kind.observe(subject(obj))
        else:
            self._refuse_anothers(this)
            obj = await self._note(obj)
        if not found.is_current and policies.allows(obj, "Update"):
            await self._kind.update(subject(obj))
            found = await self._kind.observe(subject(obj))
        obj = await self._initialise(obj, found)
        await self._report(
            obj,
            synced=("True", "ReconcileSuccess", ""),
            ready=("True", "Available", ""),
            at_provider=found.at_provider,
        )
        return Result()

    def _waiting_for(self, this: Subject) -> str:
        """What is composed together arrives together: who comes too early waits for the others without a word, and is
        called when they are there."""
        for resource, name in self._kind.needs(this):
            informer = self._client.informers.find(resource)
            known = informer.by_index(indexes.NAMES, indexes.named(this.config, name)) if informer and name else []
            if known and not any(conditions.is_true(each, "Ready") for each in known):
                return f"{resource.kind} {name}"
        return ""

    async def _create(self, this: Subject) -> Object:
        wanted = records.annotated(this.object, name=this.name, pending=self._now())
        obj = await patching.patch(self._client, self._resource, this.object, _with_finalizer(wanted))
        try:
            await self._kind.create(subject(obj))
        except (Away, Broken):
            # Nobody knows whether it was made; the next look will tell.
            raise
        except Problem:
            # It was not, also where somebody else made it in the meantime: that one is not ours.
            await patching.patch(self._client, self._resource, obj, records.annotated(obj, failed=self._now()))
            raise
        succeeded = records.annotated(obj, succeeded=self._now())
        return await patching.patch(self._client, self._resource, obj, succeeded, optimistic=False)

    def _refuse_anothers(self, this: Subject) -> None:
        if self._kind.is_named and policies.allows(this.object, "Update") and not records.is_ours(this.object):
            kind = self._resource.kind.lower()
            raise Taken(
                f"there is a {kind} {this.name} on the server already that was not made for this object; it is left "
                f"alone. Choose another name, or annotate the object with {records.ADOPT}=true to take it over"
            )

    def _now(self) -> str:
        return clocks.rfc3339_micro(self._clock.now())

    async def _note(self, obj: Object) -> Object:
        """What an interrupted creation left open, and the finalizer of what provider-sql or somebody else made."""
        wanted = _with_finalizer(records.annotated(obj, name=records.external_name(obj)))
        if records.is_unfinished(obj):
            wanted = records.annotated(wanted, succeeded=self._now())
        return await patching.patch(self._client, self._resource, obj, wanted)

    async def _initialise(self, obj: Object, found: Observation) -> Object:
        if not found.late or not policies.allows(obj, "LateInitialize"):
            return obj
        wanted = objects.copy(obj)
        parameters = wanted["spec"].setdefault("forProvider", {})
        _fill_in(parameters, found.late)
        return await patching.patch(self._client, self._resource, obj, wanted)

    async def _delete(self, obj: Object) -> Result:
        this = subject(obj)
        if FINALIZER not in objects.finalizers(obj):
            return Result()
        if policies.is_deleted_with(obj):
            found = await self._kind.observe(this)
            if found.exists and (not self._kind.is_named or records.is_ours(obj)):
                obj = await self._report(obj, ready=("False", "Deleting", ""))
                await self._kind.delete(subject(obj))
        wanted = objects.copy(obj)
        wanted["metadata"]["finalizers"] = [each for each in objects.finalizers(obj) if each != FINALIZER]
        await patching.patch(self._client, self._resource, obj, wanted)
        return Result()

    async def _tell(self, key: Key, problem: Problem) -> Result:
        try:
            obj = await self._client.get(self._resource, key.name)
        except errors.NotFound:
            return Result()
        failed_for = self._failed_for(obj)
        ready: tuple[conditions.Status, str, str] | None = None
        if isinstance(problem, Away) and failed_for > _UNAVAILABLE_AFTER:
            ready = ("False", "Unavailable", str(problem))
        elif isinstance(problem, Taken) or conditions.find(obj, "Ready") is None:
            ready = ("False", "Creating", str(problem))
        if failed_for == 0:
            _log.warning("not synced", problem=str(problem))
        text = str(problem)
        if objects.is_being_deleted(obj):
            text += ". To give up on what is on the server, set spec.deletionPolicy to Orphan"
        await self._report(obj, synced=("False", "ReconcileError", text), ready=ready)
        return Result(requeue_after=max(problem.retry_after, min(failed_for, _LONGEST_RETRY)))

    def _failed_for(self, obj: Object) -> float:
        condition = conditions.find(obj, "Synced")
        if condition is None or condition.get("status") != "False":
            return 0.0
        since = clocks.parse_rfc3339(str(condition["lastTransitionTime"]))
        return max(0.001, (self._clock.now() - since) / datetime.timedelta(seconds=1))

    async def _report(
        self,
        obj: Object,
        *,
        synced: tuple[conditions.Status, str, str] | None = None,
        ready: tuple[conditions.Status, str, str] | None = None,
        at_provider: Object | None = None,
    ) -> Object:
        status: Object = {**objects.mapping(obj.get("status"))}
        if at_provider is not None:
            status["atProvider"] = {**objects.mapping(status.get("atProvider")), **at_provider}
        found = conditions.of(obj)
        for type_, given in (("Ready", ready), ("Synced", synced)):
            if given is not None:
                found = conditions.set_(
                    found, type_, *given, now=self._clock.now(), observed_generation=objects.generation(obj)
                )
        status["conditions"] = found
        return await patching.patch_status(self._client, self._resource, obj, status)


def _with_finalizer(obj: Object) -> Object:
    if FINALIZER not in objects.finalizers(obj):
        obj["metadata"]["finalizers"] = [*objects.finalizers(obj), FINALIZER]
    return obj


def _fill_in(parameters: Object, late: Mapping[str, Any]) -> None:
    for key, value in late.items():
        if isinstance(value, dict):
            _fill_in(parameters.setdefault(key, {}), cast("Mapping[str, Any]", value))
        else:
            parameters.setdefault(key, value)
