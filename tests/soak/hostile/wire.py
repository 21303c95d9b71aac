"""One connection of a client that prepares its bytes ahead: cheap, so that what is measured is the server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import httptools

from tests.soak.hostile.field import Identity

_KEPT: Final = 256 * 1024
CONNECT_SECONDS: Final = 60.0


class Ended(Exception):
    """The server ended the connection, or it could not be made, where an answer was due."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    """Its beginning."""


class Line(asyncio.Protocol):
    """Ask one thing at a time. `on_data` sees each piece of an answer's body as it comes, as a watch needs it."""

    def __init__(self, on_data: Callable[[bytes], None] | None, keeping: int) -> None:
        self._on_data = on_data
        self._keeping = keeping
        self._parser: Any = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._body = bytearray()
        self.is_closed = False
        self.asked = 0

    @staticmethod
    async def open(who: Identity, on_data: Callable[[bytes], None] | None = None, *, keeping: int = _KEPT) -> Line:
        """Raises Ended. `keeping` is how much of each answer's body is kept."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, made = await loop.create_connection(
                    lambda: Line(on_data, keeping), who.host, who.port, ssl=who.tls()
                )
        except (OSError, TimeoutError) as error:
            raise Ended(f"no connection: {error!r}") from error
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Ended(f"not HTTP: {error!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._fail(Ended(f"the server ended the connection ({exc!r})"))

    def _fail(self, error: Ended) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    def on_message_begin(self) -> None:
        self._body.clear()

    def on_body(self, body: bytes) -> None:
        if self._on_data is not None:
            self._on_data(body)
        elif len(self._body) < self._keeping:
            self._body += body

    def on_message_complete(self) -> None:
        code = int(self._parser.get_status_code())
        if code >= 200 and self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(code, bytes(self._body)))

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self.is_closed:
            self._transport.write(data)

    async def ask(self, data: bytes) -> Answer:
        """Raises Ended."""
        if self.is_closed:
            raise Ended("the server had ended the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self.asked += 1
        self.send(data)
        return await self._answer

    def stop_reading(self) -> None:
        """From here on the server's bytes stay in the kernel, and soon with the server."""
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            # Some releases of Python 3.11 let go of a TLS transport's inside on close, and cannot abort it after that.
            with contextlib.suppress(AttributeError):
                self._transport.abort()


class Silence:
    """A TCP connection on which nothing is said but what is given."""

    def __init__(self, who: Identity, said: bytes = b"") -> None:
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._address = (who.host, who.port)
        self._said = said

    async def open(self) -> None:
        """Raises Ended."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(self._socket, self._address)
            if self._said:
                await loop.sock_sendall(self._socket, self._said)
        except OSError as error:
            raise Ended(repr(error)) from error

    def close(self) -> None:
        self._socket.close()
