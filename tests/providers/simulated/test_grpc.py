"""Members of etcd as gRPC's own client sees them, and the headers of HTTP/2 as their specification has them."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import grpc
import grpc.aio
import pytest

from steelyard.kube import pki
from steelyard.kube.builtin import wire
from steelyard.kube.objects import Object
from steelyard.providers.simulated import ensemble, grpcserver, hpack
from steelyard.providers.simulated.ensemble import Ensemble
from steelyard.providers.simulated.memberserver import PORT, MemberServer

NOW = datetime.datetime.now(datetime.UTC)
AUTHORITY = pki.new_authority("etcd-ca", now=NOW)
ADDRESS = "127.3.2.1"
STATUS, MEMBERS = "/etcdserverpb.Maintenance/Status", "/etcdserverpb.Cluster/MemberList"
MOVE, REMOVE = "/etcdserverpb.Maintenance/MoveLeader", "/etcdserverpb.Cluster/MemberRemove"


class Etcd:
    def __init__(self) -> None:
        found = ensemble.new("c")
        for name in ("a", "b", "c"):
            found = found.joined(name, ADDRESS)
        self.now: Ensemble = found.with_running(["a", "b", "c"])

    async def answer(self, path: str, question: Object) -> tuple[int, Object]:
        found = ensemble.answer(self.now, "a", path, question)
        self.now = found.after or self.now
        return found.status, found.body


@pytest.fixture
def etcd() -> Etcd:
    return Etcd()


@pytest.fixture
async def channel(etcd: Etcd) -> AsyncIterator[grpc.aio.Channel]:
    server = MemberServer(etcd.answer, ADDRESS, "a", AUTHORITY, now=NOW)
    await server.listen()
    own = pki.issue_client(AUTHORITY, "admin", now=NOW)
    credentials = grpc.ssl_channel_credentials(AUTHORITY.certificate, own.key, own.certificate)
    async with grpc.aio.secure_channel(f"{ADDRESS}:{PORT}", credentials) as opened:
        yield opened
    await server.stop()


async def call(channel: grpc.aio.Channel, path: str, message: bytes = b"") -> dict[int, list[int | bytes]]:
    # Without a serializer, what is sent and what comes are bytes; gRPC's types cannot say so.
    ask = cast("Callable[..., Awaitable[bytes]]", channel.unary_unary(path))
    return fields(await ask(message, timeout=10))


def fields(message: bytes) -> dict[int, list[int | bytes]]:
    found: dict[int, list[int | bytes]] = {}
    for number, value, start, end in wire.fields(message, 0, len(message)):
        found.setdefault(number, []).append(message[start:end] if end > start else value)
    return found


async def test_members_are_told_with_names_and_addresses(channel: grpc.aio.Channel) -> None:
    told = [fields(each) for each in (await call(channel, MEMBERS))[2] if isinstance(each, bytes)]
    assert [each[2] for each in told] == [[b"a"], [b"b"], [b"c"]]
    assert {tuple(each[4]) for each in told} == {(f"https://{ADDRESS}:2379".encode(),)}


async def test_leadership_is_moved_and_a_member_removed(channel: grpc.aio.Channel, etcd: Etcd) -> None:
    a, b, _ = etcd.now.members
    assert (await call(channel, STATUS))[4] == [a.id]
    await call(channel, MOVE, b"\x08" + _varint(b.id))
    assert (await call(channel, STATUS))[4] == [b.id]
    left = await call(channel, REMOVE, b"\x08" + _varint(b.id))
    assert len(left[2]) == 2
    assert [each.name for each in etcd.now.members] == ["a", "c"]


@pytest.mark.parametrize(
    ("path", "message", "code"),
    [
        pytest.param(REMOVE, b"\x08\x2a", grpc.StatusCode.NOT_FOUND, id="a member that is not there"),
        pytest.param(MOVE, b"\x08\x2a", grpc.StatusCode.FAILED_PRECONDITION, id="leadership to nobody"),
        pytest.param("/etcdserverpb.KV/Range", b"", grpc.StatusCode.UNIMPLEMENTED, id="what it does not have"),
        pytest.param(REMOVE, b"\x08\xff", grpc.StatusCode.INTERNAL, id="no message at all"),
    ],
)
async def test_refuses(channel: grpc.aio.Channel, path: str, message: bytes, code: grpc.StatusCode) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call(channel, path, message)
    assert refused.value.code() == code


async def test_answers_many_calls_on_one_connection(channel: grpc.aio.Channel) -> None:
    answers = await asyncio.gather(*(call(channel, MEMBERS) for _ in range(200)))
    assert all(len(each[2]) == 3 for each in answers)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", id="HTTP of before"),
        pytest.param(grpcserver.PREFACE + bytes.fromhex("ffffff0000 00000001".replace(" ", "")), id="a long frame"),
        pytest.param(grpcserver.PREFACE + bytes.fromhex("000001010500000001ff"), id="headers that are none"),
        pytest.param(grpcserver.PREFACE + bytes.fromhex("000003010500000001400541"), id="a text cut off"),
    ],
)
async def test_what_is_no_grpc_ends_the_connection(sent: bytes) -> None:
    async def never(path: str, message: bytes) -> grpcserver.Reply:
        raise AssertionError(path)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await grpcserver.Conversation(reader, writer, never, silence=5.0).run()
        except (EOFError, grpcserver.Misspoken) as error:
            ended.set_result(error)
        finally:
            writer.close()

    ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(sent)
    async with asyncio.timeout(5):
        assert isinstance(await ended, grpcserver.Misspoken)
    writer.close()
    server.close()


def test_headers_are_read_as_the_specification_has_them() -> None:
    """RFC 7541, appendix C.4: three requests on one connection, packed."""
    decoder = hpack.Decoder()
    first = decoder.headers(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff"))
    assert first == {":method": "GET", ":scheme": "http", ":path": "/", ":authority": "www.example.com"}
    second = decoder.headers(bytes.fromhex("828684be5886a8eb10649cbf"))
    assert second == {**first, "cache-control": "no-cache"}
    third = decoder.headers(bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"))
    assert third == {**first, ":scheme": "https", ":path": "/index.html", "custom-key": "custom-value"}


def test_headers_are_written_so_that_they_can_be_read() -> None:
    headers = {"grpc-status": "14", "grpc-message": "no leader " * 40}
    assert hpack.Decoder().headers(hpack.encoded(headers.items())) == headers


def _varint(value: int) -> bytes:
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))
