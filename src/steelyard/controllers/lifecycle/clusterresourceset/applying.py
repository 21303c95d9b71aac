"""Puts objects of any kind into a cluster: those that are missing are created; with the strategy Reconcile, those that
are there are made as the manifests have them.

What becomes of an object there is the cluster's own business: its status, who owns and who holds it stay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final

from steelyard.controllers.lifecycle.clusterresourceset import binding
from steelyard.kube import errors, objects
from steelyard.kube.client import discovery
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.runtime import patching

_REPLACED: Final = ("labels", "annotations")
_ONLY_IF_GIVEN: Final = ("finalizers", "ownerReferences")


class Applying:
    """Into one cluster. Which kinds it serves is asked once for each group and version, and anew after a definition."""

    def __init__(self, client: Client, strategy: str) -> None:
        self._client = client
        self._strategy = strategy
        self._kinds: dict[str, dict[str, Resource]] = {}

    async def apply(self, wanted: Iterable[Object]) -> list[str]:
        """Why any of them is not there; each is tried. Raises ServiceUnavailable where the cluster does not answer."""
        problems: list[str] = []
        for obj in wanted:
            try:
                await self._one(obj)
            except errors.ServiceUnavailable:
                raise
            except errors.ApiError as error:
                problems.append(f"{obj['kind']} {objects.qualified_name(obj)}: {error.message}")
        return problems

    async def _one(self, obj: Object) -> None:
        resource = await self._resource(str(obj["apiVersion"]), str(obj["kind"]))
        if resource.kind == CUSTOM_RESOURCE_DEFINITIONS.kind:
            self._kinds.clear()
        if resource.namespaced and not objects.namespace(obj):
            raise errors.BadRequest("it has no metadata.namespace, which its kind needs")
        if self._strategy != binding.RECONCILE:
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(resource, obj)
            return
        where = (objects.name(obj), objects.namespace(obj) if resource.namespaced else "")
        try:
            current = await self._client.get(resource, *where)
        except errors.NotFound:
            await self._client.create(resource, obj)
            return
        patch = difference(current, obj)
        if patch:
            await self._client.patch(resource, where[0], patch, where[1])

    async def _resource(self, api_version: str, kind: str) -> Resource:
        if api_version not in self._kinds:
            self._kinds[api_version] = {}
            with contextlib.suppress(errors.NotFound):
                self._kinds[api_version] = await discovery.kinds(self._fetch, api_version)
        found = self._kinds[api_version].get(kind)
        if found is None:
            raise errors.NotFound(f"the cluster serves no kind {kind} in {api_version}: install what defines it there")
        return found

    async def _fetch(self, path: str, accept: str) -> Any:
        return await self._client.request("GET", path, accept=accept)


def difference(current: Object, wanted: Object) -> Object:
    """The merge patch that makes what is there as it is wanted; empty where it is."""
    fields = [name for name in _REPLACED if name in objects.metadata(current) or name in objects.metadata(wanted)]
    fields += [name for name in _ONLY_IF_GIVEN if name in objects.metadata(wanted)]
    return patching.merge_patch(_compared(current, fields), _compared(wanted, fields))


def _compared(obj: Object, fields: Iterable[str]) -> Object:
    metadata = objects.metadata(obj)
    kept = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return {**kept, "metadata": {name: metadata[name] for name in fields if name in metadata}}
