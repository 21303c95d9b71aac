"""One place in a cluster: what is found there, and writing to it. Nothing that is somebody else's is ever changed.

Every request has a deadline. What a cluster answers becomes words (`status.of_error`), except for what the caller acts
on: that something is not there, and that it was changed since it was looked at (`errors.Conflict`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Final, TypeVar

from steelyard.api.secretdelivery import EXTERNAL_SECRETS, SecretDeliverySpec
from steelyard.controllers.delivery import status, wanted
from steelyard.controllers.delivery.wanted import Wanted
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.plan import marks

FIELD_MANAGER: Final = "steelyard-delivery"
LOOK_AGAIN: Final = 15.0
"""Seconds, where something must be done in the cluster, of which nothing tells."""
_DEADLINE: Final = 10.0
_BEFORE_ANYTHING: Final = "1"
"""A revision is ignored where there is nothing, and refused where there is an object of another one."""

T = TypeVar("T")


class ThePlace:
    def __init__(self, client: Client, name: str, spec: SecretDeliverySpec) -> None:
        """`client` is the cluster's; `name` that of the SecretDelivery."""
        self._client = client
        self._name = name
        self._spec = spec

    async def find(self, resource: Resource) -> Object | None:
        try:
            return await self._ask(self._client.get(resource, self._spec.target.name, self._spec.target.namespace))
        except errors.NotFound:
            return None

    async def make_room(self, kept: Resource) -> None:
        """What was delivered as the other kind goes first."""
        for resource in wanted.KINDS:
            if resource != kept and await self.remove(resource):
                raise status.goes_there(self._spec, resource.kind, LOOK_AGAIN)

    async def check(self, resource: Resource, observed: Object | None) -> None:
        """Raises NotYet where it cannot be written now."""
        if observed is None:
            await self._check_free(resource)
        elif not wanted.is_ours(observed, self._name, self._spec):
            raise status.not_ours(self._spec, resource.kind, LOOK_AGAIN)
        elif objects.is_being_deleted(observed):
            raise status.goes_there(self._spec, resource.kind, LOOK_AGAIN)

    async def _check_free(self, resource: Resource) -> None:
        try:
            await self._ask(self._client.get(NAMESPACES, self._spec.target.namespace))
        except errors.NotFound:
            raise status.no_namespace(self._spec, LOOK_AGAIN) from None
        # External Secrets would write into a Secret that is there already.
        if resource == EXTERNAL_SECRETS and await self.find(SECRETS) is not None:
            raise status.not_ours(self._spec, SECRETS.kind, LOOK_AGAIN)

    async def write(self, what: Wanted, observed: Object | None) -> Object:
        """Raises `errors.Conflict` where it is not as it was observed."""
        signed = marks.signed(what.object)
        if observed is None:
            signed["metadata"]["resourceVersion"] = _BEFORE_ANYTHING
        else:
            signed["metadata"]["uid"] = objects.uid(observed)
            signed["metadata"]["resourceVersion"] = objects.resource_version(observed)
        try:
            return await self._ask(self._client.apply(what.resource, signed, field_manager=FIELD_MANAGER))
        except errors.NotFound:
            if what.resource == EXTERNAL_SECRETS:
                raise status.no_kind(self._spec, LOOK_AGAIN) from None
            raise status.no_namespace(self._spec, LOOK_AGAIN) from None

    async def remove(self, resource: Resource) -> bool:
        """Deletes it where it is ours; True while it is still there."""
        observed = await self.find(resource)
        if observed is None or not wanted.is_ours(observed, self._name, self._spec):
            return False
        if objects.is_being_deleted(observed):
            return True
        target = self._spec.target
        with contextlib.suppress(errors.NotFound):
            await self._ask(self._client.delete(resource, target.name, target.namespace, uid=objects.uid(observed)))
        return await self.find(resource) is not None

    async def _ask(self, request: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_DEADLINE):
                return await request
        except (errors.NotFound, errors.Conflict):
            raise
        except (errors.ApiError, TimeoutError) as error:
            raise status.of_error(self._spec, error, LOOK_AGAIN) from error
