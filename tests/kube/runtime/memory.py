"""A small API server in memory, with faults: the runtime's tests say when events arrive, and what fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, cast

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import EventType, ObjectList, PatchKind, Propagation, WatchEvent
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, SECRETS, Resource
from steelyard.kube.runtime.keys import Key

_Change = tuple[int, Resource, EventType, Object]


class MemoryClient:
    def __init__(self) -> None:
        self.revision = 0
        self.compacted = 0
        self.calls: list[str] = []
        self.failures: dict[str, list[Exception]] = {}
        self.unserved: set[Resource] = set()
        """Kinds whose list and watch answer 404."""
        self.silence: Callable[[], Awaitable[None]] | None = None
        """What watches wait for before they fail, as those of a server do that does not answer."""
        self.stored: dict[tuple[Resource, Key], Object] = {}
        self._changes: list[_Change] = []
        self._delivered = 0
        self._holding = False
        self._wake = asyncio.Event()
        self._generation = 0

    def hold_events(self) -> None:
        """Watches deliver nothing new until `release_events`."""
        self._holding = True

    def release_events(self) -> None:
        self._holding = False
        self._deliver()

    def end_watches(self) -> None:
        self._generation += 1
        self._wake_all()

    def compact(self) -> None:
        """Forgets history, so that watches from any revision before now expire."""
        self.compacted = self.revision
        self._changes.clear()
        self._delivered = 0

    def fail(self, call: str, *causes: Exception) -> None:
        """The next calls of that name raise these."""
        self.failures.setdefault(call, []).extend(causes)

    def count(self, call: str) -> int:
        return self.calls.count(call)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        self._called("get")
        return self._found(resource, Key(namespace, name))

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
        self._called("list", resource)
        found = [
            obj
            for (each, key), obj in self.stored.items()
            if each == resource and (not namespace or key.namespace == namespace)
        ]
        return ObjectList(found, str(self.revision))

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        opened: Callable[[], None] | None = None,
    ) -> AsyncIterator[WatchEvent]:
        self._called("watch", resource)
        position = int(resource_version)
        if position < self.compacted:
            raise errors.Expired("too old resource version")
        if self.silence is not None:
            await self.silence()
            raise errors.ServiceUnavailable("did not answer in time")
        if opened is not None:
            opened()
        generation = self._generation
        while generation == self._generation:
            for revision, each, kind, obj in list(self._changes[: self._delivered]):
                if revision > position:
                    position = revision
                    if each == resource and (not namespace or objects.namespace(obj) == namespace):
                        yield WatchEvent(kind, obj)
            wake = self._wake
            if not any(change[0] > position for change in self._changes[: self._delivered]):
                await wake.wait()

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        self._called("create")
        await asyncio.sleep(0)
        key = Key.of(obj)
        if (resource, key) in self.stored:
            raise errors.already_exists(resource.group_resource, key.name)
        created = objects.copy(obj)
        created.setdefault("apiVersion", resource.api_version)
        created.setdefault("kind", resource.kind)
        created["metadata"]["uid"] = f"uid-{self.revision + 1}"
        created["metadata"]["generation"] = 1
        return self._store(resource, "ADDED", created)

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        self._called("update")
        current = self._found(resource, Key.of(obj))
        self._check(resource, current, objects.metadata(obj))
        return self._store(resource, "MODIFIED", objects.copy(obj))

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
        self._called(f"patch {subresource}".strip())
        await asyncio.sleep(0)
        current = self._found(resource, Key(namespace, name))
        self._check(resource, current, objects.metadata(patch))
        merged = _merged(current, patch)
        if merged == current:
            return current
        return self._store(resource, "MODIFIED", merged)

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
        self._called("apply")
        key = Key.of(obj)
        if (resource, key) not in self.stored:
            return await self.create(resource, obj, dry_run=dry_run)
        return await self.patch(resource, key.name, obj, key.namespace, subresource=subresource)

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
        self._called("delete")
        current = self._found(resource, Key(namespace, name))
        if objects.finalizers(current):
            return self._store(
                resource, "MODIFIED", _merged(current, {"metadata": {"deletionTimestamp": "2025-01-01T00:00:00Z"}})
            )
        self._remove(resource, current)
        return {"kind": "Status", "status": "Success", "details": {"name": name, "uid": objects.uid(current)}}

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        for each, key in list(self.stored):
            if each == resource and (not namespace or key.namespace == namespace):
                await self.delete(resource, key.name, key.namespace)

    async def discover(self) -> Sequence[Resource]:
        return [CONFIG_MAPS, SECRETS]

    async def request(
        self, method: str, path: str, *, body: Object | None = None, accept: str = "application/json"
    ) -> Any:
        return {}

    async def close(self) -> None:
        self.end_watches()

    def _called(self, call: str, resource: Resource | None = None) -> None:
        self.calls.append(call)
        if resource in self.unserved:
            raise errors.NotFound("the server could not find the requested resource")
        causes = self.failures.get(call)
        if causes:
            raise causes.pop(0)

    def _found(self, resource: Resource, key: Key) -> Object:
        obj = self.stored.get((resource, key))
        if obj is None:
            raise errors.not_found(resource.group_resource, key.name)
        return obj

    def _check(self, resource: Resource, current: Object, metadata: Object) -> None:
        wanted = metadata.get("resourceVersion")
        if wanted and wanted != objects.resource_version(current):
            raise errors.conflict(resource.group_resource, objects.name(current), "the object has been modified")

    def _store(self, resource: Resource, kind: EventType, obj: Object) -> Object:
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        if objects.is_being_deleted(obj) and not objects.finalizers(obj):
            self.revision -= 1
            self._remove(resource, obj)
            return obj
        self.stored[resource, Key.of(obj)] = obj
        self._record(resource, kind, obj)
        return obj

    def _remove(self, resource: Resource, obj: Object) -> None:
        self.revision += 1
        self.stored.pop((resource, Key.of(obj)))
        final = objects.copy(obj)
        final["metadata"]["resourceVersion"] = str(self.revision)
        self._record(resource, "DELETED", final)

    def _record(self, resource: Resource, kind: EventType, obj: Object) -> None:
        self._changes.append((self.revision, resource, kind, obj))
        if not self._holding:
            self._deliver()

    def _deliver(self) -> None:
        self._delivered = len(self._changes)
        self._wake_all()

    def _wake_all(self) -> None:
        self._wake.set()
        self._wake = asyncio.Event()


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged: Object = dict(cast(Object, target)) if isinstance(target, dict) else {}
    for key, value in cast(Object, patch).items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged


def config_map(name: str, namespace: str = "default", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": dict(data),
    }


async def turns(count: int = 20) -> None:
    """Lets every task that can run, run."""
    for _ in range(count):
        await asyncio.sleep(0)
