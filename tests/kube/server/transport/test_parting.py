"""The last answer on a connection reaches a client that still sends, and the connection ends in order."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.transport import parting
from tests.kube.server.serving import ADMIN_TOKEN, Site

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TRIES = 3
"""Whether an answer is lost without care is a matter of luck."""


@pytest.fixture(autouse=True)
def _shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parting, "QUIET_SECONDS", 0.3)


async def answered(site: Site, line: str, size: int, *headers: str, wait: float = 0.0) -> bytes:
    """What is read, to its end, after all has been sent: the head, and after a while the body piece by piece."""
    reader, writer = await site.connect()
    head = (f"{line} HTTP/1.1", "Host: x", f"Content-Length: {size}", *headers)
    async with asyncio.timeout(60):
        writer.write("\r\n".join((*head, "", "")).encode())
        if wait:
            await asyncio.sleep(wait)
        for start in range(0, size, 16 * 1024):
            writer.write(b"x" * min(16 * 1024, size - start))
            await writer.drain()
        answer = await reader.read()
    writer.close()
    return answer


async def sent_for_ever(writer: asyncio.StreamWriter, data: bytes, pause: float) -> None:
    while True:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(pause)


@pytest.mark.parametrize("wait", [0.0, 0.05], ids=["at once", "with the body after the answer"])
async def test_what_connect_is_answered_does_not_depend_on_the_size_of_its_body(site: Site, wait: float) -> None:
    lines = [f"CONNECT {target}" for target in (CONFIG_MAPS, "/version", "/nowhere")]
    token = f"Authorization: Bearer {ADMIN_TOKEN}"
    short = await asyncio.gather(*(answered(site, line, 10, token) for line in lines))
    assert [answer.split(b" ", 2)[1] for answer in short] == [b"405", b"405", b"404"]
    assert all(b"\r\nconnection: close\r\n" in answer for answer in short)
    for _ in range(TRIES):
        long = await asyncio.gather(*(answered(site, line, 200_000, token, wait=wait) for line in lines))
        assert long == short


@pytest.mark.parametrize(
    ("line", "size", "headers", "code"),
    [
        pytest.param(f"POST {CONFIG_MAPS}", 500_000, ("Authorization: Bearer wrong",), b"401", id="an unknown user"),
        pytest.param(
            f"POST {CONFIG_MAPS}",
            budgets.MAX_BODY_BYTES + 1000,
            (f"Authorization: Bearer {ADMIN_TOKEN}",),
            b"413",
            id="a body that is too large",
        ),
        pytest.param("GET /version", 500_000, (), b"200", id="a body that nobody asked for"),
    ],
)
async def test_who_asks_for_the_end_of_the_connection_is_answered_before_his_body_has_come(
    site: Site, line: str, size: int, headers: tuple[str, ...], code: bytes
) -> None:
    for answer in await asyncio.gather(
        *(answered(site, line, size, *headers, "Connection: close", wait=0.05) for _ in range(TRIES))
    ):
        assert answer.split(b" ", 2)[1] == code


async def test_who_never_ends_is_dropped_after_so_many_bytes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parting, "DROPPED_BYTES", 1024 * 1024)
    monkeypatch.setattr(parting, "QUIET_SECONDS", 0.05)
    reader, writer = await site.connect()
    writer.write(b"CONNECT /version HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 4")
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await sent_for_ever(writer, b"x" * 64 * 1024, 0.0)


async def test_who_never_falls_silent_is_dropped_after_so_many_seconds(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parting, "LONGEST_SECONDS", 0.2)
    monkeypatch.setattr(parting, "QUIET_SECONDS", 0.05)
    reader, writer = await site.connect()
    writer.write(b"CONNECT /version HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 4")
        with pytest.raises((ConnectionError, ssl.SSLError)):
            await sent_for_ever(writer, b"x", 0.01)


async def test_what_comes_after_the_last_answer_is_not_answered(site: Site) -> None:
    reader, writer = await site.connect()
    writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n")
    async with asyncio.timeout(60):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x" * 100_000 + b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP/1.1" not in await reader.read()
