"""One delivery from what it says to what is in the cluster: fetch, paused?, deletion, finalizer, rights, cluster, data,
connection, place, report.

Safe to stop at any line: that something is about to be written there is recorded first, and what is ours there says so
itself. A delivery that is as it should be costs one request there every few minutes, and no write.
"""

from __future__ import annotations

import contextlib
import datetime
from typing import Final

from steelyard.api import secretdelivery
from steelyard.api.authors import Author
from steelyard.api.clusterapi import resources as capi
from steelyard.api.secretdelivery import FINALIZER, LET_GO, PAUSED, RESERVED, RESOURCE, SecretDeliverySpec
from steelyard.compose import names
from steelyard.controllers.claims import rights
from steelyard.controllers.delivery import place as places
from steelyard.controllers.delivery import status, wanted
from steelyard.controllers.delivery.place import ThePlace
from steelyard.controllers.delivery.status import NotYet, Told
from steelyard.controllers.delivery.wanted import Wanted
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import finalizers, logs, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key

GIVE_UP: Final = datetime.timedelta(days=1)
"""After which a delivery that is to go is left where it cannot be removed: once the login is gone it opens nothing."""
_LOOK_AGAIN_UNTOLD: Final = 60.0
_LOOK_AGAIN_AWAY: Final = 30.0

_log = logs.get(__name__)


class DeliveryReconciler:
    def __init__(self, client: Client, workloads: Workloads, clock: Clock, recorder: Recorder) -> None:
        self._client = client
        self._workloads = workloads
        self._clock = clock
        self._recorder = recorder

    async def reconcile(self, key: Key) -> Result:
        delivery = await self._find(RESOURCE, key.name)
        if delivery is None:
            return Result()
        if objects.annotations(delivery).get(PAUSED) == "true":
            await self._report(delivery, Told(_is_ready(delivery), paused=True, message=f"paused by {PAUSED}"))
            return Result()
        spec = SecretDeliverySpec.model_validate(delivery.get("spec"))
        if objects.is_being_deleted(delivery):
            return await self._go(delivery, spec)
        delivery = await finalizers.ensure(self._client, RESOURCE, delivery, FINALIZER)
        try:
            delivery, waits = await self._bring_about(delivery, spec)
        except NotYet as problem:
            # What was recorded on the way is in the cache.
            delivery = await self._find(RESOURCE, key.name) or delivery
            if not (problem.is_unknown and objects.at(delivery, "status", "conditions")):
                await self._report(delivery, Told(ready=False, synced=problem.synced, message=problem.message))
            return Result(problem.look_again)
        await self._report(delivery, Told(ready=not waits, message=waits))
        return Result(places.LOOK_AGAIN if waits else None)

    async def _bring_about(self, delivery: Object, spec: SecretDeliverySpec) -> tuple[Object, str]:
        """The delivery as it is recorded, and what is still waited for. Raises NotYet."""
        await self._check_rights(spec)
        cluster = await self._cluster(spec)
        if cluster is None:
            raise status.no_cluster(spec)
        if objects.is_being_deleted(cluster):
            raise status.cluster_goes(spec)
        if not objects.at(cluster, "status", "initialization", "controlPlaneInitialized"):
            raise status.cluster_comes(spec)
        what = await self._wanted(objects.name(delivery), spec)
        place = ThePlace(await self._way_in(spec, cluster), objects.name(delivery), spec)
        if objects.at(delivery, "status", "delivered", "kind") != what.resource.kind:
            await place.make_room(what.resource)
        observed = await place.find(what.resource)
        if observed is None or not what.is_there(observed):
            await place.check(what.resource, observed)
            delivery = await self._begin(delivery)
            observed = await place.write(what, observed)
            _log.info("delivered", kind=what.resource.kind, cluster=objects.qualified_name(cluster))
            return await self._written(delivery, what), _waits(what, observed)
        if objects.at(delivery, "status", "delivered", "digest") != what.digest:
            # It was written, and the process ended before that was recorded.
            delivery = await self._written(delivery, what)
        return delivery, _waits(what, observed)

    async def _check_rights(self, spec: SecretDeliverySpec) -> None:
        if spec.target.namespace in RESERVED:
            raise NotYet(f"nothing is delivered into namespace {spec.target.namespace}")
        if spec.suspended:
            raise NotYet(spec.suspended)
        person = spec.on_behalf_of
        if person is None:
            return
        author = Author(person.user, tuple(person.groups or ()))
        secret = names.kubeconfig_secret(spec.cluster.name)
        if not await rights.may(self._client, author, "get", "secrets", spec.cluster.namespace, secret):
            raise status.forbidden(spec, person.user, _LOOK_AGAIN_UNTOLD)

    async def _cluster(self, spec: SecretDeliverySpec) -> Object | None:
        namespace, name = spec.cluster.namespace, spec.cluster.name
        found = await self._find(capi.CLUSTERS, name, namespace)
        if found is not None:
            return found
        own = await self._find(capi.CLUSTERS, name, names.external(namespace, name))
        is_the_claims = objects.labels(own or {}).get(names.CLAIM_NAMESPACE) == namespace
        return own if is_the_claims else None

    async def _wanted(self, name: str, spec: SecretDeliverySpec) -> Wanted:
        if spec.source is None:
            return wanted.of_manifest(name, spec)
        secret = await self._find(SECRETS, spec.source.name, spec.source.namespace)
        if secret is None or objects.is_being_deleted(secret):
            raise status.no_data()
        return wanted.of_source(name, spec, secret)

    async def _way_in(self, spec: SecretDeliverySpec, cluster: Object) -> Client:
        key = Key.of(cluster)
        connection = await self._workloads.connection(key)
        if problem := self._workloads.problem(key):
            raise status.unreachable(spec, problem, _LOOK_AGAIN_AWAY)
        if connection is None:
            raise status.unreachable(spec, "it has no kubeconfig yet", _LOOK_AGAIN_AWAY)
        if not connection.is_synced:
            raise status.connecting(spec, _LOOK_AGAIN_AWAY)
        return connection.client

    async def _begin(self, delivery: Object) -> Object:
        if objects.at(delivery, "status", "begunAt"):
            return delivery
        return await self._patch(delivery, {"begunAt": clocks.rfc3339(self._clock.now())})

    async def _written(self, delivery: Object, what: Wanted) -> Object:
        at = clocks.rfc3339(self._clock.now())
        return await self._patch(delivery, {"delivered": {"kind": what.resource.kind, "digest": what.digest, "at": at}})

    async def _go(self, delivery: Object, spec: SecretDeliverySpec) -> Result:
        if not finalizers.has(delivery, FINALIZER):
            return Result()
        try:
            await self._remove(delivery, spec)
        except NotYet as problem:
            until = _deleted_at(delivery, self._clock.now()) + GIVE_UP
            if self._clock.now() < until:
                message = status.cannot_be_removed(delivery, problem.message, until)
                if not problem.is_unknown:
                    await self._report(delivery, Told(ready=False, synced=False, message=message))
                return Result(problem.look_again or _LOOK_AGAIN_AWAY)
            self._let_go(delivery, f"{problem.message}; after {GIVE_UP.days} day it is left there")
        with contextlib.suppress(errors.NotFound):
            await finalizers.remove(self._client, RESOURCE, delivery, FINALIZER)
        return Result()

    async def _remove(self, delivery: Object, spec: SecretDeliverySpec) -> None:
        """Returns when there is nothing left to be removed. Raises NotYet."""
        if not objects.at(delivery, "status", "begunAt"):
            return
        cluster = await self._cluster(spec)
        if cluster is None or objects.is_being_deleted(cluster):
            return
        if objects.annotations(delivery).get(LET_GO) == "true":
            self._let_go(delivery, f"left in {status.called(spec)}, as {LET_GO} says")
            return
        place = ThePlace(await self._way_in(spec, cluster), objects.name(delivery), spec)
        for resource in wanted.KINDS:
            if await place.remove(resource):
                raise status.goes_there(spec, resource.kind, places.LOOK_AGAIN)
        _log.info("removed", cluster=objects.qualified_name(cluster))

    def _let_go(self, delivery: Object, message: str) -> None:
        _log.warning("not removed", reason=message)
        self._recorder.warning(delivery, "LetGo", message)

    async def _report(self, delivery: Object, told: Told) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._patch(delivery, {"conditions": status.reported(delivery, told, self._clock.now())})

    async def _patch(self, delivery: Object, fields: Object) -> Object:
        known = objects.mapping(delivery.get("status"))
        return await patching.patch_status(self._client, RESOURCE, delivery, {**known, **fields})

    async def _find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except errors.NotFound:
            return None


def _is_ready(delivery: Object) -> bool:
    found = objects.sequence(objects.at(delivery, "status", "conditions"))
    return any(each.get("type") == status.READY and each.get("status") == "True" for each in found)


def _waits(what: Wanted, observed: Object) -> str:
    return status.external_secret_waits(observed) if what.resource == secretdelivery.EXTERNAL_SECRETS else ""


def _deleted_at(delivery: Object, now: datetime.datetime) -> datetime.datetime:
    since = objects.metadata(delivery).get("deletionTimestamp")
    return clocks.parse_rfc3339(str(since)) if since else now
