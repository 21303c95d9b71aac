"""What controllers, providers and the command line call: the same interface whichever transport is behind it.

Every method raises the classes of `kube.errors`; a transport failure (refused, timed out, closed) is
`errors.ServiceUnavailable` with the cause in its message. Objects that come back are shared and read-only
(`objects.copy` before a change).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, Protocol

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
PatchKind = Literal["merge", "json", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]


@frozen
class WatchEvent:
    type: EventType
    object: Object


@frozen
class ObjectList:
    items: Sequence[Object]
    resource_version: str
    continue_token: str = ""


class Client(Protocol):
    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

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
        """One page; without `limit`, everything. Items carry apiVersion and kind."""
        ...

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
        """Events after the revision, bookmarks included, until the server ends the watch (then iteration ends).
        `opened` is called once the server has answered, which is before there is an event.

        Raises `errors.Expired` when the revision is no longer retained: list again.
        """
        ...

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        """The namespace is taken from the object's metadata."""
        ...

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object: ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> Object: ...

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
        """Server-side apply of exactly the given fields."""
        ...

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
        """The answer: the object with its deletionTimestamp while finalizers hold it, else a Status of success."""
        ...

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None: ...

    async def discover(self) -> Sequence[Resource]:
        """All resources the server serves, in each group's preferred version."""
        ...

    async def request(
        self, method: str, path: str, *, body: Object | None = None, accept: str = "application/json"
    ) -> Any:
        """A raw request for what has no verb of its own (`/version`, `/openapi/v3`); the decoded JSON answer."""
        ...

    async def close(self) -> None: ...
