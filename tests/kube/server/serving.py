"""A listener on a free port, and a client for it: for tests that speak HTTP to the server."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import io
import ssl
import tempfile
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from prometheus_client import CollectorRegistry

from steelyard.kube import pki
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.rights.authn import TokensAndCertificates, hash_token
from steelyard.kube.server.transport import http
from steelyard.kube.server.transport.application import Backend
from steelyard.kube.server.transport.http import Listener
from steelyard.kube.server.transport.metrics import RequestMetrics
from steelyard.kube.server.transport.tls import ServingTls

NOW = datetime.datetime.now(datetime.UTC)
AUTHORITY = pki.new_authority("test-ca", now=NOW)
SERVING = pki.issue_serving(AUTHORITY, "test", ["127.0.0.1", "localhost"], now=NOW)
ADMIN_TOKEN = "admin-token"
JANE_TOKEN = "jane-token"
TOKENS = {
    hash_token(ADMIN_TOKEN): User("admin", (SYSTEM_MASTERS,)),
    hash_token(JANE_TOKEN): User("jane"),
}


@dataclass
class Response:
    code: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


def client_context(certificate: KeyPair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    if certificate is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate.certificate + certificate.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


@dataclass
class Site:
    """A served API. Requests are made as the administrator unless told otherwise."""

    listener: Listener
    session: aiohttp.ClientSession
    metrics: RequestMetrics
    opened: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": f"Bearer {ADMIN_TOKEN}"})

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.listener.port}{path}"

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = ADMIN_TOKEN,
        headers: Mapping[str, str] | None = None,
        certificate: KeyPair | None = None,
    ) -> Response:
        sent = {"Authorization": f"Bearer {token}"} if token is not None else {}
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent |= headers or {}
        context = client_context(certificate)
        skipped = () if "Content-Type" in sent else ("Content-Type",)
        async with self.session.request(
            method,
            self.url(path),
            data=io.BytesIO(data) if data is not None else None,
            headers=sent,
            ssl=context,
            skip_auto_headers=skipped,
            allow_redirects=False,
        ) as response:
            return Response(response.status, response.headers, await response.read())

    async def promote(self, name: str) -> None:
        """Lets a user do everything, without being an administrator of the server."""
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        body: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [user],
        }
        answer = await self.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", body)
        assert answer.code == 201, answer.body

    async def connect(
        self, certificate: KeyPair | None = None, *, tls: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which a test writes bytes as it pleases; it ends with the site. Without `tls` nobody has said
        hello on it."""
        context = client_context(certificate) if tls else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, ssl=context)
        self.opened.append(writer)
        return reader, writer

    def abort(self) -> None:
        for writer in self.opened:
            with contextlib.suppress(AttributeError):
                writer.transport.abort()


@contextlib.asynccontextmanager
async def served(backend: Backend, **options: Any) -> AsyncGenerator[Site]:
    metrics = RequestMetrics(CollectorRegistry())
    listener = await http.listen(
        backend,
        "127.0.0.1",
        0,
        tls=ServingTls(SERVING, AUTHORITY.certificate),
        authenticator=TokensAndCertificates(TOKENS),
        metrics=metrics,
        **options,
    )
    # One connection per request, so that each test sees its own credentials and none outlives it.
    connector = aiohttp.TCPConnector(force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            site = Site(listener, session, metrics)
            try:
                yield site
            finally:
                site.abort()
    finally:
        await listener.close()


def expired_client() -> KeyPair:
    long_ago = NOW - datetime.timedelta(days=30)
    return pki.issue_client(AUTHORITY, "late", now=long_ago, lifetime=datetime.timedelta(days=1))
