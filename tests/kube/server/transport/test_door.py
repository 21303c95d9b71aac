"""Connections: who is silent or idle for too long is closed, and there is always room for somebody new."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.kube.server.api import Api
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.transport import door
from steelyard.kube.server.transport.door import Door, Patience
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.server.transport.protocol import Connection
from steelyard.kube.store.store import Store
from tests.kube.server import serving
from tests.kube.server.bench import eventually
from tests.kube.server.serving import Site

IMPATIENT = Patience(head=0.4, idle=0.8, body=0.4, tick=0.1)
BODY = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: a\r\nauthorization: Bearer admin-token\r\n"
GET = b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n"
WATCH = b"GET /api/v1/namespaces/default/configmaps?watch=1 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %b\r\n\r\n"


@contextlib.asynccontextmanager
async def served(tmp_path: Path, commons: Commons) -> AsyncGenerator[Site]:
    store = await Store.open(tmp_path / "db", fsync=False)
    api = await Api.start(store)
    async with serving.served(api, commons=commons) as site:
        await site.promote("jane")
        yield site
    commons.door.close()
    await api.close()
    await store.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    async with served(tmp_path, Commons(door=Door(IMPATIENT))) as site:
        yield site


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            return await reader.read()
    return b""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="no request"),
        pytest.param(b"GET /a", id="half a line"),
        pytest.param(b"GET /a HTTP/1.1\r\nhost: a\r\n", id="half a head"),
        pytest.param(BODY + b"content-length: 9\r\n\r\nabc", id="half a body"),
        pytest.param(BODY + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", id="chunks without an end"),
    ],
)
async def test_who_does_not_finish_a_request_is_closed(site: Site, sent: bytes) -> None:
    reader, writer = await site.connect()
    writer.write(sent)
    await until_closed(reader)


async def test_an_idle_connection_is_closed_later(site: Site) -> None:
    reader, writer = await site.connect()
    writer.write(GET)
    await reader.readuntil(b"\r\n\r\nok")
    started = asyncio.get_running_loop().time()
    assert await until_closed(reader) == b""
    assert asyncio.get_running_loop().time() - started > IMPATIENT.head


async def test_a_request_in_pieces_and_an_idle_moment_are_fine(site: Site) -> None:
    reader, writer = await site.connect()
    for _ in range(2):
        for piece in (b"GET /livez HT", b"TP/1.1\r\nhost: a\r\n", b"\r\n"):
            writer.write(piece)
            await asyncio.sleep(0.02)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b"\r\n\r\nok")
        await asyncio.sleep(0.3)


async def test_a_watch_may_last(site: Site) -> None:
    reader, writer = await site.connect()
    writer.write(WATCH % b"admin-token")
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(2 * IMPATIENT.idle)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert (await site.request("POST", "/api/v1/namespaces/default/configmaps", body)).code == 201
    async with asyncio.timeout(60):
        assert b'"ADDED"' in await reader.readuntil(b"\n{") + await reader.readline()


async def test_the_timer_runs_only_while_somebody_is_waited_for(site: Site) -> None:
    assert (await site.request("GET", "/livez")).code == 200
    watch, writer = await site.connect()
    writer.write(WATCH % b"admin-token")
    await watch.readuntil(b"\r\n\r\n")
    await eventually(lambda: not any("_sweep" in timer for timer in _timers()))


def _timers() -> list[str]:
    scheduled: list[object] = getattr(asyncio.get_running_loop(), "_scheduled", [])
    return [repr(timer) for timer in scheduled if "cancelled" not in repr(timer)]


async def test_nothing_is_left_of_a_connection_that_ended(site: Site) -> None:
    """Not even until somebody looks for garbage: there may be thousands of them, each with its buffers."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            reader, writer = await site.connect()
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\nok")
            writer.transport.abort()
        await eventually(lambda: not [each for each in gc.get_objects() if isinstance(each, Connection)])
    finally:
        gc.enable()


async def test_who_says_no_hello_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "HANDSHAKE_SECONDS", 0.3)
    async with served(tmp_path, Commons(door=Door(IMPATIENT))) as site:
        reader, _ = await site.connect(tls=False)
        await until_closed(reader)


async def test_silent_connections_make_room_for_new_ones(tmp_path: Path) -> None:
    """Whether they have said hello or not."""
    in_use = len(os.listdir("/proc/self/fd"))
    async with served(tmp_path, Commons(door=Door(Patience(), descriptors=in_use + 150))) as site:
        greeted = [await site.connect() for _ in range(30)]
        silent = [await site.connect(tls=False) for _ in range(60)]
        for _ in range(5):
            assert (await site.request("GET", "/livez")).code == 200
        closed = [reader.at_eof() or reader.exception() is not None for reader, _ in (*greeted, *silent)]
        assert any(closed)


async def test_who_has_come_just_now_stays_while_others_make_room(tmp_path: Path) -> None:
    """Others have asked for something and are idle since; who comes now has not had the time to ask."""
    in_use = len(os.listdir("/proc/self/fd"))
    async with served(tmp_path, Commons(door=Door(Patience(), descriptors=in_use + 160))) as site:
        idle = [await site.connect() for _ in range(50)]
        for reader, writer in idle:
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\nok")
        for _ in range(30):
            reader, writer = await site.connect()
            await asyncio.gather(*(site.connect(tls=False) for _ in range(3)))
            writer.write(GET)
            async with asyncio.timeout(60):
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def test_nobody_of_many_who_come_at_once_is_turned_away(tmp_path: Path) -> None:
    """Room that was made is there a moment later; who stands before the door waits for it."""
    in_use = len(os.listdir("/proc/self/fd"))
    async with served(tmp_path, Commons(door=Door(Patience(), descriptors=in_use + 170))) as site:
        idle = [await site.connect() for _ in range(60)]

        async def ask() -> bytes:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", site.listener.port, ssl=serving.client_context()
            )
            writer.write(GET)
            line = await reader.readline()
            writer.transport.abort()
            return line

        async with asyncio.timeout(60):
            answers = await asyncio.gather(*(ask() for _ in range(40)))
        assert {answer.split()[1] for answer in answers} == {b"200"}
        assert any(reader.at_eof() or reader.exception() is not None for reader, _ in idle)


async def test_who_has_most_watches_makes_room_for_others(tmp_path: Path) -> None:
    in_use = len(os.listdir("/proc/self/fd"))
    async with served(tmp_path, Commons(door=Door(Patience(), descriptors=in_use + 250))) as site:
        many: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for _ in range(120):
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                reader, writer = await site.connect()
                many.append((reader, writer))
                writer.write(WATCH % b"jane-token")
                await reader.readuntil(b"\r\n\r\n")
        for _ in range(5):
            assert (await site.request("GET", "/livez")).code == 200


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        pytest.param(b"GET /version HTTP/1.1\r\n" + b"a:\r\n" * 5000 + b"\r\n", b"431", id="fields"),
        pytest.param(b"GET /version HTTP/1.1\r\n" + b"a:\r\n" * 250_000, b"431", id="fields without an end"),
        pytest.param(b"GET /version HTTP/1.1\r\na: " + b"x" * 1_100_000, b"431", id="bytes"),
        pytest.param(b"GET /version?" + b"x" * budgets.MAX_TARGET_BYTES + b" HTTP/1.1\r\n\r\n", b"414", id="line"),
        pytest.param(b"GET /version?" + b"x" * 500_000, b"414", id="line without an end"),
    ],
)
async def test_a_head_is_bounded(site: Site, head: bytes, answer: bytes) -> None:
    reader, writer = await site.connect()
    writer.write(head)
    async with asyncio.timeout(60):
        assert (await reader.readline()).startswith(b"HTTP/1.1 " + answer)


async def test_fields_given_twice_are_joined(site: Site) -> None:
    reader, writer = await site.connect()
    accepts = b"".join(b"accept: application/x%d\r\n" % number for number in range(300))
    head = b"GET /api/v1/namespaces HTTP/1.1\r\nhost: a\r\nauthorization: Bearer admin-token\r\n"
    writer.write(head + accepts + b"accept: application/json\r\n\r\n")
    async with asyncio.timeout(60):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
