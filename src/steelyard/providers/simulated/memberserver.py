"""The port 2379 of a simulated machine: TLS for holders of a certificate of the cluster's etcd authority, JSON inside.

A question is small and answered at once; whoever sends more, or nothing, is shown the door.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import orjson

from steelyard.kube import objects, pki
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.transport import tlsfiles

PORT: Final = 2379
_LARGEST: Final = 1 << 14
_SILENCE_SECONDS: Final = 10.0
_LENGTH: Final = b"content-length:"

Answering: TypeAlias = Callable[[str, Object], Awaitable[tuple[int, Object]]]
"""Given path and question, status and answer."""


class MemberServer:
    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, address: str, name: str, authority: KeyPair, *, now: datetime.datetime) -> None:
        """Raises OSError where the address cannot be had."""
        hosts = [name, "localhost", address, "127.0.0.1"]
        pair = pki.issue_serving(authority, name, hosts, now=now, lifetime=pki.CA_LIFETIME)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(cadata=authority.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        tlsfiles.load(context, pair)
        self._server = await asyncio.start_server(self._serve, address, PORT, ssl=context, limit=_LARGEST)

    async def stop(self) -> None:
        """At once, as when a machine is switched off."""
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
            with contextlib.suppress(OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
                while self._server is not None:
                    await self._exchange(reader, writer)
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
        path = request.split(b" ")[1].decode("ascii")
        status, answer = await self._answering(path, objects.mapping(orjson.loads(body or b"{}")))
        content = orjson.dumps(answer)
        first = b"HTTP/1.1 %d Answered\r\nContent-Type: application/json\r\n" % status
        writer.write(first + b"Content-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
