"""The client over HTTPS, for any Kubernetes API server.

Every request has a deadline. Nothing is retried but reads that the server answers with 429 and a time to wait: whoever
calls is a reconciler that comes back, or a person. A client that is unused or idle costs a small object and no timer,
so that one process can hold a client per workload cluster.
"""

from __future__ import annotations

import asyncio
import socket
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import aiohttp
import orjson
import yarl

from steelyard import __version__
from steelyard.kube import errors, objects
from steelyard.kube.client import discovery, failures, kubeconfig, tls
from steelyard.kube.client.interface import EventType, ObjectList, PatchKind, Propagation, WatchEvent
from steelyard.kube.client.kubeconfig import Connection, Kubeconfig
from steelyard.kube.client.requests import delete_options, selected
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

CONNECT_SECONDS: Final = 10.0
"""With the handshake, as Go's clients: a machine under load takes seconds for it."""
TOTAL_SECONDS: Final = 30.0
WATCH_SILENCE_SECONDS: Final = 300.0
"""Servers send a bookmark about once a minute; after a silence this long the watch is opened again."""
_CONNECTIONS: Final = 16
_IDLE_CONNECTION_SECONDS: Final = 30.0
_TOKEN_SECONDS: Final = 60.0
_TRIES: Final = 3
_LONGEST_WAIT: Final = 10.0

_REQUEST = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
WATCH = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=WATCH_SILENCE_SECONDS)

_PATCHES: Final[Mapping[PatchKind, str]] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_APPLY: Final = "application/apply-patch+yaml"
_JSON: Final = "application/json"

_Address = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class HttpClient:
    """Made inside or outside an event loop, used in one loop, closed there."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str = f"steelyard/{__version__}",
        field_manager: str = "",
        field_validation: str = "",
        max_answer_bytes: int = 0,
    ) -> None:
        """Without `field_manager` the server takes the program's name from the user agent; without `field_validation`
        (`Strict`, `Warn`, `Ignore`) it warns of fields that a kind does not have.
        `max_answer_bytes` is for a server that is not to be trusted: a longer answer, or event of a watch, fails.
        """
        self.connection = connection
        self._max_answer_bytes = max_answer_bytes
        self._user_agent = user_agent
        wishes = (("fieldManager", field_manager), ("fieldValidation", field_validation))
        self._writing = {key: value for key, value in wishes if value}
        self._ssl = tls.context_of(connection) if connection.server.startswith("https:") else None
        self._session: aiohttp.ClientSession | None = None
        self._slots: asyncio.Semaphore | None = None
        self._token = connection.token
        self._token_until = 0.0

    @classmethod
    def from_kubeconfig(
        cls,
        source: str | bytes | Object | Path | Kubeconfig,
        *,
        context: str = "",
        user_agent: str = f"steelyard/{__version__}",
        field_manager: str = "",
    ) -> HttpClient:
        """From a file; a text, which may name no files; or what was read already. Raises InvalidKubeconfig."""
        if isinstance(source, Kubeconfig):
            config = source
        else:
            config = kubeconfig.load(source) if isinstance(source, Path) else kubeconfig.parse(source)
        return cls(config.resolve(context), user_agent=user_agent, field_manager=field_manager)

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return await self._call("GET", _path(resource, namespace, name))

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
        query = selected(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        if continue_token:
            query["continue"] = continue_token
        answer = await self._call("GET", _path(resource, namespace), query)
        items = cast("list[Object]", answer.get("items") or [])
        for item in items:
            # Upstream leaves these out of the items of built-in kinds.
            item.setdefault("apiVersion", resource.api_version)
            item.setdefault("kind", resource.kind)
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
        query = selected(label_selector, field_selector)
        query |= {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                response = await self._send("GET", _path(resource, namespace), query, timeout=WATCH)
                if response.status != 200:
                    async with response:
                        raise _error(self.connection.server, response, await self._content(response))
        except failures.EXPECTED as failure:
            raise failures.of(failure, self.connection.server) from failure
        if opened is not None:
            opened()
        async with response:
            try:
                rest = b""
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    self._check_size(len(rest))
                    for line in lines:
                        if line:
                            yield _event(self.connection.server, line)
            except aiohttp.SocketTimeoutError:
                return
            except failures.EXPECTED as failure:
                raise failures.of(failure, self.connection.server) from failure

    async def create(self, resource: Resource, obj: Object, *, dry_run: bool = False) -> Object:
        path = _path(resource, objects.namespace(obj))
        return await self._call("POST", path, self._written(dry_run), body=obj)

    async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
        path = _path(resource, objects.namespace(obj), objects.name(obj), subresource)
        return await self._call("PUT", path, self._written(), body=obj)

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
        path = _path(resource, namespace, name, subresource)
        return await self._call("PATCH", path, self._written(), body=patch, content_type=_PATCHES[kind])

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
        path = _path(resource, objects.namespace(obj), objects.name(obj), subresource)
        query = self._written(dry_run) | {"fieldManager": field_manager, "force": "true" if force else "false"}
        return await self._call("PATCH", path, query, body=obj, content_type=_APPLY)

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
        return await self._call("DELETE", _path(resource, namespace, name), body=body)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> None:
        await self._call("DELETE", _path(resource, namespace), selected(label_selector, field_selector))

    async def discover(self) -> Sequence[Resource]:
        async def fetch(path: str, accept: str) -> Any:
            return await self._call("GET", path, accept=accept)

        return await discovery.discover(fetch)

    async def request(self, method: str, path: str, *, body: Object | None = None, accept: str = _JSON) -> Any:
        return await self._call(method, path, body=body, accept=accept)

    async def download(self, path: str, file: BinaryIO, query: Mapping[str, str] | None = None) -> None:
        """Writes what the server sends into the file, in as much time as it takes while it keeps coming."""
        server = self.connection.server
        try:
            async with await self._send("GET", path, query, accept="*/*", timeout=WATCH) as response:
                if response.status != 200:
                    raise _error(server, response, await response.read())
                async for chunk in response.content.iter_any():
                    file.write(chunk)
        except failures.EXPECTED as failure:
            raise failures.of(failure, server) from failure

    async def close(self) -> None:
        """Requests under way fail. The client can be used again afterwards, with new connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _written(self, dry_run: bool = False) -> dict[str, str]:
        return {**self._writing, "dryRun": "All"} if dry_run else dict(self._writing)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> Any:
        data = None if body is None else orjson.dumps(body)
        if self._slots is None:
            self._slots = asyncio.Semaphore(_CONNECTIONS)
        server = self.connection.server
        for attempt in range(1, _TRIES + 1):
            try:
                async with asyncio.timeout(TOTAL_SECONDS), self._slots:
                    response = await self._send(
                        method, path, query, data=data, content_type=content_type, accept=accept, timeout=_REQUEST
                    )
                    async with response:
                        content = await self._content(response)
            except failures.EXPECTED as failure:
                raise failures.of(failure, server) from failure
            if response.status < 300:
                return _decoded(server, response, content)
            error = _error(server, response, content)
            may_try_again = method == "GET" and isinstance(error, errors.TooManyRequests) and error.retry_after
            if not may_try_again or attempt == _TRIES:
                raise error
            await asyncio.sleep(min(error.retry_after, _LONGEST_WAIT))
        raise AssertionError("the last attempt returns or raises")

    async def _content(self, response: aiohttp.ClientResponse) -> bytes:
        if not self._max_answer_bytes:
            return await response.read()
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            self._check_size(len(content))
        return bytes(content)

    def _check_size(self, size: int) -> None:
        if self._max_answer_bytes and size > self._max_answer_bytes:
            raise errors.ServiceUnavailable(
                f"{self.connection.server} answered with more than {self._max_answer_bytes} bytes, which were not read"
            )

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
    ) -> aiohttp.ClientResponse:
        session = self._session or self._open()
        headers = {"Accept": accept}
        if self._max_answer_bytes:
            headers["Accept-Encoding"] = "identity"
        if data is not None:
            headers["Content-Type"] = content_type
        token = self._current_token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        target = self.connection.server + path
        if query:
            target += ("&" if "?" in path else "?") + urllib.parse.urlencode(query)
        return await session.request(
            method,
            yarl.URL(target, encoded=True),
            data=data,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self.connection.tls_server_name or None,
            proxy=self.connection.proxy_url or None,
        )

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # watches hold connections for hours; other requests are counted by the semaphore
            ssl=self._ssl if self._ssl is not None else True,
            keepalive_timeout=_IDLE_CONNECTION_SECONDS,
            socket_factory=_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self._user_agent},
            timeout=_REQUEST,
            auto_decompress=not self._max_answer_bytes,
        )
        return self._session

    def _current_token(self) -> str:
        path = self.connection.token_file
        if path and time.monotonic() >= self._token_until:
            try:
                self._token = Path(path).read_text(encoding="utf-8").strip()
            except OSError as error:
                raise errors.Unauthorized(f"cannot read the token file {path}: {error.strerror}") from error
            self._token_until = time.monotonic() + _TOKEN_SECONDS
        return self._token


def _path(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    return resource.path(urllib.parse.quote(namespace, safe=""), urllib.parse.quote(name, safe=""), subresource)


def _socket(address: _Address) -> socket.socket:
    """A peer that vanishes without a word is noticed by the kernel within a minute, without a timer of ours."""
    made = socket.socket(*address[:3])
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made


def _decoded(server: str, response: aiohttp.ClientResponse, content: bytes) -> Any:
    if not content:
        return {}
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        if response.content_type.startswith("text/"):
            return content.decode(errors="replace")
        raise failures.no_answer(server, response.status, content) from error


def _error(server: str, response: aiohttp.ClientResponse, content: bytes) -> errors.ApiError:
    try:
        status = objects.mapping(orjson.loads(content))
    except orjson.JSONDecodeError:
        status = {}
    if status.get("kind") != "Status":
        error = failures.no_answer(server, response.status, content)
    else:
        error = errors.from_status(status, response.status)
    after = response.headers.get("Retry-After", "")
    if not error.retry_after and after.isdecimal():
        error.retry_after = int(after)
    return error


def _event(server: str, line: bytes) -> WatchEvent:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise failures.no_answer(server, 200, line) from error
    if event["type"] == "ERROR":
        raise errors.from_status(event["object"])
    return WatchEvent(cast(EventType, event["type"]), event["object"])
