"""A client that sends any bytes over TLS and reads just enough of the answer: its code and how its body begins."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

_ANSWER_SECONDS: Final = 30.0
_STREAM_SECONDS: Final = 0.05
"""How long a stream, which a watch is, is listened to."""
_SHOWN: Final = 4000


def _any_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


_TLS: Final = _any_server()


class NoAnswer(Exception):
    """The connection ended, or nothing came, where HTTP would have an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    """Its beginning."""

    @property
    def is_failure(self) -> bool:
        """Of the server: a 5xx, also one inside a watch."""
        return self.code >= 500 or (b'"type":"ERROR"' in self.body and b'"code":5' in self.body)


class Wire:
    """One connection, made again when it is gone."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._host, self._port = where.hostname or "", where.port or 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def exchange(self, sent: bytes, *, seconds: float = _ANSWER_SECONDS) -> Answer:
        """Raises NoAnswer."""
        is_head = sent.startswith(b"HEAD ")
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._connected()
                writer.write(sent)
                await writer.drain()
                return await self._answer(reader, has_body=not is_head)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            await self.close()
            raise NoAnswer(repr(error)) from error

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None or self._reader.at_eof():
            await self.close()
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=_TLS, limit=1 << 24)
        return self._reader, self._writer

    async def _answer(self, reader: asyncio.StreamReader, *, has_body: bool) -> Answer:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            code = int(head[0].split(" ")[1])
            if code != 100:
                break
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if not has_body or code in (204, 304):
            body = b""
        elif "chunked" in headers.get("transfer-encoding", ""):
            body = await self._beginning(reader)
            await self.close()
        elif "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        else:
            body = b""
        is_stream = not has_body and "content-length" not in headers
        if is_stream or headers.get("connection", "").lower() == "close":
            await self.close()
        return Answer(code, body[:_SHOWN])

    async def _beginning(self, reader: asyncio.StreamReader) -> bytes:
        content = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STREAM_SECONDS):
                while len(content) < _SHOWN and (chunk := await reader.read(_SHOWN)):
                    content += chunk
        return content

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                self._writer.transport.abort()
        self._reader = self._writer = None
