"""The way into an API server that this very process hosts, for holders of its kubeconfig: the same without the wire.

Over the wire each side shows the other a certificate, everything is encrypted, sent to oneself and decrypted; of
bringing up a simulated cluster that was a sixth, and most of the memory that a connection takes. Here the same two
certificates are looked at: the kubeconfig must name the authority that the server has, and its client certificate must
be of that authority, made for clients, and valid. What the server makes of that certificate is whom it sees, and what
that user may do is asked of it with every call. Where any of it is not so, where there is more to it (a token, a
proxy), and where no server is running, the wire is taken, with all that it checks and says.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from steelyard.kube import errors, objects, pki
from steelyard.kube.client.interface import Client, ObjectList, PatchKind, Propagation, WatchEvent
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.server.api import Api

Connect: TypeAlias = Callable[[Connection], Awaitable[Client]]


class Server(Protocol):
    """One that is running."""

    @property
    def api(self) -> Api: ...

    @property
    def authority(self) -> bytes:
        """Whose certificates it shows and believes, as PEM."""
        ...


class Host(Protocol):
    """What is needed of `kube.server.hosting.Hosting`."""

    def owns(self, host: str, port: int) -> bool:
        """Whether one of its servers listens there, or will."""
        ...

    def at(self, host: str, port: int) -> Server | None:
        """The one that does."""
        ...


def shortcut(hosts: Callable[[], Sequence[Host]], clock: Clock, wire: Connect) -> Connect:
    """Connects to servers of the hosts without the wire, and to all others with it."""

    async def connect(connection: Connection) -> Client:
        address = _address(connection.server)
        for host in hosts():
            if host.owns(*address) and _is_plain(connection):
                return HostedClient(connection, host, address, clock, wire)
        return await wire(connection)

    return connect


class HostedClient:
    def __init__(
        self, connection: Connection, host: Host, address: tuple[str, int], clock: Clock, wire: Connect
    ) -> None:
        self.connection = connection
        self._host = host
        self._address = address
        self._clock = clock
        self._wire = wire
        self._wired: Client | None = None
        self._known: tuple[Api, LocalClient, float] | None = None
        """The server, the client as whom it knows the certificate, and until when (Unix time)."""

    async def _client(self) -> Client:
        server = self._host.at(*self._address)
        if server is not None and (self._known is None or self._known[0] is not server.api):
            self._known = self._introduce(server)
        if server is not None and self._known is not None:
            _, client, expires = self._known
            if self._clock.now().timestamp() < expires:
                return client
        if self._wired is None:
            self._wired = await self._wire(self.connection)
        return self._wired

    def _introduce(self, server: Server) -> tuple[Api, LocalClient, float] | None:
        """None where the two do not believe each other."""
        if not _believe_each_other(self.connection, server, self._clock):
            return None
        try:
            user, expires = server.api.access.certificate(pki.der_of(self.connection.client_certificate))
        except errors.Unauthorized:
            return None
        return (server.api, LocalClient(server.api, user), expires) if user is not None else None

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await (await self._client()).get(resource, name, namespace)

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
        return await (await self._client()).list(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
        )

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
        """It ends with the server."""
        events = (await self._client()).watch(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            opened=opened,
        )
        async for event in events:
            yield event

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        # The server may keep parts of it, and the caller may go on changing it.
        return await (await self._client()).create(resource, objects.copy(obj), dry_run=dry_run)

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        return await (await self._client()).update(resource, objects.copy(obj), subresource=subresource)

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
        return await (await self._client()).patch(resource, name, patch, namespace, kind=kind, subresource=subresource)

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
        return await (await self._client()).apply(
            resource, obj, field_manager=field_manager, force=force, subresource=subresource, dry_run=dry_run
        )

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
        return await (await self._client()).delete(
            resource, name, namespace, propagation=propagation, uid=uid, resource_version=resource_version
        )

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        await (await self._client()).delete_collection(
            resource, namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def discover(self) -> Sequence[Resource]:
        return await (await self._client()).discover()

    async def request(
        self, method: str, path: str, *, body: Object | None = None, accept: str = "application/json"
    ) -> Any:
        return await (await self._client()).request(method, path, body=body, accept=accept)

    async def close(self) -> None:
        if self._wired is not None:
            await self._wired.close()


def _address(server: str) -> tuple[str, int]:
    """Host and port; port 0 where it has none of its own, at which nobody is."""
    try:
        parts = urllib.parse.urlsplit(server)
        return parts.hostname or "", (parts.port or 0) if parts.scheme == "https" else 0
    except ValueError:
        return "", 0


def _is_plain(connection: Connection) -> bool:
    return bool(connection.client_certificate) and not (
        connection.token
        or connection.token_file
        or connection.insecure_skip_tls_verify
        or connection.tls_server_name
        or connection.proxy_url
    )


def _believe_each_other(connection: Connection, server: Server, clock: Clock) -> bool:
    if connection.certificate_authority.strip() != server.authority.strip():
        return False
    pair = KeyPair(connection.client_certificate, connection.client_key)
    return pki.is_of_client(pair, server.authority, now=clock.now())
