"""A load generator cheap enough to run beside the server it measures: keep-alive TLS connections, requests made ahead.

Run as a process of its own (`python -m bench.load`), so that its work is not the server's; prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

from steelyard.kube.client import kubeconfig


class _Connection(asyncio.Protocol):
    """Sends one request after another, as soon as the answer to the last is complete."""

    def __init__(self, requests: Iterator[bytes], latencies: list[float], done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._latencies = latencies
        self._done = done
        self._answer = bytearray()
        self._sent = 0.0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head_end = self._answer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._answer[:head_end]).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
        if len(self._answer) < head_end + 4 + length:
            return
        if not head.startswith(b"http/1.1 20"):
            self._finish(RuntimeError(bytes(self._answer[:500]).decode()))
            return
        self._latencies.append(time.perf_counter() - self._sent)
        self._answer.clear()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish(exc)

    def _next(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def _finish(self, error: Exception | None) -> None:
        if not self._done.done():
            if error is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(error)


async def run(config: str, connections: int, requests: int, verb: str) -> dict[str, float]:
    connection = kubeconfig.parse(config).resolve()
    url = urlsplit(connection.server)
    tls = ssl.create_default_context(cadata=connection.certificate_authority.decode())
    assert url.hostname
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    made = iter([_request(verb, number, connections, url.netloc, connection.token) for number in range(requests)])
    finished: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    started = time.perf_counter()
    for done in finished:
        await loop.create_connection(
            lambda done=done: _Connection(made, latencies, done), url.hostname, url.port or 443, ssl=tls
        )
    await asyncio.gather(*finished)
    took = time.perf_counter() - started
    latencies.sort()
    return {
        "per_second": len(latencies) / took,
        "median_ms": latencies[len(latencies) // 2] * 1e3,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1e3,
    }


def _request(verb: str, number: int, connections: int, host: str, token: str) -> bytes:
    path = "/api/v1/namespaces/default/configmaps"
    name = f"load-{connections}-{number}"
    head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n"
    if verb == "get":
        return f"GET {path}/load-1-0 HTTP/1.1\r\n{head}\r\n".encode()
    body = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": "x" * 1024}}
    )
    return (
        f"POST {path} HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--verb", choices=("create", "get"), default="create")
    given = parser.parse_args()
    work = run(given.kubeconfig.read_text(), given.connections, given.requests, given.verb)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(work)))


if __name__ == "__main__":
    main()
