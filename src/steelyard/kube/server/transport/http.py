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
from steelyard.kube.server.access import defaults
from steelyard.kube.server.fairness import memory
from steelyard.kube.server.fairness.shares import Limits, Shares
from steelyard.kube.server.rights.authn import Authenticator, TokensAndCertificates
from steelyard.kube.server.rights.authz import Authorizer
from steelyard.kube.server.transport import door, tlsfiles
from steelyard.kube.server.transport import metrics as request_metrics
from steelyard.kube.server.transport.application import Application, Backend
from steelyard.kube.server.transport.audit import AuditLog
from steelyard.kube.server.transport.health import Check, HealthPaths
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.server.transport.metrics import RequestMetrics
from steelyard.kube.server.transport.operations import Operations
from steelyard.kube.server.transport.portforward import Dial, Forwards
from steelyard.kube.server.transport.protocol import Connection, Traffic, read_buffer
from steelyard.kube.server.transport.tls import ServingTls

DEFAULT_VERSION: Final = "v1.34.4"
CLOSE_DEADLINE: Final = 5.0
"""Seconds that requests in flight get to finish when a listener closes."""


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
    commons: Commons | None = None,
    is_platform: bool = True,
    audit: AuditLog | None = None,
    dial: Dial | None = None,
) -> Listener:
    """Serves the API until the listener is closed. Port 0 takes a free one. `audit` gets a line per request.

    `version` is what `/version` says; `checks` add to `/healthz`, `/livez` and `/readyz`; `operations` are paths for
    administrators only. Without `tls` it speaks plain HTTP, which no client certificate can come through.

    `commons` is what it shares with other servers of the process; a server of its own has the given `limits` or the
    usual ones. `is_platform` says that its administrators are those of the process, and never wait. `dial` reaches
    what is behind the ports of pods; without it there is no port-forward.
    """
    memory.tune()
    metrics = metrics or request_metrics.DEFAULT
    authenticator = authenticator or TokensAndCertificates()
    health = HealthPaths(version, checks or {}, metrics)
    commons = commons or Commons(Shares(limits or Limits()))
    share = commons.shares.share(is_platform=is_platform)
    app = Application(
        api,
        authenticator,
        authorizer or defaults.policy(),
        health,
        metrics,
        operations or {},
        share,
        audit,
        Forwards(dial) if dial is not None else None,
    )
    traffic = Traffic(commons.door, commons.intake)
    buffer = read_buffer()
    context = tls.context() if tls is not None else None
    entrance = door.Entrance(
        commons.door,
        await door.listening_sockets(host, port),
        lambda: Connection(app, traffic, authenticator, buffer),
        context,
    )
    return Listener(entrance, traffic, health, context)


class Listener:
    def __init__(
        self, entrance: door.Entrance, traffic: Traffic, health: HealthPaths, context: ssl.SSLContext | None
    ) -> None:
        self._entrance = entrance
        self._traffic = traffic
        self.health = health
        self._context = context
        self.host, self.port = entrance.address

    def present(self, certificate: KeyPair) -> None:
        """Shows this certificate to whoever connects from now on; connections that are open stay as they are."""
        assert self._context is not None
        tlsfiles.load(self._context, certificate)

    async def close(self, deadline: float = CLOSE_DEADLINE) -> None:
        """Stops accepting, ends watches, lets other requests finish within the deadline, then cuts what is left."""
        self._entrance.close()
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
