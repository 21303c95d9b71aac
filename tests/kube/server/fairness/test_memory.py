"""What large bodies took is free again when they are answered, and the system sees it."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

import orjson
import pytest

from steelyard.kube.objects import Object
from steelyard.kube.server.fairness import memory
from steelyard.kube.server.transport.intake import Intake
from tests.kube.server.serving import ADMIN_TOKEN
from tests.kube.server.verbs.test_watchers_at_scale import UNVERIFIED, Server, read_until, server_alone

PATH = "/api/v1/namespaces/default/configmaps"
TIMES = 6
KILOBYTES_LEFT = 10_000
"""Of what half a dozen bodies of megabytes took; each is there ten times over while it is read."""
SETTLED_SECONDS = 30.0


def sent(server: Server, body: bytes, content_type: str) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", server.port), 30) as plain,
        UNVERIFIED.wrap_socket(plain) as connection,
    ):
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nConnection: close\r\n"
        connection.sendall(f"{head}Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return read_until(connection, b"\r\n\r\n")[:12]


def created(server: Server, name: str, text: str) -> bytes:
    body = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}})
    return sent(server, body, "application/json")


def metadata(**fields: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **fields}}


BODIES = {
    "a number of a million digits": (b'{"data":{"a":%b}}' % (b"1" * 1_000_000), "application/json"),
    "a bad end": (orjson.dumps(metadata() | {"data": {"a": "x" * 2_900_000}})[:-1], "application/json"),
    "many finalizers": (orjson.dumps(metadata(finalizers=[f"a.b/{n}" for n in range(50_000)])), "application/json"),
    "many annotations": (orjson.dumps(metadata(annotations={f"a{n}": "x" for n in range(40_000)})), "application/json"),
    "YAML": (b"a:\n" + b"- 1\n" * 700_000, "application/yaml"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="measures with /proc")
def test_large_bodies_leave_nothing_behind(tmp_path: Path) -> None:
    with server_alone(tmp_path) as server:
        for body, content_type in BODIES.values():
            sent(server, body, content_type)
        before = server.resident_kilobytes()
        for body, content_type in BODIES.values():
            for _ in range(TIMES):
                assert sent(server, body, content_type).startswith(b"HTTP/1.1 4")
        deadline = time.monotonic() + SETTLED_SECONDS
        while (left := server.resident_kilobytes() - before) > KILOBYTES_LEFT and time.monotonic() < deadline:
            time.sleep(0.2)
        assert left < KILOBYTES_LEFT, f"{left} KB more than before"


@pytest.mark.skipif(sys.platform != "linux", reason="measures with /proc")
def test_large_objects_that_are_stored_take_no_memory(tmp_path: Path) -> None:
    with server_alone(tmp_path) as server:
        for number in range(8):
            assert created(server, f"before-{number}", "x" * 900_000).startswith(b"HTTP/1.1 201")
        before = server.resident_kilobytes()
        for number in range(50):
            assert created(server, f"c{number}", "x" * 900_000).startswith(b"HTTP/1.1 201")
        deadline = time.monotonic() + SETTLED_SECONDS
        while (more := server.resident_kilobytes() - before) > 2 * KILOBYTES_LEFT and time.monotonic() < deadline:
            time.sleep(0.2)
        assert more < 2 * KILOBYTES_LEFT, f"{more} KB more than before, with 45 MB stored"


async def test_many_connections_that_have_ended_give_their_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(memory, "trim", lambda: loop.call_soon_threadsafe(trimmed.set))
    intake = Intake()
    for _ in range(100):
        intake.left()
    async with asyncio.timeout(60):
        await trimmed.wait()
