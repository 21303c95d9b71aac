"""The health of a process without an API of its own."""

from __future__ import annotations

import asyncio

from steelyard.kube.runtime import probes


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_what_is_wrong_is_answered_with_503_and_its_words() -> None:
    problems: list[str] = []

    def readiness() -> str | None:
        return problems[0] if problems else None

    async with probes.served("127.0.0.1", 0, {"/healthz": lambda: None, "/readyz": readiness}) as port:
        assert (await ask(port, b"GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        problems.append("no host answers")
        answer = await ask(port, b"GET /readyz HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503")
        assert answer.endswith(b"no host answers\n")
        assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert (await ask(port, b"GET /secrets HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")


async def test_nonsense_ends_the_connection_and_nothing_else() -> None:
    async with probes.served("127.0.0.1", 0, {"/healthz": lambda: None}) as port:
        assert (await ask(port, b"\n")).startswith(b"HTTP/1.1 404")
        assert await ask(port, b"x" * 100_000) == b""
        assert (await ask(port, b"GET /healthz\r\n")).startswith(b"HTTP/1.1 200")
