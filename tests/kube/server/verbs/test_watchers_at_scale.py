"""Thousands of watchers on one server: what an idle one costs, who is told of a change, and who is held up by whom."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.api import Api
from steelyard.kube.server.space import keys
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store
from tests.kube.server import serving
from tests.kube.server.serving import ADMIN_TOKEN, Site

WATCHERS = 2000
WARMING = 50
"""Opened before the memory of the others is measured: the first ones make the server import and cache."""
KILOBYTES_EACH = 60
IDLE_SECONDS = 0.5
CHANGES = 20_000
ROUND = 500
"""Changes that are written at once, as by many clients; the next ones follow when these are durable."""
HEALTHY = 3
DEADLINE = 60.0
AT_ONCE_SECONDS = 2.0
"""From the write of a round to its last event at the last reader: 0.04 s on an idle machine."""
READ_BYTES = 65536
STUCK = 300
"""Watchers that do not read."""
LARGE = 900_000
LARGE_CHANGES = 4
KILOBYTES_STUCK = 400
"""What waits for one of them in the server, encrypted and not: as much as fits into a slice, not the whole change."""
NAMESPACE = "/api/v1/namespaces/default"
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@dataclass(frozen=True)
class Server:
    pid: int
    port: int

    def resident_kilobytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() // 1024

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server_alone(folder: Path) -> Generator[Server]:
    command = [sys.executable, "-m", "tests.kube.server.alone", str(folder / "store.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield Server(process.pid, int(process.stdout.readline()))
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(DEADLINE)


def connect(
    port: int, request: str, body: bytes = b"", *, receive_buffer: int = 0, session: ssl.SSLSession | None = None
) -> ssl.SSLSocket:
    """A connection on which the request has been sent and the head of the answer read. To resume a `session` takes
    half the time of a new one.
    """
    plain = socket.socket()
    if receive_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.settimeout(DEADLINE)
    plain.connect(("127.0.0.1", port))
    connection = UNVERIFIED.wrap_socket(plain, session=session)
    head = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    assert connection.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 201")
    read_until(connection, b"\r\n\r\n")
    return connection


def _unverified() -> ssl.SSLContext:
    """The server in the other process has an authority of its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


UNVERIFIED = _unverified()


def read_until(connection: ssl.SSLSocket, end: bytes) -> bytes:
    received = bytearray()
    while end not in received[-READ_BYTES - len(end) :]:
        piece = connection.recv(READ_BYTES)
        assert piece, "the server has hung up"
        received += piece
    return bytes(received)


def affordable_watchers() -> int:
    """Each takes a file descriptor here and one in the server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WATCHERS + 200
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return min(WATCHERS, soft - 200)


def watch_all(port: int, paths: list[str], session: ssl.SSLSession | None = None) -> list[ssl.SSLSocket]:
    def watch(path: str) -> ssl.SSLSocket:
        return connect(port, f"GET {path}?watch=1&resourceVersion=1", session=session)

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(watch, paths))


@pytest.mark.skipif(sys.platform != "linux", reason="measures with /proc")
def test_two_thousand_idle_watchers_cost_little_memory_and_no_time(tmp_path: Path) -> None:
    count = affordable_watchers()
    told, untold = [f"{NAMESPACE}/configmaps"] * (count // 2), [f"{NAMESPACE}/secrets"] * (count // 2)
    with server_alone(tmp_path) as server:
        connections = watch_all(server.port, [f"{NAMESPACE}/services"] * WARMING)
        before = server.resident_kilobytes()
        of_config_maps = watch_all(server.port, told, connections[0].session)
        of_secrets = watch_all(server.port, untold, connections[0].session)
        each = (server.resident_kilobytes() - before) / count
        assert each < KILOBYTES_EACH, f"{each:.1f} KB for each of {count} watchers"

        spent = server.processor_seconds()
        time.sleep(IDLE_SECONDS)
        idle = server.processor_seconds() - spent
        assert idle <= IDLE_SECONDS / 10, f"{idle} s of processor time for {count} idle watchers"

        body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "the-change"}}
        connections.append(connect(server.port, f"POST {NAMESPACE}/configmaps", orjson.dumps(body)))
        for connection in of_config_maps:
            assert b'"name":"the-change"' in read_until(connection, b"}\n")
        silent = select.poll()
        for connection in of_secrets:
            silent.register(connection, select.POLLIN)
        assert silent.poll(0) == []
        for connection in (*connections, *of_config_maps, *of_secrets):
            connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="measures with /proc")
def test_large_changes_cost_no_more_memory_for_many_watchers_that_do_not_read(tmp_path: Path) -> None:
    with server_alone(tmp_path) as server:
        watchers = watch_all(server.port, [f"{NAMESPACE}/configmaps"] * STUCK)
        before = server.resident_kilobytes()
        longest = 0.0
        for number in range(LARGE_CHANGES):
            body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"large-{number}"}}
            body["data"] = {"x": "y" * LARGE}
            connect(server.port, f"POST {NAMESPACE}/configmaps", orjson.dumps(body)).close()
            asked = time.perf_counter()
            connect(server.port, f"GET {NAMESPACE}/configmaps?limit=1&fieldSelector=metadata.name%3Dnone").close()
            longest = max(longest, time.perf_counter() - asked)
        grown = server.resident_kilobytes() - before
        stored = LARGE_CHANGES * LARGE // 1024
        assert grown < stored * 8 + STUCK * KILOBYTES_STUCK, f"{grown} KB for {STUCK} watchers"
        assert longest < AT_ONCE_SECONDS, f"another client waited for {longest:.1f} s"
        for number in range(LARGE_CHANGES):
            assert f'"name":"large-{number}"'.encode() in read_until(watchers[-1], b"}\n")
        for watcher in watchers:
            watcher.close()


async def test_a_watcher_that_never_reads_is_cut_off_and_holds_up_nobody(store: Store) -> None:
    api = await Api.start(store)
    async with serving.served(api) as site:
        watch = f"GET {NAMESPACE}/configmaps?watch=1"
        stuck = await asyncio.to_thread(connect, site.listener.port, watch, receive_buffer=4096)
        readers = [await Reader.open(site, watch) for _ in range(HEALTHY)]
        slowest = 0.0
        for first in range(0, CHANGES, ROUND):
            numbers = range(first, first + ROUND)
            await asyncio.gather(*(change(store, number) for number in numbers))
            written = time.perf_counter()
            for reader in readers:
                async with asyncio.timeout(DEADLINE):
                    assert [await reader.number() for _ in numbers] == list(numbers)
            slowest = max(slowest, time.perf_counter() - written)
        assert slowest < AT_ONCE_SECONDS

        seen, last = await asyncio.to_thread(read_to_the_end, stuck)
        assert seen == list(range(len(seen))), "it is told everything up to the gap"
        assert len(seen) < CHANGES
        assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")
        stuck.close()
        for reader in readers:
            reader.writer.close()
    await api.close()


def change(store: Store, number: int) -> asyncio.Future[Record]:
    """One state of one object of a kilobyte. Written to the store: whole requests would take most of the time."""
    key = keys.key("main", CONFIG_MAPS, "default", "a")
    data = {"number": str(number), "filling": "x" * 1024}

    def encode(revision: int) -> bytes:
        metadata = {"name": "a", "namespace": "default", "resourceVersion": str(revision)}
        return orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    return store.put(key, encode)


@dataclass(frozen=True)
class Reader:
    """A watcher that takes every event as soon as it is there."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @staticmethod
    async def open(site: Site, request: str) -> Reader:
        reader, writer = await site.connect()
        writer.write(f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        return Reader(reader, writer)

    async def number(self) -> int:
        while not (line := await self.reader.readline()).startswith(b"{"):
            assert line, "the server has hung up"
        return number_of(orjson.loads(line))


def number_of(event: Object) -> int:
    return int(event["object"]["data"]["number"])


def read_to_the_end(connection: ssl.SSLSocket) -> tuple[list[int], Object]:
    """The numbers of a watch's changes, and the event that ends it."""
    received = read_until(connection, b"\r\n0\r\n\r\n")
    *changes, last = [orjson.loads(line) for line in received.split(b"\n") if line.startswith(b"{")]
    return [number_of(each) for each in changes], last
