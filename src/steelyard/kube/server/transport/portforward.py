"""Ports of pods, forwarded through the API server, as `kubectl port-forward` and client-go ask for them.

    POST /api/v1/namespaces/kube-system/pods/etcd-cp-1/portforward
    Connection: Upgrade, Upgrade: SPDY/3.1, X-Stream-Protocol-Version: portforward.k8s.io

Then SPDY: for each connection a stream for data and one for what went wrong, both with the same `requestid` and the
`port`. What is behind a port, and whether anything is, only `dial` knows, which whoever hosts the server gives it: this
module opens no connection, and a server without a `dial` has no port-forward. A server carries so many at once, a
client so many on one connection, and a silent one is ended. So many clients are connected, and no user has more than
half of these connections; data is passed on as it comes, so that each holds little. Both directions take turns with
everybody else's work, frame by frame, and their time on the event loop is charged to whoever asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from steelyard.kube import errors, turns
from steelyard.kube.server.fairness import metering, rotation
from steelyard.kube.server.fairness.shares import Flow
from steelyard.kube.server.transport import spdy
from steelyard.kube.server.transport.exchange import Exchange
from steelyard.kube.server.transport.spdy import Broken, Frame

logger = logging.getLogger(__name__)

SUBRESOURCE: Final = "portforward"
PROTOCOL: Final = "portforward.k8s.io"
MAX_FORWARDS: Final = 16
"""Connections that one server carries at once."""
MAX_SESSIONS: Final = 32
"""Upgraded connections that one server has at once, whether they carry anything or not."""
_MAX_STREAMS: Final = 2 * MAX_FORWARDS
_SILENCE_SECONDS: Final = 300.0
"""client-go asks every five seconds whether the other end is there."""
_CHUNK: Final = 1 << 14
_MOST_DIGITS: Final = 5
_FRAME: Final = 1 << 14
"""What it takes to deal with one, besides its data, in terms of bytes."""

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial: TypeAlias = Callable[[str, str, int], Awaitable[Ends]]
"""Given namespace, pod and port, a connection to it. Raises Unreachable."""


class Unreachable(Exception):
    """Nothing answers there; the message says so to whoever asked."""


class Forwards:
    """Those of one server."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._open = 0
        self._sessions: Counter[Flow] = Counter()

    async def open(self, namespace: str, pod: str, port: int) -> Ends:
        if self._open >= MAX_FORWARDS:
            raise Unreachable(f"more than {MAX_FORWARDS} ports are being forwarded at once")
        self._open += 1
        try:
            return await self._dial(namespace, pod, port)
        except BaseException:
            self._open -= 1
            raise

    def closed(self) -> None:
        self._open -= 1

    async def serve(self, exchange: Exchange, namespace: str, pod: str, headers: Mapping[bytes, bytes]) -> None:
        """Answers a request whose sender may do this. Raises BadRequest where it asks for no protocol that is spoken
        here; clients that try WebSockets first then come back with SPDY. Raises Overloaded."""
        asked = headers.get(b"upgrade", b"").decode("latin-1")
        spoken = [each.strip() for each in headers.get(b"x-stream-protocol-version", b"").decode("latin-1").split(",")]
        if asked.upper() != spdy.PROTOCOL:
            raise errors.BadRequest(f"Upgrade request required, to {spdy.PROTOCOL}")
        if PROTOCOL not in spoken:
            raise errors.BadRequest(f"the server speaks {PROTOCOL} here")
        answer = (
            (b"connection", b"Upgrade"),
            (b"upgrade", spdy.PROTOCOL.encode()),
            (b"x-stream-protocol-version", PROTOCOL.encode()),
        )
        with self._counted(exchange.flow):
            reader = await exchange.upgrade(answer)
            session = _Session(self, exchange, reader, namespace, pod)
            try:
                await session.run()
            finally:
                await session.close()
                exchange.close()

    @contextlib.contextmanager
    def _counted(self, flow: Flow | None) -> Generator[None]:
        """Raises Overloaded. Administrators of the platform always get through."""
        if flow is None or flow.is_unbounded:
            yield
            return
        if self._sessions.total() >= MAX_SESSIONS or self._sessions[flow] >= MAX_SESSIONS // 2:
            raise rotation.too_many()
        self._sessions[flow] += 1
        try:
            yield
        finally:
            self._sessions[flow] -= 1
            if not self._sessions[flow]:
                del self._sessions[flow]


@dataclass(slots=True)
class _Pair:
    errors: int | None = None
    data: int | None = None
    port: int = 0
    sink: asyncio.StreamWriter | None = None
    carrying: asyncio.Task[None] | None = None


class _Session:
    """One upgraded connection."""

    def __init__(
        self, forwards: Forwards, exchange: Exchange, reader: asyncio.StreamReader, namespace: str, pod: str
    ) -> None:
        self._forwards = forwards
        self._exchange = exchange
        self._reader = reader
        self._pod = namespace, pod
        self._heads = spdy.Heads()
        self._data = b""
        self._rest = 0
        """The head of the data that is being read, and how many bytes of it are still to come."""
        self._pairs: dict[str, _Pair] = {}
        self._streams: dict[int, _Pair] = {}
        self._newest = 0
        """The number of the last stream that the client has opened."""
        self._carrying: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until either side ends it."""
        with contextlib.suppress(EOFError, Broken, TimeoutError, ConnectionError):
            while True:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    found = await self._read()
                if found.kind == spdy.GOAWAY:
                    return
                await self._turn(found.content)
                async with asyncio.timeout(_SILENCE_SECONDS):
                    await self._handle(found)

    async def _turn(self, content: bytes) -> None:
        """Until the loop has room for this, and the flow has not had more of it than others."""
        flow = self._exchange.flow
        await turns.take(_FRAME + len(content), flow)
        if flow is not None:
            await flow.turn()

    async def _read(self) -> Frame:
        """The next frame; of data what has come of it, and the rest the next time. Raises EOFError and Broken."""
        if not self._rest:
            head = await self._reader.readexactly(spdy.HEAD_BYTES)
            size = spdy.length(head)
            if not size or spdy.is_control(head):
                return spdy.frame(head, await self._reader.readexactly(size))
            self._data, self._rest = head, size
        content = await self._reader.read(min(self._rest, _CHUNK))
        if not content:
            raise EOFError
        self._rest -= len(content)
        return spdy.frame(self._data, content, self._rest)

    async def close(self) -> None:
        for each in self._carrying:
            each.cancel()
        if self._carrying:
            await asyncio.wait(self._carrying)

    async def _handle(self, found: Frame) -> None:
        if found.kind == spdy.SYN_STREAM:
            await self._opened(found, self._heads.opened(found))
        elif found.kind == spdy.PING:
            await self._exchange.say(spdy.control(spdy.PING, found.content))
        elif found.kind == spdy.RST_STREAM:
            self._end(found.stream)
        elif found.kind == 0:
            await self._received(found)

    async def _opened(self, found: Frame, headers: Mapping[str, str]) -> None:
        if found.stream <= self._newest or not found.stream % 2:
            raise Broken(f"stream {found.stream} after {self._newest}: a client's are odd, and each is a new one")
        self._newest = found.stream
        kind, port = headers.get("streamtype", ""), _port(headers.get("port", ""))
        if kind not in ("data", "error") or not port or len(self._streams) >= _MAX_STREAMS:
            await self._exchange.say(spdy.reset(found.stream))
            return
        pair = self._pairs.setdefault(headers.get("requestid", ""), _Pair())
        if (pair.data if kind == "data" else pair.errors) is not None:
            raise Broken("two streams of one kind for one request")
        self._streams[found.stream] = pair
        if kind == "error":
            pair.errors = found.stream
            await self._exchange.say(self._heads.reply(found.stream))
            return
        pair.data, pair.port = found.stream, port
        try:
            source, pair.sink = await self._forwards.open(*self._pod, pair.port)
        except Exception as error:
            why = str(error)
            if not isinstance(error, Unreachable):
                why = "what is behind the port could not be reached: an internal error"
                logger.exception("port-forward failed", extra={"pod": "/".join(self._pod), "port": port})
            await self._exchange.say(self._heads.reply(found.stream))
            await self._finish(pair, why)
            return
        pair.carrying = asyncio.create_task(self._charged(pair, found.stream, source), name="port-forward")
        self._carrying.add(pair.carrying)
        pair.carrying.add_done_callback(functools.partial(self._closed, pair.sink))
        await self._exchange.say(self._heads.reply(found.stream))

    async def _received(self, found: Frame) -> None:
        pair = self._streams.get(found.stream)
        if pair is None or pair.data != found.stream or pair.sink is None or pair.sink.is_closing():
            return
        try:
            if found.content:
                pair.sink.write(found.content)
                await pair.sink.drain()
            if found.is_last and pair.sink.can_write_eof():
                pair.sink.write_eof()
        except OSError:
            # Who carries the other direction notices, and says so.
            pair.sink.transport.abort()

    async def _charged(self, pair: _Pair, stream: int, source: asyncio.StreamReader) -> None:
        await metering.metered(self._carry(pair, stream, source), self._exchange)

    async def _carry(self, pair: _Pair, stream: int, source: asyncio.StreamReader) -> None:
        why = ""
        try:
            while content := await source.read(_CHUNK):
                await self._turn(content)
                await self._exchange.say(spdy.data(stream, content))
        except OSError as error:
            why = f"the connection to port {pair.port} was lost: {error.strerror or error}"
        await self._finish(pair, why)

    def _closed(self, sink: asyncio.StreamWriter, carrying: asyncio.Task[None]) -> None:
        self._carrying.discard(carrying)
        self._forwards.closed()
        sink.transport.abort()

    async def _finish(self, pair: _Pair, why: str = "") -> None:
        """Says that nothing more comes, and what went wrong if something did."""
        if pair.errors is not None:
            await self._exchange.say(spdy.data(pair.errors, why.encode(), last=True))
        if pair.data is not None:
            await self._exchange.say(spdy.data(pair.data, b"", last=True))
        self._forget(pair)

    def _end(self, stream: int) -> None:
        pair = self._streams.get(stream)
        if pair is not None:
            self._forget(pair)
            if pair.carrying is not None:
                pair.carrying.cancel()

    def _forget(self, pair: _Pair) -> None:
        self._streams = {number: each for number, each in self._streams.items() if each is not pair}
        self._pairs = {key: each for key, each in self._pairs.items() if each is not pair}


def _port(text: str) -> int:
    """0 for what is none."""
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return 0
    number = int(text)
    return number if number < 1 << 16 else 0
