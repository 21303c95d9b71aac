"""One HTTP connection, on httptools' parser: what many small servers in one process need, and no more.

- The client's certificate is turned into a user once per connection, not once per request.
- No keep-alive timer: controllers and kubectl keep idle connections for hours, and hundreds of listeners with a timer
  per connection would wake the process for nothing. TCP keep-alive lets the kernel find peers that are gone.
- No Date header and so no ticking clock; no thread and no timer per listener.
- Bytes are read into one buffer per listener. Otherwise uvloop asks for 256 KB per TLS read, which the allocator maps
  and unmaps each time: three more system calls for every request.
- Requests sent ahead are answered one after the other, and no more are read meanwhile.
- A request that streams (a watch) is told through `on_end` when the client has gone or the server stops, instead of
  keeping a second task waiting for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools

from steelyard.kube import errors
from steelyard.kube.server import authn, clientcerts
from steelyard.kube.server.authn import Authenticator
from steelyard.kube.server.call import User
from steelyard.kube.server.exchange import Exchange, Header

logger = logging.getLogger(__name__)

Serve = Callable[[Exchange], Awaitable[None]]

_BUFFER_BYTES: Final = 64 * 1024
_TCP_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
MAX_HEAD_BYTES: Final = 1024 * 1024
"""Of the line and headers of a request, as upstream."""
_PARTING_SECONDS: Final = 0.5
ARRIVAL_SECONDS: Final = 60.0
"""From the first byte of a request to its last. Only one that comes in pieces is timed."""


def _refusal(status: str) -> bytes:
    """The answer to something that is not even a request."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(status)}\r\n"
    return f"{head}connection: close\r\n\r\n{status}".encode()


_BAD_REQUEST: Final = _refusal("400 Bad Request")
_HEAD_TOO_LARGE: Final = _refusal("431 Request Header Fields Too Large")


@dataclass(slots=True)
class Traffic:
    """What goes on at one listener."""

    connections: set[Connection] = field(default_factory=lambda: set[Connection]())
    tasks: set[asyncio.Task[None]] = field(default_factory=lambda: set[asyncio.Task[None]]())


class Connection(asyncio.BufferedProtocol):
    def __init__(self, serve: Serve, traffic: Traffic, authenticator: Authenticator, buffer: memoryview) -> None:
        self._serve = serve
        self._traffic = traffic
        self._authenticator = authenticator
        self._buffer = buffer
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport = cast(asyncio.Transport, None)
        self._user: User | None = None
        self._expires = 0.0
        self.is_refused = False
        """The client has shown a certificate that is not to be believed."""
        self._url = b""
        self._headers: list[Header] = []
        self._expects_continue = False
        self._head_bytes = 0
        """Of a head that is not complete yet; counts what came with its pieces as well."""
        self._is_in_head = False
        self._is_partial = False
        """Part of a request has come, and more is to."""
        self._deadline: asyncio.TimerHandle | None = None
        self._receiving: Exchange | None = None
        """The one whose body is being read."""
        self._serving: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._drained: asyncio.Future[None] | None = None
        self.source = ""
        self.is_congested = False
        self.on_end: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._traffic.connections.add(self)
        peer: tuple[str, int] | None = transport.get_extra_info("peername")
        self.source = peer[0] if peer else ""
        _keep_alive(transport.get_extra_info("socket"))
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and (certificate := tls.getpeercert(binary_form=True)):
            self._identify(tls, certificate)

    def connection_lost(self, exc: Exception | None) -> None:
        self._traffic.connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        for exchange in (self._serving, self._receiving, *self._waiting):
            if exchange is not None:
                exchange.disconnect()
        self._waiting.clear()
        self.resume_writing()
        # The parser refers to its connection: without this only the garbage collector would end both.
        self._parser = None
        self.end_stream()

    def _identify(self, tls: ssl.SSLObject, certificate: bytes) -> None:
        try:
            if not clientcerts.is_trusted(tls):
                raise authn.unauthorized()
            self._user, self._expires = self._authenticator.certificate(certificate)
        except errors.Unauthorized:
            self.is_refused = True

    def certificate_user(self) -> User | None:
        """The user of the client's certificate; None if it showed none, or one that names nobody or `is_refused`."""
        if self._user is not None and time.time() > self._expires:
            self._user, self.is_refused = None, True
        return self._user

    def end_stream(self) -> None:
        if self.on_end is not None:
            self.on_end()

    def shutdown(self) -> None:
        """Closes now if nothing is under way, else after the answer."""
        if self._serving is None:
            self._transport.close()
        else:
            self._serving.keep_alive = False

    def abort(self) -> None:
        # Some releases of Python 3.11 let go of a TLS transport's inside on close, and cannot abort it after that.
        with contextlib.suppress(AttributeError):
            self._transport.abort()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_writing(self) -> None:
        self.is_congested = True

    def resume_writing(self) -> None:
        self.is_congested = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    async def drained(self) -> None:
        """Until the client has read, or gone."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._parser is None or self._transport.is_closing():
            return
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserUpgrade:
            # There is nothing to upgrade to (exec, port-forward); the request is answered, and its bytes end there.
            if self._receiving is not None:
                self._receiving.keep_alive = False
        except httptools.HttpParserError:
            self._refuse(_BAD_REQUEST)
            return
        if self._is_partial or self._deadline is not None:
            self._wait_for_rest(nbytes)
        if self._waiting:
            if self._serving is None:
                self._start(self._waiting.popleft())
            if self._waiting:
                self._transport.pause_reading()

    def _refuse(self, answer: bytes) -> None:
        """What the client still sends is read and dropped for a moment: closing at once could take the answer back."""
        self._transport.write(answer)
        self._parser = None
        asyncio.get_running_loop().call_later(_PARTING_SECONDS, self._transport.close)

    def _wait_for_rest(self, nbytes: int) -> None:
        """A head may not grow without end, and nobody may take forever to send a request."""
        if self._is_in_head:
            self._head_bytes += nbytes
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(_HEAD_TOO_LARGE)
                return
        if not self._is_partial:
            assert self._deadline is not None
            self._deadline.cancel()
            self._deadline = None
        elif self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(ARRIVAL_SECONDS, self.abort)

    def on_message_begin(self) -> None:
        self._is_partial = self._is_in_head = True
        self._head_bytes = 0
        self._url = b""
        self._headers = []
        self._expects_continue = False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        self._is_in_head = False
        path, query = _split(self._url)
        exchange = Exchange(
            self,
            parser.get_method().decode("ascii"),
            path,
            query,
            self._headers,
            keep_alive=parser.should_keep_alive() and parser.get_http_version() != "1.0",
        )
        exchange.expects_continue = self._expects_continue
        self._receiving = exchange
        self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        assert self._receiving is not None
        self._receiving.received(body)

    def on_message_complete(self) -> None:
        self._is_partial = False
        assert self._receiving is not None
        self._receiving.complete()

    def _start(self, exchange: Exchange) -> None:
        self._serving = exchange
        self._traffic.tasks.add(asyncio.get_running_loop().create_task(self._answer(exchange)))

    async def _answer(self, exchange: Exchange) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            await self._serve(exchange)
        except Exception:
            # The application answers its own errors; what gets here ends one connection, not the server.
            logger.exception("request failed", extra={"method": exchange.method, "path": exchange.path})
        finally:
            self._traffic.tasks.discard(task)
            if not exchange.is_answered and not exchange.is_gone:
                self._transport.close()

    def finished(self, exchange: Exchange) -> None:
        """The exchange has been answered; the next one's turn."""
        self._serving = None
        if not exchange.keep_alive:
            self._transport.close()
        elif self._waiting:
            self._start(self._waiting.popleft())
            if not self._waiting:
                self._transport.resume_reading()


def _split(url: bytes) -> tuple[str, bytes]:
    """Path and query of a request's target. What is no URL raises, which the parser reports as bad HTTP."""
    if url[:1] == b"/" and b"#" not in url:
        raw, _, query = url.partition(b"?")
    else:
        parsed = httptools.parse_url(url)
        raw, query = parsed.path or b"", parsed.query or b""
    path = raw.decode("ascii")
    return (unquote(path) if "%" in path else path), query


def read_buffer() -> memoryview:
    """Shared by all connections of a listener: it is empty again before the event loop turns to the next one."""
    return memoryview(bytearray(_BUFFER_BYTES))


def _keep_alive(connection: socket.socket | None) -> None:
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
