"""A port of a pod, as a socket: Kubernetes' port-forward over a WebSocket, the protocol `v4.channel.k8s.io`.

    GET /api/v1/namespaces/kube-system/pods/etcd-cp-1/portforward?ports=2379
    frames in:  0 <port, two bytes> | 0 <data> | 1 <port, two bytes> | 1 <what went wrong>
    frames out: 0 <data>

The API server hands the upgraded connection on to the kubelet and that to the container runtime, which answers; only
the newer `SPDY/3.1+portforward.k8s.io` is opened up by the API server itself, and needs SPDY inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import urllib.parse
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from steelyard.controllers.lifecycle.members.exchange import Unreachable, why
from steelyard.kube.client import tls
from steelyard.kube.client.kubeconfig import Connection, InvalidKubeconfig

if TYPE_CHECKING:
    import aiohttp

_PROTOCOL: Final = "v4.channel.k8s.io"
_CONNECT_SECONDS: Final = 5.0
_LARGEST_FRAME: Final = 1 << 20
_DATA, _TROUBLE = b"\x00", b"\x01"
_CHUNK: Final = 1 << 15
_PORT_BYTES: Final = 2
_SHOWN: Final = 300


@contextlib.asynccontextmanager
async def opened(connection: Connection, namespace: str, pod: str, port: int) -> AsyncGenerator[socket.socket]:
    """What is written to the socket arrives at the port, and the other way round, until the block ends.

    Raises Unreachable. Trouble later on ends the connection.
    """
    import aiohttp  # with the first cluster that needs it

    path = "/".join(urllib.parse.quote(part, safe="") for part in (namespace, "pods", pod, "portforward"))
    url = f"{connection.server.rstrip('/')}/api/v1/namespaces/{path}?ports={port}"
    headers = {"Authorization": f"Bearer {connection.token}"} if connection.token else {}
    where = f"pod {namespace}/{pod} (through the API server)"
    async with contextlib.AsyncExitStack() as stack:
        try:
            context = tls.context_of(connection)
            async with asyncio.timeout(_CONNECT_SECONDS):
                session = await stack.enter_async_context(aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()))
                frames = await session.ws_connect(
                    url,
                    protocols=(_PROTOCOL,),
                    ssl=context,
                    server_hostname=connection.tls_server_name or None,
                    headers=headers,
                    max_msg_size=_LARGEST_FRAME,
                )
        except TimeoutError:
            raise Unreachable(f"{where} has not answered within {_CONNECT_SECONDS:g} s") from None
        except aiohttp.WSServerHandshakeError as error:
            raise Unreachable(f"{where} cannot be reached: {error.status} {error.message[:_SHOWN]}") from error
        except (aiohttp.ClientError, InvalidKubeconfig, OSError) as error:
            raise Unreachable(f"{where} cannot be reached: {why(error)}") from error
        ours, theirs = socket.socketpair()
        stack.callback(theirs.close)
        stack.callback(ours.close)
        theirs.setblocking(False)
        carrying = asyncio.create_task(_carry(frames, theirs), name="port-forward")
        try:
            yield ours
        finally:
            carrying.cancel()
            await asyncio.wait([carrying])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await frames.close()


async def _carry(frames: aiohttp.ClientWebSocketResponse, end: socket.socket) -> None:
    """Until either side ends; then the other is told."""
    directions = [asyncio.create_task(_inwards(frames, end)), asyncio.create_task(_outwards(frames, end))]
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in directions:
            each.cancel()
        await asyncio.wait(directions)
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


async def _inwards(frames: aiohttp.ClientWebSocketResponse, end: socket.socket) -> None:
    import aiohttp

    loop = asyncio.get_running_loop()
    to_skip = {_DATA: _PORT_BYTES, _TROUBLE: _PORT_BYTES}
    with contextlib.suppress(OSError):
        while True:
            frame = await frames.receive()
            if frame.type != aiohttp.WSMsgType.BINARY or not frame.data:
                return
            channel, content = frame.data[:1], frame.data[1:]
            skipped = to_skip.get(channel, 0)
            to_skip[channel] = max(0, skipped - len(content))
            content = content[skipped:]
            if channel == _TROUBLE and content:
                return
            if channel == _DATA and content:
                await loop.sock_sendall(end, content)


async def _outwards(frames: aiohttp.ClientWebSocketResponse, end: socket.socket) -> None:
    import aiohttp

    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, aiohttp.ClientError):
        while content := await loop.sock_recv(end, _CHUNK):
            await frames.send_bytes(_DATA + content)
