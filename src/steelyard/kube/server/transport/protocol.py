"""One HTTP connection, on httptools' parser: what many small servers in one process need, and no more.

- The client's certificate is turned into a user once per connection, not once per request.
- No timer of its own: the door looks after all connections of the process, and closes those that are silent or idle for
  too long. TCP keep-alive lets the kernel find the peers of watches that are gone.
- No Date header and so no ticking clock; no thread and no timer per listener.
- Bytes are read into one buffer per listener. Otherwise uvloop asks for 256 KB per TLS read, which the allocator maps
  and unmaps each time: three more system calls for every request.
- A head is bounded in bytes and fields before anything is made of it.
- The time that each request is at work on the event loop is counted, and charged to whoever sent it.
- Requests sent ahead are answered one after the other, and no more are read meanwhile.
- A request that streams (a watch) is told through `on_end` when the client has gone or the server stops, instead of
  keeping a second task waiting for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools

from steelyard.kube import errors
from steelyard.kube.server.call import User
from steelyard.kube.server.fairness import budgets, metering
from steelyard.kube.server.fairness.shares import Flow
from steelyard.kube.server.rights import authn
from steelyard.kube.server.rights.authn import Authenticator
from steelyard.kube.server.transport import clientcerts, transports
from steelyard.kube.server.transport.door import Door, Patience
from steelyard.kube.server.transport.exchange import Exchange, Header
from steelyard.kube.server.transport.intake import Intake
from steelyard.kube.server.transport.parting import Parting

logger = logging.getLogger(__name__)

Serve = Callable[[Exchange], Coroutine[Any, Any, None]]

_BUFFER_BYTES: Final = 64 * 1024
_TUNNEL_BYTES: Final = 16 * 1024
"""Of another protocol, as much again is read before the client is held back."""
_UNREAD_BYTES: Final = 1024
"""Encrypted, besides what the socket has: with more, nothing is written before the client has read. A TLS transport
would take half a megabyte.
"""


def _refusal(status: str) -> bytes:
    """The answer to something that is not even a request."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {len(status)}\r\n"
    return f"{head}connection: close\r\n\r\n{status}".encode()


_BAD_REQUEST: Final = _refusal("400 Bad Request")
_HEAD_TOO_LARGE: Final = _refusal("431 Request Header Fields Too Large")
_TARGET_TOO_LONG: Final = _refusal("414 URI Too Long")


@dataclass(slots=True)
class Traffic:
    """What goes on at one listener, and what it shares with others."""

    door: Door
    intake: Intake
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
        self._is_rest_expected = False
        """The door has been told so."""
        self._refused_with = b""
        self.intake = traffic.intake
        self.since = 0
        self.is_new = True
        """No request has come yet."""
        self._flow: Flow | None = None
        self._kept = 0
        """Bytes that the answer that is being written keeps in memory, if it is long."""
        self.held = 0
        """The same and what the transport has of it."""
        self.is_complete = False
        self._receiving: Exchange | None = None
        """The one whose body is being read."""
        self._serving: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._drained: asyncio.Future[None] | None = None
        self.source = ""
        self.is_congested = False
        self.on_end: Callable[[], None] | None = None
        self._early: bytearray | None = None
        """What comes after a request to go over to another protocol, until that is answered."""
        self._tunnel: asyncio.StreamReader | None = None
        """Where everything goes that comes after it."""
        self._parting: Parting | None = None
        """The last answer has been given."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_UNREAD_BYTES)
        self._traffic.connections.add(self)
        self._traffic.door.enter(self)
        peer: tuple[str, int] | None = transport.get_extra_info("peername")
        self.source = peer[0] if peer else ""
        transports.keep_alive(transport.get_extra_info("socket"))
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and (certificate := tls.getpeercert(binary_form=True)):
            self._identify(tls, certificate)

    def connection_lost(self, exc: Exception | None) -> None:
        self._traffic.connections.discard(self)
        self._traffic.door.leave(self)
        for exchange in (self._serving, self._receiving, *self._waiting):
            if exchange is not None:
                exchange.disconnect()
        self._waiting.clear()
        self._kept = 0
        self.resume_writing()
        self._end_tunnel()
        self.end_stream()
        if self._parting is not None:
            self._parting.end()
        # Parser, exchange and transport refer to their connection: without this only the garbage collector would end
        # them, and a transport has buffers as large as what has come through it.
        self._parser = self._receiving = None
        self._transport = transports.GONE
        self.intake.left()

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

    def _wait(self) -> None:
        """It is the client's turn."""
        self._traffic.door.expect(self)

    @property
    def owner(self) -> Flow | None:
        flow = self._serving.flow if self._serving is not None else self._flow
        return flow if flow is not None and not flow.is_unbounded else None

    @property
    def flow(self) -> Flow | None:
        return self.owner

    def give_up(self) -> None:
        """Too much is held for clients that do not read."""
        self._count(0)
        self.abort()

    def keep(self, size: int) -> None:
        """The answer that is being written takes so much memory until it is read."""
        self._kept = size
        self._count(size)

    def _count(self, size: int) -> None:
        """Tells the intake how much this connection holds; what administrators ask for is not counted, nor what is made
        for a client that has gone: nobody would come to give it back."""
        if self.owner is None or self._transport is transports.GONE:
            size = 0
        more, self.held = size - self.held, size
        if more > 0:
            self.intake.hold(self, more)
        elif more:
            self.intake.release(self, -more)

    @property
    def is_at_work(self) -> bool:
        return self._serving is not None and not self._is_partial and not self.is_congested

    def seconds_left(self, patience: Patience, waited: float) -> float:
        if self._is_partial and not self._is_in_head:
            return patience.body - waited
        if self.is_congested:
            return patience.body - waited
        if self._is_partial or self.is_new:
            return patience.head - waited
        return patience.idle - waited

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

    def write(self, data: bytes | memoryview) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._wait()
        self._count(self._kept + self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.is_congested = False
        self._count(self._kept)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self._start_next()

    async def drained(self) -> None:
        """Until the client has read, or gone."""
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def hand_over(self) -> asyncio.StreamReader:
        """From now on what comes is no HTTP: it goes to the reader, which holds the client back if need be."""
        self._parser = None
        self._tunnel = asyncio.StreamReader(limit=_TUNNEL_BYTES)
        self._tunnel.set_transport(self._transport)
        self._transport.resume_reading()
        self.on_end = self._end_tunnel
        if self._early:
            self._tunnel.feed_data(bytes(self._early))
        self._early = None
        return self._tunnel

    def _end_tunnel(self) -> None:
        tunnel, self._tunnel = self._tunnel, None
        if tunnel is not None:
            tunnel.feed_eof()

    def buffer_updated(self, nbytes: int) -> None:
        if self._tunnel is not None:
            self._tunnel.feed_data(bytes(self._buffer[:nbytes]))
            return
        if self._early is not None:
            self._keep_early(bytes(self._buffer[:nbytes]))
            return
        if self._parting is not None:
            self._parting.received(nbytes)
            return
        if self._parser is None or self._transport.is_closing():
            return
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserUpgrade as upgrade:
            # Where there is nothing to upgrade to, the request is answered, and its bytes end there.
            if self._receiving is not None:
                self._receiving.keep_alive = False
            self._early = bytearray()
            self._keep_early(bytes(self._buffer[int(upgrade.args[0]) : nbytes]))
        except httptools.HttpParserError:
            self._refuse(self._refused_with or _BAD_REQUEST)
            return
        if self._is_partial and not self._is_rest_expected:
            self._is_rest_expected = True
            self._wait()
        if self._is_in_head:
            self._head_bytes += nbytes
            if too_much := self._excess():
                self._refuse(too_much)
                return
        if self._waiting:
            self._start_next()
            if self._waiting:
                self._transport.pause_reading()

    def _keep_early(self, data: bytes) -> None:
        assert self._early is not None
        self._early += data
        if len(self._early) > _BUFFER_BYTES:
            self._transport.pause_reading()

    def _refuse(self, answer: bytes) -> None:
        self._transport.write(answer)
        self._part()

    def _part(self) -> None:
        """Nothing more is answered, and what comes is dropped until the client has read what was."""
        for exchange in self._waiting:
            exchange.disconnect()
        self._waiting.clear()
        self._parser = self._early = None
        if not self._transport.is_closing():
            self._parting = Parting(self._transport)

    def _excess(self) -> bytes:
        """What to answer to a head that is too large, complete or not."""
        if len(self._url) > budgets.MAX_TARGET_BYTES:
            return _TARGET_TOO_LONG
        if self._head_bytes > budgets.MAX_HEAD_BYTES or len(self._headers) > budgets.MAX_HEADER_FIELDS:
            return _HEAD_TOO_LARGE
        return b""

    def on_message_begin(self) -> None:
        self._is_partial = self._is_in_head = True
        self.is_new = self._is_rest_expected = False
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
        if too_much := self._excess():
            self._refused_with = too_much
            raise ValueError("the head is too large")
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
        exchange.knows_chunks = parser.get_http_version() != "1.0"
        self._receiving = exchange
        self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        assert self._receiving is not None
        self._receiving.received(body)

    def on_message_complete(self) -> None:
        self._is_partial = False
        assert self._receiving is not None
        self._receiving.complete()

    def _start_next(self) -> None:
        """Nothing is begun for a client that has not read the answer before."""
        if not self._waiting or self._serving is not None or self.is_congested or self._transport.is_closing():
            return
        exchange = self._serving = self._waiting.popleft()
        if not self._waiting:
            self._transport.resume_reading()
        self._traffic.tasks.add(asyncio.get_running_loop().create_task(self._answer(exchange)))

    async def _answer(self, exchange: Exchange) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        try:
            await metering.metered(self._serve(exchange), exchange)
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
        self._flow = exchange.flow
        if self._kept or self.held:
            self.keep(0)
        self._wait()
        if not exchange.keep_alive and (self._early is not None or not exchange.is_complete):
            self._part()
        elif not exchange.keep_alive:
            self._transport.close()
        elif self._waiting:
            self._start_next()


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
