"""Servers that answer as a test wants, for the HTTPS client."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from steelyard.kube.client import kubeconfig
from steelyard.kube.client.http import HttpClient

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, ssl_context: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(server: str, **options: Any) -> AsyncGenerator[HttpClient]:
    client = HttpClient(kubeconfig.Connection(server, **options))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def answering(handler: Handler) -> AsyncGenerator[HttpClient]:
    async with serving(handler) as server, client_of(server) as client:
        yield client
