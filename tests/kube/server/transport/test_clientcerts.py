"""Certificates that clients show: who is believed, and what those hear who are not."""

from __future__ import annotations

import contextlib
import datetime
import ssl
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from steelyard.kube import pki
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, Reply
from steelyard.kube.server.transport import clientcerts, tlsfiles
from steelyard.kube.server.transport.application import WatchStream
from steelyard.kube.server.transport.tls import ServingTls
from tests.kube.server import serving
from tests.kube.server.serving import Site

PATH = "/api/v1/namespaces/default/configmaps"
NOW = serving.NOW
DAY = datetime.timedelta(days=1)
STRANGER = pki.new_authority("stranger", now=NOW)


def of(authority: KeyPair, *, start: datetime.datetime = NOW) -> KeyPair:
    return pki.issue_client(authority, "root", [SYSTEM_MASTERS], now=start, lifetime=DAY)


CASES = {
    "trusted": (of(serving.AUTHORITY), 200),
    "of another authority": (of(STRANGER), 401),
    "of another authority of the same name": (of(pki.new_authority("ca", now=NOW)), 401),
    "expired": (of(serving.AUTHORITY, start=NOW - 30 * DAY), 401),
    "not valid yet": (of(serving.AUTHORITY, start=NOW + 30 * DAY), 401),
    "for servers only": (pki.issue_serving(serving.AUTHORITY, "root", ["root"], now=NOW), 401),
    "signed by a client": (of(of(serving.AUTHORITY)), 401),
}


class Backend:
    """Has an answer for everybody who gets as far."""

    async def call(self, call: Call) -> Reply:
        return Reply(200, {"kind": "X"})

    async def watch(self, call: Call) -> WatchStream:
        raise NotImplementedError

    def authorize(self, call: Call) -> None:
        return None

    def check(self, call: Call) -> None:
        return None

    def size(self, call: Call) -> int:
        return 0

    def document(self, path: str, accept: str) -> Document | None:
        return None

    def paths(self) -> list[str]:
        return []


@pytest.fixture
async def site() -> AsyncGenerator[Site]:
    async with serving.served(Backend()) as site:
        yield site


@pytest.mark.parametrize(("certificate", "code"), CASES.values(), ids=CASES)
async def test_a_certificate_is_believed_or_answered_401(site: Site, certificate: KeyPair, code: int) -> None:
    answer = await site.request("GET", PATH, token=None, certificate=certificate)
    assert answer.code == code
    if code == 401:
        assert answer.json()["message"] == "Unauthorized"


async def test_a_token_counts_where_the_certificate_does_not(site: Site) -> None:
    assert (await site.request("GET", PATH, certificate=of(STRANGER))).code == 200
    assert (await site.request("GET", PATH, token="wrong", certificate=of(STRANGER))).code == 401
    assert (await site.request("GET", PATH, token="wrong", certificate=of(serving.AUTHORITY))).code == 200


async def test_a_certificate_that_expires_on_an_open_connection_counts_no_more(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = await site.connect(of(serving.AUTHORITY))
    request = f"GET {PATH} HTTP/1.1\r\nhost: a\r\n\r\n".encode()
    writer.write(request)
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    later = (NOW + 2 * DAY).timestamp()
    monkeypatch.setattr("steelyard.kube.server.transport.protocol.time.time", lambda: later)
    await reader.readuntil(b"\r\n\r\n")
    writer.write(request)
    while not (line := await reader.readline()).startswith(b"HTTP/1.1"):
        if b"HTTP/1.1" in line:
            break
    assert b"HTTP/1.1 401" in line
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


async def test_without_the_means_an_untrusted_certificate_ends_the_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clientcerts, "_library", lambda: None)
    async with serving.served(Backend()) as site:
        assert (await site.request("GET", PATH, token=None, certificate=of(serving.AUTHORITY))).code == 200
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await site.request("GET", PATH, certificate=of(STRANGER))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_resumed_session_is_not_better_than_its_first(version: ssl.TLSVersion) -> None:
    server = ServingTls(serving.SERVING, serving.AUTHORITY.certificate).context()
    for authority, is_trusted in ((serving.AUTHORITY, True), (STRANGER, False)):
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        client.maximum_version = version
        tlsfiles.load(client, of(authority))
        session: ssl.SSLSession | None = None
        for has_been_here in (False, True):
            ours, theirs = _connect(server, client, session)
            assert theirs.session_reused is has_been_here
            assert ours.getpeercert(binary_form=True)
            assert clientcerts.is_trusted(ours) is is_trusted
            session = theirs.session


def _connect(
    server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory, the client's with the server's tickets read."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, session=session)
    for _ in range(5):
        for each in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                each.do_handshake()
    with contextlib.suppress(ssl.SSLWantReadError):
        theirs.read()
    return ours, theirs
