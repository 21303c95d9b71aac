"""Both clients on the real server: in the same process, and over TLS with a kubeconfig and a client certificate."""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from steelyard.kube import pki
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS
from steelyard.kube.server.rights.authn import TokensAndCertificates
from steelyard.kube.server.transport import http
from steelyard.kube.server.transport.tls import ServingTls

NOW = datetime.datetime.now(datetime.UTC)
AUTHORITY = pki.new_authority("test", now=NOW)
SERVING = pki.issue_serving(AUTHORITY, "kube-apiserver", ["127.0.0.1", "localhost"], now=NOW)
ADMIN = pki.issue_client(AUTHORITY, "admin", [SYSTEM_MASTERS], now=NOW)


@asynccontextmanager
async def local(api: Api) -> AsyncGenerator[Client]:
    yield LocalClient(api)


async def listen(api: Api, port: int = 0) -> http.Listener:
    return await http.listen(
        api, "127.0.0.1", port, tls=ServingTls(SERVING, AUTHORITY.certificate), authenticator=TokensAndCertificates()
    )


def client_of(listener: http.Listener) -> HttpClient:
    config = kubeconfig.build(
        "test",
        f"https://127.0.0.1:{listener.port}",
        certificate_authority=AUTHORITY.certificate,
        client_certificate=ADMIN.certificate,
        client_key=ADMIN.key,
    )
    return HttpClient.from_kubeconfig(config.to_yaml())


@asynccontextmanager
async def over_https(api: Api) -> AsyncGenerator[Client]:
    listener = await listen(api)
    client = client_of(listener)
    try:
        yield client
    finally:
        await client.close()
        await listener.close()
