"""The client straight into a server in this process: the same calls, admission and authorisation, without the wire.

Objects come out of the server's records as they are, parsed once for everybody; nothing is encoded or decoded on the
way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import orjson

from steelyard.kube import errors, objects
from steelyard.kube.client import discovery
from steelyard.kube.client.interface import ObjectList, PatchKind, Propagation, WatchEvent
from steelyard.kube.client.requests import delete_options, selected
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server import routing
from steelyard.kube.server.bodies import negotiation
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, PatchType, Reply, User, Verb
from steelyard.kube.server.verbs.watching import WatchStream

ADMIN = User("steelyard", (SYSTEM_MASTERS,))
_NO_OPTIONS: Mapping[str, str] = {}


class Document(Protocol):
    @property
    def body(self) -> bytes: ...


class Api(Protocol):
    """What the client needs of `kube.server.api.Api`."""

    async def call(self, call: Call) -> Reply: ...

    async def watch(self, call: Call) -> WatchStream: ...

    def authorize_path(self, user: User, method: str, path: str) -> None: ...

    def document(self, path: str, accept: str) -> Document | None: ...


class LocalClient:
    """`close` leaves the server alone: whoever started it ends it."""

    def __init__(self, api: Api, user: User = ADMIN, *, field_manager: str = "steelyard") -> None:
        self._api = api
        self._user = user
        self._written: Mapping[str, str] = {"fieldManager": field_manager}
        self._dry_run: Mapping[str, str] = {"fieldManager": field_manager, "dryRun": "All"}

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._object(self._call("get", resource, namespace, name), resource)

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
        options = selected(label_selector, field_selector)
        if limit:
            options["limit"] = str(limit)
        if continue_token:
            options["continue"] = continue_token
        reply = await self._api.call(self._call("list", resource, namespace, options=options))
        if reply.listing is not None:
            items = [_in_version(record.object, resource) for record in reply.listing.records]
            metadata = objects.metadata(reply.listing.head)
        else:
            answer = objects.mapping(_decoded(reply))
            items = cast("list[Object]", objects.sequence(answer.get("items")))
            metadata = objects.metadata(answer)
        return ObjectList(items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or ""))

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
        options = selected(label_selector, field_selector)
        options |= {"allowWatchBookmarks": "true", "resourceVersion": resource_version}
        stream = await self._api.watch(self._call("watch", resource, namespace, options=options))
        if opened is not None:
            opened()
        try:
            while items := await stream.batch():
                for item in items:
                    yield WatchEvent(item.type, item.object)
        finally:
            stream.close()

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        options = self._dry_run if dry_run else self._written
        call = self._call("create", resource, objects.namespace(obj), options=options, body=obj)
        return await self._object(call, resource)

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        call = self._call(
            "update",
            resource,
            objects.namespace(obj),
            objects.name(obj),
            subresource=subresource,
            options=self._written,
            body=obj,
        )
        return await self._object(call, resource)

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
        # The server may keep parts of a patch, and the caller may go on changing it.
        body = orjson.loads(orjson.dumps(patch))
        call = self._call(
            "patch", resource, namespace, name, subresource=subresource, options=self._written, body=body, patch=kind
        )
        return await self._object(call, resource)

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
        options = {"fieldManager": field_manager, "force": "true" if force else "false"}
        if dry_run:
            options["dryRun"] = "All"
        call = self._call(
            "patch",
            resource,
            objects.namespace(obj),
            objects.name(obj),
            subresource=subresource,
            options=options,
            body=objects.copy(obj),
            patch="apply",
        )
        return await self._object(call, resource)

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
        body = delete_options(propagation, uid, resource_version)
        return await self._object(self._call("delete", resource, namespace, name, body=body), resource)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        options = selected(label_selector, field_selector)
        await self._api.call(self._call("deletecollection", resource, namespace, options=options))

    async def discover(self) -> Sequence[Resource]:
        async def fetch(path: str, accept: str) -> Any:
            return await self.request("GET", path, accept=accept)

        return await discovery.discover(fetch)

    async def request(
        self, method: str, path: str, *, body: Object | None = None, accept: str = "application/json"
    ) -> Any:
        """Resources, discovery and OpenAPI; what only the HTTP server has (`/version`, `/metrics`) is not found."""
        bare, _, query = path.partition("?")
        options = routing.query(query.encode())
        route = routing.route(method, bare, options)
        if route is None:
            return self._document(method, bare, accept)
        if route.verb == "watch":
            raise errors.NotFound("the server could not find the requested resource")
        call = Call(
            route.verb,
            route.group,
            route.version,
            route.plural,
            self._user,
            route.namespace,
            route.name,
            route.subresource,
            options,
            body,
            "merge" if route.verb == "patch" else "",
            negotiation.accepted(accept).representation,
            regular=route.regular,
        )
        return _decoded(await self._api.call(call))

    def _document(self, method: str, path: str, accept: str) -> Any:
        self._api.authorize_path(self._user, method, path)
        document = self._api.document(path, accept) if method == "GET" else None
        if document is None:
            raise errors.NotFound("the server could not find the requested resource")
        return orjson.loads(document.body)

    async def close(self) -> None:
        return None

    def _call(
        self,
        verb: Verb,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        *,
        subresource: str = "",
        options: Mapping[str, str] = _NO_OPTIONS,
        body: Any = None,
        patch: PatchType = "",
    ) -> Call:
        return Call(
            verb,
            resource.group,
            resource.version,
            resource.plural,
            self._user,
            namespace if resource.namespaced else "",
            name,
            subresource,
            options,
            body,
            patch,
        )

    async def _object(self, call: Call, resource: Resource) -> Object:
        reply = await self._api.call(call)
        record = reply.record
        return _in_version(record.object, resource) if record is not None else cast(Object, _decoded(reply))


def _in_version(obj: Object, resource: Resource) -> Object:
    """Records hold the storage version; versions that are stored differ in nothing else."""
    if obj.get("apiVersion") == resource.api_version:
        return obj
    return {**obj, "apiVersion": resource.api_version}


def _decoded(reply: Reply) -> Any:
    if reply.body is not None:
        return reply.body
    return orjson.loads(reply.text()) if reply.raw or reply.listing is not None else {}
