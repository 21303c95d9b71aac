"""Where a port of a simulated cluster's pods leads: to its own member of etcd, to its own API, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import errno
import os
import socket
import ssl
import tempfile
from typing import cast

import pytest

from steelyard.kube import errors, pki
from steelyard.kube.client.interface import Client
from steelyard.kube.pki import KeyPair
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.server.transport.portforward import Unreachable
from steelyard.providers.simulated import boot
from steelyard.providers.simulated.ensembles import Ensembles, Host
from steelyard.providers.simulated.podports import Ports
from tests.kube.runtime.memory import MemoryClient

NOW = datetime.datetime.now(datetime.UTC)
AUTHORITY = pki.new_authority("etcd-ca", now=NOW)
HOST = Host("cp", "127.5.4.3")


def ports(*hosts: Host, api: int = 20001) -> Ports:
    async def authority(_: Host) -> KeyPair | None:
        return AUTHORITY

    client = cast(Client, MemoryClient())
    ensembles = Ensembles(lambda _: client, clocks.SYSTEM)
    return Ports("c", ensembles, lambda: hosts, authority, lambda: ("127.0.0.1", api))


@pytest.mark.parametrize(
    ("namespace", "pod", "port"),
    [
        pytest.param("default", "etcd-cp", 2379, id="a pod of that name that a tenant made"),
        pytest.param("kube-system", "etcd-other", 2379, id="a machine that is not there"),
        pytest.param("kube-system", "etcd-cp", 2380, id="another port"),
        pytest.param("kube-system", "kube-apiserver-cp", 22, id="another port of the API server"),
        pytest.param("kube-system", "kube-scheduler-cp", 10259, id="what nobody simulates"),
        pytest.param("kube-system", "etcd-127.0.0.1", 2379, id="an address"),
    ],
)
async def test_leads_nowhere_else(namespace: str, pod: str, port: int) -> None:
    with pytest.raises(Unreachable, match="refused"):
        await ports(HOST).dial()(namespace, pod, port)


async def test_a_machine_that_is_off_is_not_reached() -> None:
    with pytest.raises(Unreachable):
        await ports().dial()("kube-system", "etcd-cp", 2379)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(boot.BadBootstrapData("Secret team/b does not exist"), id="its bootstrap data is damaged"),
        pytest.param(errors.ServiceUnavailable("the store is closed"), id="the platform does not answer"),
    ],
)
async def test_a_member_that_cannot_be_started_says_why(error: Exception) -> None:
    async def authority(_: Host) -> KeyPair | None:
        raise error

    with pytest.raises(Unreachable, match=r"machine cp cannot start its member of etcd: (Secret team/b|the store)"):
        await dataclasses.replace(ports(HOST), authority=authority).dial()("kube-system", "etcd-cp", 2379)


async def test_a_process_without_descriptors_takes_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> tuple[socket.socket, socket.socket]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(socket, "socketpair", none_left)
    with pytest.raises(Unreachable, match="takes no connection: Too many open files"):
        await ports(HOST).dial()("kube-system", "etcd-cp", 2379)


@pytest.mark.parametrize("request_line", [b"X", b"", b"GET  / HTTP/1.1", "GET /é HTTP/1.1".encode()])
async def test_what_is_no_request_ends_the_connection_quietly(
    request_line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    opened = ports(HOST)
    reader, writer = await opened.dial()("kube-system", "etcd-cp", 2379)
    await writer.start_tls(_context(pki.issue_client(AUTHORITY, "admin", now=NOW)), server_hostname="cp")
    writer.write(request_line + b"\r\n\r\n")
    async with asyncio.timeout(20):
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
    await opened.ensembles.close()
    writer.transport.abort()
    assert caplog.records == []


async def test_the_one_member_of_a_cluster_answers_without_a_port() -> None:
    opened = ports(HOST)
    reader, writer = await opened.dial()("kube-system", "etcd-cp", 2379)
    await writer.start_tls(_context(pki.issue_client(AUTHORITY, "admin", now=NOW)), server_hostname="cp")
    body = b"{}"
    writer.write(b"POST /v3/cluster/member/list HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        answer = await reader.read(1000)
    assert b" 200 " in head
    assert b'"name":"cp"' in answer
    with pytest.raises(OSError):
        await asyncio.open_connection(HOST.address, 2379)
    await opened.ensembles.close()
    writer.transport.abort()


async def test_whoever_has_no_certificate_of_the_cluster_is_not_answered() -> None:
    opened = ports(HOST)
    stranger = pki.issue_client(pki.new_authority("other", now=NOW), "admin", now=NOW)
    reader, writer = await opened.dial()("kube-system", "etcd-cp", 2379)

    async def ask() -> bytes:
        await writer.start_tls(_context(stranger), server_hostname="cp")
        writer.write(b"POST /v3/cluster/member/list HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        async with asyncio.timeout(5):
            return await reader.readexactly(1)

    with pytest.raises((ssl.SSLError, OSError, EOFError)):
        await ask()
    await opened.ensembles.close()
    writer.transport.abort()


def _context(own: KeyPair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(own.certificate + own.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
