"""A server that answers the innocent client as it should, until it is told not to: by requests for these paths.

/block?1.5    it stands still for as many seconds, with all its connections
/forget       the watch is not told of the next object
/refuse       the next ordinary request is answered with 429

python -m tests.soak.hostile.stub CERTIFICATE    prints its port and runs until its input ends
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from typing import Any, Final, cast

import httptools
import orjson

from tests.soak.hostile.field import KNOWN

_TOO_MANY: Final = 429


class Stub:
    """What all connections share."""

    def __init__(self) -> None:
        self.watchers: list[asyncio.Transport] = []
        self.revision = 1
        self.forgets = False
        self.refuses = False

    def created(self, name: str) -> None:
        self.revision += 1
        if self.forgets:
            self.forgets = False
            return
        metadata = {"name": name, "resourceVersion": str(self.revision)}
        event = orjson.dumps({"type": "ADDED", "object": {"metadata": metadata}}) + b"\n"
        for watcher in self.watchers:
            watcher.write(b"%x\r\n%b\r\n" % (len(event), event))


class Conversation(asyncio.Protocol):
    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._parser: Any = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._url = self._body = b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        stub, method = self._stub, self._parser.get_method()
        path, _, query = self._url.decode().partition("?")
        if path == "/block":
            time.sleep(float(query))
        elif path == "/forget":
            stub.forgets = True
        elif path == "/refuse":
            stub.refuses = True
        elif "watch=1" in query:
            stub.watchers.append(self._transport)
            self._transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            return
        elif stub.refuses:
            stub.refuses = False
            self._answer(_TOO_MANY, b"{}")
            return
        if method == b"POST":
            stub.created(orjson.loads(self._body)["metadata"]["name"])
        self._answer(201 if method == b"POST" else 200, self._body or f'{{"name":"{KNOWN}"}}'.encode())

    def _answer(self, code: int, body: bytes) -> None:
        self._transport.write(b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body))


async def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1])
    stub = Stub()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Conversation(stub), "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
