"""Ways to the etcd member on a machine: straight to its port, and through the cluster's API server.

    platform ──TLS──▶ machine:2379                                  where the platform's host reaches the machines
    platform ──▶ API server ──▶ kubelet ──▶ the machine's 2379      where only the cluster's endpoint is reached

The second carries the same TLS inside, so on both it is etcd's own certificate that proves who answers: it must be of
the cluster's etcd authority and for the machine's Node. Where the first leads is what the infrastructure says of the
machine; what the cluster's own API says of its Nodes is up to the cluster's administrators.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

from steelyard.controllers.lifecycle.members import portforward
from steelyard.controllers.lifecycle.members.exchange import Conversation, Unreachable, why
from steelyard.controllers.lifecycle.members.leaving import Host
from steelyard.kube.client.kubeconfig import Connection

PORT: Final = 2379
CONNECT_SECONDS: Final = 3.0
_MOST_ADDRESSES: Final = 4

Road: TypeAlias = Callable[[Host], AbstractAsyncContextManager[Conversation]]
"""Raises Unreachable."""
_Opening: TypeAlias = Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]


def straight(context: ssl.SSLContext) -> Road:
    @contextlib.asynccontextmanager
    async def road(host: Host) -> AsyncGenerator[Conversation]:
        conversation = await _first(host, context)
        try:
            yield conversation
        finally:
            await conversation.close()

    return road


def through(connection: Connection, context: ssl.SSLContext) -> Road:
    """`connection` is that of the cluster's API server."""

    @contextlib.asynccontextmanager
    async def road(host: Host) -> AsyncGenerator[Conversation]:
        if not host.node:
            raise Unreachable(f"Machine {host.machine} has no Node yet")
        where = f"etcd on Node {host.node} (through the API server)"
        async with portforward.opened(connection, "kube-system", f"etcd-{host.node}", PORT) as forwarded:
            opening = asyncio.open_connection(sock=forwarded, ssl=context, server_hostname=host.node)
            conversation = await _opened(opening, where)
            try:
                yield conversation
            finally:
                await conversation.close()

    return road


async def _first(host: Host, context: ssl.SSLContext) -> Conversation:
    """Of its addresses, the first that leads to etcd."""
    if not host.addresses:
        raise Unreachable(f"Machine {host.machine} has no address", is_nobody=True)
    failures: list[Unreachable] = []
    for address in host.addresses[:_MOST_ADDRESSES]:
        where = f"etcd at [{address}]:{PORT}" if ":" in address else f"etcd at {address}:{PORT}"
        opening = asyncio.open_connection(address, PORT, ssl=context, server_hostname=host.node or address)
        try:
            return await _opened(opening, where)
        except Unreachable as failure:
            failures.append(failure)
    raise Unreachable("; ".join(map(str, failures)), is_nobody=all(each.is_nobody for each in failures))


async def _opened(opening: _Opening, where: str) -> Conversation:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await opening
    except TimeoutError:
        raise Unreachable(f"{where} has not answered within {CONNECT_SECONDS:g} s") from None
    except ssl.SSLCertVerificationError as error:
        problem = error.verify_message or why(error)
        message = f"what answers as {where} does not prove to be the cluster's: {problem}"
        raise Unreachable(message, is_nobody=True) from error
    except ConnectionRefusedError:
        raise Unreachable(f"{where}: connection refused", is_nobody=True) from None
    except OSError as error:
        raise Unreachable(f"{where} cannot be reached: {why(error)}") from error
    return Conversation(reader, writer, where)
