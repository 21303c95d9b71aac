"""Health of a process without an API of its own: `/healthz` and `/readyz` by plain HTTP, for a kubelet's probes, and
pages such as `/metrics`.

Whoever asks gets one answer and is let go of: nothing is kept, and nobody holds a place for long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from steelyard.frozen import frozen

Check = Callable[[], str | None]
"""What is wrong, or None."""


@frozen
class Page:
    content: Callable[[], bytes]
    type: str


_DEADLINE: Final = 5.0
_LONGEST_LINE: Final = 4096
_AT_ONCE: Final = 32


@contextlib.asynccontextmanager
async def served(
    host: str, port: int, checks: Mapping[str, Check], pages: Mapping[str, Page] | None = None
) -> AsyncGenerator[int]:
    """`checks` and `pages` by path, as in `{"/readyz": manager.problem}`; the port that it is."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_DEADLINE), places:
                writer.write(_answer(await reader.readline(), checks, pages or {}))
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # who asked has left, or said nothing that makes sense
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, port, limit=_LONGEST_LINE)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DEADLINE):
                await server.wait_closed()


def _answer(line: bytes, checks: Mapping[str, Check], pages: Mapping[str, Page]) -> bytes:
    words = line.decode("latin-1").split()
    path = words[1].partition("?")[0] if len(words) > 1 else ""
    if page := pages.get(path):
        return _whole("200 OK", page.content(), page.type)
    if path not in checks:
        return _told("404 Not Found", "there is nothing here")
    problem = checks[path]()
    return _told("503 Service Unavailable", problem) if problem else _told("200 OK", "ok")


def _told(status: str, text: str) -> bytes:
    return _whole(status, f"{text}\n".encode(), "text/plain")


def _whole(status: str, body: bytes, type_: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {type_}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
