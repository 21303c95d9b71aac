"""One HTTP connection: uvicorn's httptools protocol, cut to what many small servers in one process need.

- The client's certificate is turned into a user once per connection, not once per request.
- No keep-alive timer: controllers and kubectl keep idle connections for hours, and hundreds of listeners with a timer
  per connection would wake the process for nothing. TCP keep-alive lets the kernel find peers that are gone.
- No Date header and so no ticking clock; no thread and no timer per listener.
- A whole answer goes out with one write: two would be two TLS records and two system calls, half the time of a request.
- Bytes are read into one buffer per listener. Otherwise uvloop asks for 256 KB per TLS read, which the allocator maps
  and unmaps each time: three more system calls for every request.
- A request that streams (a watch) is told through `on_end` when the client has gone or the server stops, instead of
  keeping a second task waiting for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from steelyard.kube import errors
from steelyard.kube.server.authn import Authenticator
from steelyard.kube.server.call import User

CONNECTION: Final = "connection"
CYCLE: Final = "cycle"
"""Where in the ASGI scope's state the `Connection` and the request's cycle are found."""
_BUFFER_BYTES: Final = 64 * 1024
_TCP_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


class _NoApplication:
    """Stands in the shared configuration for the application that each connection brings itself."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("every connection sets its own application")


def _config() -> Config:
    config = Config(
        _NoApplication(),
        interface="asgi3",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        proxy_headers=False,
    )
    config.load()
    return config


_CONFIG: Final = _config()


class Connection(HttpToolsProtocol):
    def __init__(self, app: Any, state: ServerState, authenticator: Authenticator) -> None:
        super().__init__(_CONFIG, state, {CONNECTION: self})
        self.app = app
        self.access_log = False
        self._authenticator = authenticator
        self._user: User | errors.Unauthorized | None = None
        self.on_end: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _keep_alive(transport.get_extra_info("socket"))
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        if certificate:
            try:
                self._user = self._authenticator.certificate(certificate)
            except errors.Unauthorized as error:
                self._user = error

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.end_stream()

    def certificate_user(self) -> User | None:
        """The user of the client's certificate, None if it showed none. Raises Unauthorized."""
        if isinstance(self._user, errors.Unauthorized):
            raise self._user
        return self._user

    def end_stream(self) -> None:
        if self.on_end is not None:
            self.on_end()

    def abort(self) -> None:
        # Some releases of Python 3.11 let go of a TLS transport's inside on close, and cannot abort it after that.
        with contextlib.suppress(AttributeError):
            self.transport.abort()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.scope["state"][CYCLE] = cycle  # type: ignore[typeddict-item]
        super()._start_asgi_task(cycle, app)

    async def respond(
        self, cycle: RequestResponseCycle, code: int, headers: list[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """The whole answer to a request, in place of the two messages that ASGI needs for it."""
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        parts = [STATUS_LINE[code]]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        if cycle.scope["method"] != "HEAD":
            parts.append(body)
        self.transport.write(b"".join(parts))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def _unsupported_upgrade_warning(self) -> None:
        """The answer to an upgrade (exec, port-forward) says that there is none; a line in the log adds nothing."""


class Buffered(asyncio.BufferedProtocol):
    """Reads for a connection into a buffer that all connections of a listener share: it is empty again before the event
    loop turns to the next one.
    """

    def __init__(self, connection: Connection, buffer: memoryview) -> None:
        self._connection = connection
        self._buffer = buffer
        self.pause_writing = connection.pause_writing
        self.resume_writing = connection.resume_writing
        self.connection_lost = connection.connection_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(cast(asyncio.Transport, transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.data_received(bytes(self._buffer[:nbytes]))


def read_buffer() -> memoryview:
    return memoryview(bytearray(_BUFFER_BYTES))


def _keep_alive(connection: socket.socket | None) -> None:
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
