"""The client that reconcilers use: reads come from the informers' caches, writes go to the server and are observed.

A reconciler therefore costs the server nothing but its writes, and reads its own writes at once. Resources without a
synced informer, field selectors and pages go to the server, and so does what an informer of a label has not, or keeps
only in outline. `live` is the client behind it, for the rare read that must be fresh.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from steelyard.kube import errors, objects, selectors
from steelyard.kube.client.interface import Client, ObjectList, PatchKind, Propagation, WatchEvent
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import outlines, ownwrites
from steelyard.kube.runtime.informers import Informers


class CachedClient:
    def __init__(self, client: Client, informers: Informers) -> None:
        self.live = client
        self.informers = informers

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        informer = self.informers.find(resource)
        known = [informer] if informer is not None else self.informers.about(resource)
        obj = next((found for each in known if (found := each.get(namespace, name)) is not None), None)
        if obj is not None and not outlines.is_one(obj):
            return obj
        if obj is None and informer is not None:
            raise errors.not_found(resource.group_resource, name)
        return await self.live.get(resource, name, namespace)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList:
        informer = self.informers.find(resource)
        if informer is None or field_selector or limit or continue_token:
            return await self.live.list(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                continue_token=continue_token,
            )
        found = informer.list(namespace)
        if label_selector:
            selector = selectors.parse_labels(label_selector)
            found = [obj for obj in found if selector.matches(objects.labels(obj))]
        if any(map(outlines.is_one, found)):
            return await self.live.list(resource, namespace, label_selector=label_selector)
        return ObjectList(found, str(informer.revision))

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        opened: Callable[[], None] | None = None,
    ) -> AsyncIterator[WatchEvent]:
        return self.live.watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            opened=opened,
        )

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        answer = await self.live.create(resource, obj, dry_run=dry_run)
        return answer if dry_run else self._observed(resource, answer)

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        return self._observed(resource, await self.live.update(resource, obj, subresource=subresource))

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> Object:
        answer = await self.live.patch(resource, name, patch, namespace, kind=kind, subresource=subresource)
        return self._observed(resource, answer)

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        answer = await self.live.apply(
            resource, obj, field_manager=field_manager, force=force, subresource=subresource, dry_run=dry_run
        )
        return answer if dry_run else self._observed(resource, answer)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> Object:
        answer = await self.live.delete(
            resource, name, namespace, propagation=propagation, uid=uid, resource_version=resource_version
        )
        if answer.get("kind") == "Status":
            for informer in self.informers.about(resource):
                informer.observe_deleted(namespace, name, str(objects.at(answer, "details", "uid") or uid))
            return answer
        return self._observed(resource, answer)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        await self.live.delete_collection(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def discover(self) -> Sequence[Resource]:
        return await self.live.discover()

    async def request(
        self, method: str, path: str, *, body: Object | None = None, accept: str = "application/json"
    ) -> Any:
        return await self.live.request(method, path, body=body, accept=accept)

    async def close(self) -> None:
        await self.live.close()

    def _observed(self, resource: Resource, obj: Object) -> Object:
        """Subresources such as scale answer with a kind of their own, which is not the object."""
        if obj.get("kind") == resource.kind:
            ownwrites.note(obj)
            for informer in self.informers.about(resource):
                if _is_gone(obj):
                    informer.observe_deleted(objects.namespace(obj), objects.name(obj), objects.uid(obj))
                else:
                    informer.observe(obj)
        return obj


def _is_gone(obj: Object) -> bool:
    """The answer to a write that took the last finalizer off an object being deleted: its final state."""
    return (
        objects.is_being_deleted(obj)
        and not objects.finalizers(obj)
        and not objects.at(obj, "spec", "finalizers")
        and not objects.metadata(obj).get("deletionGracePeriodSeconds")
    )
