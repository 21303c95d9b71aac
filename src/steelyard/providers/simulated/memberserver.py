"""The port 2379 of a simulated machine: TLS for holders of a certificate of the cluster's etcd authority; inside gRPC,
or JSON for those who do not ask for HTTP/2.

It is reached at the machine's address where it listens there, and by connections that are handed to it, which is how
the cluster's API forwards the port. A question is small and answered at once; whoever sends more, or nothing, is shown
the door.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import orjson

from steelyard.kube import objects, pki
from steelyard.kube.builtin import wire
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.transport import tlsfiles
from steelyard.providers.simulated import etcdmessages
from steelyard.providers.simulated.grpcserver import Conversation, Misspoken, Reply

PORT: Final = 2379
_LARGEST: Final = 1 << 14
_SILENCE_SECONDS: Final = 10.0
_LENGTH: Final = b"content-length:"
_HTTP_2: Final = "h2"
_UNIMPLEMENTED, _INTERNAL = 12, 13

Answering: TypeAlias = Callable[[str, Object], Awaitable[tuple[int, Object]]]
"""Given path and question, status and answer."""


class MemberServer:
    def __init__(
        self, answering: Answering, address: str, name: str, authority: KeyPair, *, now: datetime.datetime
    ) -> None:
        self._answering = answering
        self._address = address
        self._tls = _context(address, name, authority, now)
        self._server: asyncio.Server | None = None
        self._is_stopped = False
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """At the machine's address. Raises OSError where it cannot be had."""
        self._server = await asyncio.start_server(self._serve, self._address, PORT, ssl=self._tls, limit=_LARGEST)

    async def accept(self, connection: socket.socket) -> None:
        """Serves whoever is at the other end, as if they had come through the port. Raises OSError."""
        reader = asyncio.StreamReader(limit=_LARGEST)
        protocol = asyncio.StreamReaderProtocol(reader, self._serve)
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: protocol, connection, ssl=self._tls, ssl_handshake_timeout=_SILENCE_SECONDS
        )

    async def stop(self) -> None:
        """At once, as when a machine is switched off."""
        self._is_stopped = True
        if self._server is not None:
            self._server.close()
            self._server = None
        # Not the one that has just answered that this member is removed.
        others = [each for each in self._connections if each is not asyncio.current_task()]
        for each in others:
            each.cancel()
        if others:
            await asyncio.wait(others)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError, Misspoken):
                tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
                if tls.selected_alpn_protocol() == _HTTP_2:
                    await Conversation(reader, writer, self._called, _SILENCE_SECONDS).run()
                while not self._is_stopped:
                    await self._exchange(reader, writer)
        except asyncio.CancelledError:
            # Its own stop: what carries streams would tell of it as of a failure.
            if not self._is_stopped:
                raise
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_SILENCE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            request, *headers = head.split(b"\r\n")
            lengths = [line for line in headers if line.lower().startswith(_LENGTH)]
            length = int(lengths[0][len(_LENGTH) :]) if lengths else 0
            if length > _LARGEST:
                raise ValueError("too long")
            body = await reader.readexactly(length)
        _, path, _ = request.decode("ascii").split(" ")
        status, answer = await self._answering(path, objects.mapping(orjson.loads(body or b"{}")))
        content = orjson.dumps(answer)
        first = b"HTTP/1.1 %d Answered\r\nContent-Type: application/json\r\n" % status
        writer.write(first + b"Content-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()

    async def _called(self, path: str, message: bytes) -> Reply:
        method = etcdmessages.METHODS.get(path)
        if method is None:
            return Reply(code=_UNIMPLEMENTED, why=f"unknown method {path[:100]}")
        try:
            question = etcdmessages.question(method, message)
        except wire.Corrupt as error:
            return Reply(code=_INTERNAL, why=str(error))
        _, answer = await self._answering(method.path, question)
        code = int(str(answer.get("code") or 0))
        if code:
            return Reply(code=code, why=str(answer.get("message")))
        return Reply(etcdmessages.encoded(answer, method.answer))


def _context(address: str, name: str, authority: KeyPair, now: datetime.datetime) -> ssl.SSLContext:
    hosts = [name, "localhost", address, "127.0.0.1"]
    pair = pki.issue_serving(authority, name, hosts, now=now, lifetime=pki.CA_LIFETIME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([_HTTP_2, "http/1.1"])
    tlsfiles.load(context, pair)
    return context
