"""A client that ends the program at one of its writes: before it is made, or when it has been and nobody was told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from steelyard.kube.client.interface import Client, ObjectList, PatchKind, Propagation, WatchEvent
from steelyard.kube.objects import Object
from steelyard.kube.resources import LEASES, Resource


class Killed(BaseException):
    """No handler of errors sees it: the process is gone."""


class Fate:
    """Counts the writes of all clients that share it."""

    def __init__(self, at: int = 0, *, before: bool = False) -> None:
        """`at` is the number of the write, from 1 on; 0 is never."""
        self.writes = 0
        self._at = at
        self._before = before

    async def of(self, write: Callable[[], Any]) -> Any:
        self.writes += 1
        if self.writes == self._at and self._before:
            raise Killed
        answer = await write()
        if self.writes == self._at:
            raise Killed
        return answer


class Mortal:
    def __init__(self, client: Client, fate: Fate) -> None:
        self._client = client
        self._fate = fate

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._client.get(resource, name, namespace)

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
        return await self._client.list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
        )

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
        raise AssertionError("a move watches nothing")

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        if dry_run or _is_aside(resource):
            return await self._client.create(resource, obj, dry_run=dry_run)
        return await self._fate.of(lambda: self._client.create(resource, obj))

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        if _is_aside(resource):
            return await self._client.update(resource, obj, subresource=subresource)
        return await self._fate.of(lambda: self._client.update(resource, obj, subresource=subresource))

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
        return await self._fate.of(
            lambda: self._client.patch(resource, name, patch, namespace, kind=kind, subresource=subresource)
        )

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
        raise AssertionError("a move applies nothing")

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
        return await self._fate.of(
            lambda: self._client.delete(
                resource, name, namespace, propagation=propagation, uid=uid, resource_version=resource_version
            )
        )

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        raise AssertionError("a move deletes no collection")

    async def discover(self) -> Sequence[Resource]:
        return await self._client.discover()

    async def request(
        self, method: str, path: str, *, body: Object | None = None, accept: str = "application/json"
    ) -> Any:
        assert method == "GET"
        return await self._client.request(method, path, accept=accept)

    async def close(self) -> None:
        await self._client.close()


def _is_aside(resource: Resource) -> bool:
    """What is asked, and the Lease, which is written whenever its time has come: no write of a move."""
    return resource == LEASES or resource.plural.endswith("reviews")
