"""One request over HTTP and its answer, as the application sees them.

The head is always there. A body that came with it is there as well and costs no waiting; a larger one is waited for,
up to the limit, and counts among the bodies that the process holds until it is answered. The answer goes out whole
(`respond`), in pieces (`begin`, `send`, `end`), or as it is made (`stream`); others get a turn between the slices of a
long one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from steelyard.kube import turns
from steelyard.kube.server.fairness import budgets, rotation
from steelyard.kube.server.fairness.shares import Flow
from steelyard.kube.server.transport import intake

if TYPE_CHECKING:
    from steelyard.kube.server.transport.protocol import Connection

Header = tuple[bytes, bytes]
Piece = bytes | memoryview

_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_WORTH_JOINING: Final = 64 * 1024
_SLICE_BYTES: Final = 8 * 1024
"""Half a record of TLS: what is encrypted for a client that does not read is in memory for that client alone."""
"""Up to here head and body go out with one write: two would be two TLS records and two system calls. What is larger
goes out in slices of this size.
"""


class Disconnected(Exception):
    """The client has gone; nobody waits for an answer."""


class Exchange:
    __slots__ = (
        "_arrival", "_body", "_chunked", "_is_given_up", "_overflowed", "_parts", "_pieces", "connection",
        "expects_continue", "flow", "headers", "held", "is_answered", "is_complete", "is_gone", "keep_alive",
        "knows_chunks", "method", "path", "query",
    )  # fmt: skip

    def __init__(
        self, connection: Connection, method: str, path: str, query: bytes, headers: list[Header], *, keep_alive: bool
    ) -> None:
        self.connection = connection
        self.method = method
        self.path = path
        """Without percent signs."""
        self.query = query
        self.headers = headers
        """Names in lower case."""
        self.keep_alive = keep_alive
        self.expects_continue = False
        self.knows_chunks = True
        """HTTP 1.0 does not: what has no length ends there with the connection."""
        self.is_answered = False
        self.is_gone = False
        self.flow: Flow | None = None
        """Whose it is, once that is known."""
        self._body = b""
        self._parts: bytearray | None = None
        """Of a body that comes in several; added to without being copied each time."""
        self._pieces = 0
        self.held = 0
        """Bytes that count among those of all bodies."""
        self.is_complete = False
        self._overflowed = False
        self._is_given_up = False
        self._arrival: asyncio.Future[None] | None = None
        self._chunked = False

    async def body(self) -> bytes:
        """All of it. Raises TooLarge as soon as that is known, Overloaded if too much is held, and Disconnected."""
        if not self.is_complete and not self._is_dropped and not self.is_gone:
            if self.expects_continue:
                self.connection.write(_CONTINUE)
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        if self.is_gone:
            raise Disconnected
        if self._overflowed:
            raise budgets.too_large()
        if self._is_given_up:
            raise rotation.too_many()
        if self._parts is not None:
            self._body, self._parts = bytes(self._parts), None
        return self._body

    @property
    def _is_dropped(self) -> bool:
        return self._overflowed or self._is_given_up

    async def respond(self, code: int, headers: Sequence[Header], body: bytes) -> None:
        """The whole answer. A client that has gone is no error."""
        head = self._head(code, headers)
        if self.method == "HEAD":
            body = b""
        connection = self.connection
        if connection.is_congested:
            await self._is_writable()
        if self.is_gone:
            return
        if len(body) <= _WORTH_JOINING:
            connection.write(head + body)
        else:
            connection.keep(len(body))
            connection.write(head)
            await self._write(body)
        self._finish()

    async def begin(self, code: int, headers: Sequence[Header]) -> None:
        """The head of an answer whose body follows with `send`; in chunks, unless a header says how long it is."""
        self._chunked = self.knows_chunks and all(name != b"content-length" for name, _ in headers)
        if self._chunked:
            headers = (*headers, (b"transfer-encoding", b"chunked"))
        if await self._is_writable():
            self.connection.write(self._head(code, headers))

    async def stream(
        self, code: int, headers: Sequence[Header], slices: AsyncGenerator[Sequence[Piece]], held: int
    ) -> None:
        """An answer that is made while it goes out: nothing of it before the client has read what came before.

        `held` is what it takes in memory meanwhile. What fails cuts the connection, which alone tells the client that
        the answer is not whole.
        """
        self.connection.keep(held)
        try:
            await self.begin(code, headers)
            while self.method != "HEAD" and await self._is_writable():
                pieces = await anext(slices, None)
                if pieces is None:
                    break
                await self.send_pieces(pieces, sum(map(len, pieces)))
            await self.end()
        except Exception:
            self.connection.abort()
            raise
        finally:
            await slices.aclose()

    async def send(self, data: bytes) -> None:
        """Waits while the client reads more slowly than this is called."""
        await self.send_pieces((data,), len(data))

    async def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        """The same for data that need not be put together first: `size` bytes in all."""
        if not size or self.method == "HEAD":
            return
        if self.connection.is_congested:
            await self._is_writable()
        if self.is_gone:
            return
        if size <= _WORTH_JOINING:
            data = b"".join(pieces)
            self.connection.write(b"%x\r\n%b\r\n" % (size, data) if self._chunked else data)
            return
        if self._chunked:
            self.connection.write(b"%x\r\n" % size)
        for piece in pieces:
            await self._write(piece)
        if self._chunked and not self.is_gone:
            self.connection.write(b"\r\n")

    async def _write(self, data: Piece) -> None:
        """In slices, so that no more than one waits in memory for a client that does not read, and with others."""
        whole = memoryview(data)
        for start in range(0, len(data), _SLICE_BYTES):
            if not await self._is_writable():
                return
            await turns.take(_SLICE_BYTES, self.flow)
            self.connection.write(whole[start : start + _SLICE_BYTES])

    async def end(self) -> None:
        if await self._is_writable():
            if self._chunked and self.method != "HEAD":
                self.connection.write(b"0\r\n\r\n")
            self._finish()

    async def upgrade(self, headers: Sequence[Header]) -> asyncio.StreamReader:
        """Goes over to another protocol: what the client says in it comes from the reader, what it is told goes out
        with `say`, until `close`. Raises Disconnected."""
        if not await self._is_writable():
            raise Disconnected
        parts = [_STATUS_LINES[HTTPStatus.SWITCHING_PROTOCOLS]]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        self.connection.write(b"".join((*parts, b"\r\n")))
        return self.connection.hand_over()

    async def say(self, data: bytes) -> None:
        """After `upgrade`; waits for a client that reads slowly. One that has gone is no error."""
        if await self._is_writable():
            self.connection.write(data)

    def close(self) -> None:
        """Ends the connection after `upgrade`."""
        self.keep_alive = False
        if not self.is_gone:
            self._finish()

    def received(self, data: bytes) -> None:
        """Part of the body; what exceeds the limit, or follows an answer, is dropped."""
        if self.is_answered or self._is_dropped:
            return
        if self._parts is not None:
            self._parts += data
        elif self._body:
            self._parts = bytearray(self._body)
            self._parts += data
            self._body = b""
        else:
            self._body = data
            return
        self._pieces += 1
        size = len(self._parts)
        if size > budgets.MAX_BODY_BYTES:
            self._overflowed = True
            self._drop()
        elif self._pieces > budgets.MAX_PIECES and size < self._pieces * budgets.PIECE_BYTES:
            # Each piece is work of its own, and nobody sends thousands of such pieces in earnest.
            self.give_up()
        elif size > intake.FREE_BYTES and size - self.held >= intake.FREE_BYTES:
            more = size - self.held
            self.held = size
            self.connection.intake.hold(self, more)

    def give_up(self) -> None:
        """Too much is held, and this has been on its way for too long."""
        self._is_given_up = True
        self.keep_alive = False
        self._drop()

    def _drop(self) -> None:
        self._body, self._parts = b"", None
        self._release()
        self._wake()

    def _release(self) -> None:
        held, self.held = self.held, 0
        if held:
            self.connection.intake.release(self, held)

    def complete(self) -> None:
        self.is_complete = True
        if self._arrival is not None:
            self._wake()

    def disconnect(self) -> None:
        self.is_gone = True
        self._body, self._parts = b"", None
        self._release()
        self._wake()

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def _is_writable(self) -> bool:
        if self.connection.is_congested and not self.is_gone:
            await self.connection.drained()
        return not self.is_gone

    def _head(self, code: int, headers: Sequence[Header]) -> bytes:
        parts = [_STATUS_LINES[code]]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        parts.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(parts)

    def _finish(self) -> None:
        self.is_answered = True
        # The connection knows its last request for as long as it lasts.
        self._body, self._parts = b"", None
        if self.held:
            self._release()
        self.connection.finished(self)
