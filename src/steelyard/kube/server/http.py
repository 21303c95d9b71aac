"""Serving an API over HTTPS. Many listeners live in one process, and an idle one has no thread and no timer.

listener = await http.listen(api, "127.0.0.1", 0, tls=ServingTls(...), authenticator=TokensAndCertificates(...))
listener.port
await listener.close()
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from steelyard.kube.pki import KeyPair
from steelyard.kube.server import metrics as request_metrics
from steelyard.kube.server import tlsfiles
from steelyard.kube.server.access import defaults
from steelyard.kube.server.application import Application, Backend
from steelyard.kube.server.audit import AuditLog
from steelyard.kube.server.authn import Authenticator, TokensAndCertificates
from steelyard.kube.server.authz import Authorizer
from steelyard.kube.server.endpoints import Check, Endpoints
from steelyard.kube.server.limits import InFlight, Limits
from steelyard.kube.server.metrics import RequestMetrics
from steelyard.kube.server.operations import Operations
from steelyard.kube.server.protocol import Connection, Traffic, read_buffer
from steelyard.kube.server.tls import ServingTls

DEFAULT_VERSION: Final = "v1.34.4"
CLOSE_DEADLINE: Final = 5.0
"""Seconds that requests in flight get to finish when a listener closes."""
_BACKLOG: Final = 1024
_HANDSHAKE_SECONDS: Final = 10.0
"""For a client to say hello or goodbye; one that is silent holds nothing longer than that."""


async def listen(
    api: Backend,
    host: str,
    port: int,
    *,
    tls: ServingTls | None,
    authenticator: Authenticator | None = None,
    authorizer: Authorizer | None = None,
    version: str = DEFAULT_VERSION,
    checks: Mapping[str, Check] | None = None,
    metrics: RequestMetrics | None = None,
    operations: Operations | None = None,
    limits: Limits | None = None,
    audit: AuditLog | None = None,
) -> Listener:
    """Serves the API until the listener is closed. Port 0 takes a free one. `audit` gets a line per request.

    `version` is what `/version` says; `checks` add to `/healthz`, `/livez` and `/readyz`; `operations` are paths for
    administrators only. Without `tls` it speaks plain
    HTTP, which no client certificate can come through.
    """
    metrics = metrics or request_metrics.DEFAULT
    authenticator = authenticator or TokensAndCertificates()
    endpoints = Endpoints(version, checks or {}, metrics)
    in_flight = InFlight(limits or Limits())
    app = Application(
        api, authenticator, authorizer or defaults.policy(), endpoints, metrics, operations or {}, in_flight, audit
    )
    traffic = Traffic()
    buffer = read_buffer()
    context = tls.context() if tls is not None else None
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(app, traffic, authenticator, buffer),
        host,
        port,
        ssl=context,
        ssl_handshake_timeout=_HANDSHAKE_SECONDS if tls is not None else None,
        ssl_shutdown_timeout=_HANDSHAKE_SECONDS if tls is not None else None,
        backlog=_BACKLOG,
    )
    return Listener(server, traffic, endpoints, context)


class Listener:
    def __init__(
        self, server: asyncio.Server, traffic: Traffic, endpoints: Endpoints, context: ssl.SSLContext | None
    ) -> None:
        self._server = server
        self._traffic = traffic
        self.endpoints = endpoints
        self._context = context
        address = server.sockets[0].getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    def present(self, certificate: KeyPair) -> None:
        """Shows this certificate to whoever connects from now on; connections that are open stay as they are."""
        assert self._context is not None
        tlsfiles.load(self._context, certificate)

    async def close(self, deadline: float = CLOSE_DEADLINE) -> None:
        """Stops accepting, ends watches, lets other requests finish within the deadline, then cuts what is left."""
        self._server.close()
        for connection in list(self._traffic.connections):
            connection.end_stream()
            connection.shutdown()
        tasks = set(self._traffic.tasks)
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=deadline)
            for task in unfinished:
                task.cancel()
        for connection in list(self._traffic.connections):
            connection.abort()
        await self._server.wait_closed()
