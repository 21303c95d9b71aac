"""Ports of pods through the API server, asked for as client-go does: an upgrade to SPDY, then two streams each."""

from __future__ import annotations

import asyncio
import gc
import struct
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from steelyard.kube import pki
from steelyard.kube.pki import KeyPair
from steelyard.kube.server.api import Api
from steelyard.kube.server.fairness.shares import Flow
from steelyard.kube.server.transport import portforward, spdy
from steelyard.kube.server.transport.portforward import Ends, Unreachable
from steelyard.kube.store.store import Store
from tests.kube.server.bench import eventually
from tests.kube.server.serving import ADMIN_TOKEN, AUTHORITY, JANE_TOKEN, NOW, Site, served

PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
PATIENCE = 20.0
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}


@dataclass
class Echo:
    """What is behind port 7: whatever is sent there comes back, in capitals. Behind port 9 nobody reads, and when told
    to it goes away."""

    dialled: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    servers: list[asyncio.Server] = field(default_factory=list[asyncio.Server])
    unread: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])
    goes_away: asyncio.Event = field(default_factory=asyncio.Event)

    async def dial(self, namespace: str, pod: str, port: int) -> Ends:
        self.dialled.append((namespace, pod, port))
        if port == 10:
            raise LookupError("something nobody thought of")
        if port not in (7, 9):
            raise Unreachable("nobody is there")
        server = await asyncio.start_server(self._shout if port == 7 else self._go_away, "127.0.0.1", 0)
        self.servers.append(server)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        if port == 9:
            self.unread.append(writer)
        return reader, writer

    async def _shout(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data.upper())
        writer.close()

    async def _go_away(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cast(asyncio.Transport, writer.transport).pause_reading()
        await self.goes_away.wait()
        writer.transport.abort()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    yield api
    await api.close()
    await store.close()


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
async def site(api: Api, echo: Echo) -> AsyncIterator[Site]:
    async with served(api, dial=echo.dial) as site:
        answer = await site.request("POST", PODS, POD)
        assert answer.code == 201, answer.body
        yield site
    for server in echo.servers:
        server.close()


class Forwarded:
    """The client's end of an upgraded connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._heads = zlib.compressobj(zdict=spdy._DICTIONARY)  # pyright: ignore[reportPrivateUsage]

    def open(self, stream: int, kind: str, port: int | str, request: str = "0") -> None:
        pairs = {"streamtype": kind, "port": str(port), "requestid": request}
        plain = struct.pack(">I", len(pairs))
        for text in (text for pair in pairs.items() for text in pair):
            plain += struct.pack(">I", len(text)) + text.encode()
        block = self._heads.compress(plain) + self._heads.flush(zlib.Z_SYNC_FLUSH)
        self.writer.write(spdy.control(spdy.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + block))

    async def frame(self) -> spdy.Frame:
        async with asyncio.timeout(PATIENCE):
            head = await self.reader.readexactly(spdy.HEAD_BYTES)
            return spdy.frame(head, await self.reader.readexactly(spdy.length(head)))

    async def has_ended(self) -> bool:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read() == b""


async def forwarded(
    site: Site, early: bytes = b"", token: str = ADMIN_TOKEN, certificate: KeyPair | None = None
) -> Forwarded:
    reader, writer = await site.connect(certificate)
    headers = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    head = f"POST {PODS}/p/portforward HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n{headers}"
    writer.write(f"{head}Content-Length: 0\r\n\r\n".encode() + early)
    async with asyncio.timeout(PATIENCE):
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert answer.startswith("http/1.1 101 "), answer
    assert "upgrade: spdy/3.1\r\n" in answer
    return Forwarded(reader, writer)


def _is_full(writer: asyncio.StreamWriter) -> bool:
    _, high = writer.transport.get_write_buffer_limits()
    return writer.transport.get_write_buffer_size() > high


async def pair(client: Forwarded, first: int = 1, port: int = 7) -> None:
    """Opens a stream for errors and one for data."""
    for stream, kind in ((first, "error"), (first + 2, "data")):
        client.open(stream, kind, port, request=str(first))
        reply = await client.frame()
        assert (reply.kind, reply.stream) == (spdy.SYN_REPLY, stream)


class TestAPort:
    async def test_carries_both_ways_until_the_client_ends_it(self, site: Site, echo: Echo) -> None:
        client = await forwarded(site)
        await pair(client)
        assert echo.dialled == [("default", "p", 7)]
        client.writer.write(spdy.data(3, b"hello "))
        assert (await client.frame()).content == b"HELLO "
        client.writer.write(spdy.data(3, b"there", last=True))
        found = [await client.frame() for _ in range(3)]
        assert [(each.stream, each.content, each.is_last) for each in found] == [
            (3, b"THERE", False),
            (1, b"", True),
            (3, b"", True),
        ]

    async def test_carries_what_has_come_of_a_frame_before_the_rest_does(self, site: Site) -> None:
        client = await forwarded(site)
        await pair(client)
        client.writer.write(struct.pack(">II", 3, spdy.FIN << 24 | spdy.MAX_FRAME_BYTES))
        half = spdy.MAX_FRAME_BYTES // 2
        for _ in range(2):
            client.writer.write(bytes(half))
            came = 0
            while came < half:
                found = await client.frame()
                came += len(found.content)
                assert (found.stream, found.is_last) == (3, False)
        assert [(await client.frame()).is_last for _ in range(2)] == [True, True]

    async def test_says_on_the_stream_for_errors_that_nobody_is_there(self, site: Site) -> None:
        client = await forwarded(site)
        await pair(client, port=8)
        found = await client.frame()
        assert (found.stream, found.content, found.is_last) == (1, b"nobody is there", True)

    async def test_that_fails_unexpectedly_is_answered_and_logged_once(
        self, site: Site, caplog: pytest.LogCaptureFixture
    ) -> None:
        client = await forwarded(site)
        await pair(client, port=10)
        found = await client.frame()
        assert (found.stream, found.is_last) == (1, True)
        assert b"internal error" in found.content
        assert b"nobody thought of" not in found.content
        assert (await client.frame()).stream == 3
        assert [each.message for each in caplog.records if each.levelname == "ERROR"] == ["port-forward failed"]
        await pair(client, first=5)

    @pytest.mark.parametrize("port", ["", "0", "-7", "65536", "0000801234", "000007", "7" * 400])
    async def test_that_is_none_is_refused(self, site: Site, echo: Echo, port: str) -> None:
        client = await forwarded(site)
        client.open(1, "data", port)
        assert (await client.frame()).kind == spdy.RST_STREAM
        assert echo.dialled == []

    async def test_that_goes_away_during_an_upload_leaves_the_others(self, site: Site, echo: Echo) -> None:
        client = await forwarded(site)
        await pair(client)
        await pair(client, first=5, port=9)
        for _ in range(16):
            client.writer.write(spdy.data(7, bytes(spdy.MAX_FRAME_BYTES)))
        await eventually(lambda: _is_full(echo.unread[0]))
        echo.goes_away.set()
        found = await client.frame()
        assert (found.stream, found.is_last) == (5, True)
        assert b"port 9" in found.content
        assert (await client.frame()).stream == 7
        client.writer.write(spdy.data(3, b"a"))
        assert (await client.frame()).content == b"A"

    async def test_that_is_given_up_before_anything_was_read_from_it_leaves_nothing(self, site: Site) -> None:
        client = await forwarded(site)
        for stream, kind in ((1, "error"), (3, "data")):
            client.open(stream, kind, 7)
        client.writer.write(spdy.reset(3))
        assert [(await client.frame()).stream for _ in range(2)] == [1, 3]
        await pair(client, first=5)
        gc.collect()  # What was made and never begun would be told now, as a warning.

    async def test_answers_whoever_asks_whether_it_is_there(self, site: Site) -> None:
        client = await forwarded(site)
        client.writer.write(spdy.control(spdy.PING, struct.pack(">I", 5)))
        found = await client.frame()
        assert (found.kind, found.content) == (spdy.PING, struct.pack(">I", 5))

    async def test_ends_with_the_server(self, api: Api, echo: Echo) -> None:
        async with served(api, dial=echo.dial) as site:
            await site.request("POST", PODS, POD)
            client = await forwarded(site)
            await pair(client)
            await site.listener.close()
            assert await client.has_ended()
        for server in echo.servers:
            server.close()

    async def test_takes_what_comes_right_after_the_request(self, site: Site) -> None:
        client = await forwarded(site, spdy.control(spdy.PING, struct.pack(">I", 7)))
        assert (await client.frame()).kind == spdy.PING


class TestRefused:
    async def test_without_the_right(self, site: Site, echo: Echo) -> None:
        answer = await site.request("POST", f"{PODS}/p/portforward", headers=UPGRADE, token=JANE_TOKEN)
        assert answer.code == 403
        assert "pods/portforward" in answer.json()["message"]
        assert echo.dialled == []

    async def test_for_a_pod_that_is_not_there(self, site: Site) -> None:
        assert (await site.request("POST", f"{PODS}/q/portforward", headers=UPGRADE)).code == 404

    @pytest.mark.parametrize("changed", ["Upgrade", "X-Stream-Protocol-Version"])
    async def test_in_another_protocol(self, site: Site, changed: str) -> None:
        answer = await site.request("POST", f"{PODS}/p/portforward", headers={**UPGRADE, changed: "other"})
        assert answer.code == 400, answer.body

    async def test_where_nothing_can_be_dialled(self, api: Api) -> None:
        async with served(api) as site:
            await site.request("POST", PODS, POD)
            assert (await site.request("POST", f"{PODS}/p/portforward", headers=UPGRADE)).code == 404

    async def test_beyond_so_many_at_once(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(portforward, "MAX_FORWARDS", 1)
        first, second = await forwarded(site), await forwarded(site)
        await pair(first)
        await pair(second)
        assert b"more than 1 ports" in (await second.frame()).content
        first.writer.write(spdy.control(spdy.GOAWAY, bytes(8)))
        assert await first.has_ended()
        third = await forwarded(site)
        await pair(third)
        third.writer.write(spdy.data(3, b"a"))
        assert (await third.frame()).content == b"A"


class TestConnections:
    async def test_of_one_user_are_half_of_what_the_server_has(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(portforward, "MAX_SESSIONS", 4)
        await site.promote("jane")
        opened = [await forwarded(site, token=JANE_TOKEN) for _ in range(2)]
        answer = await site.request("POST", f"{PODS}/p/portforward", headers=UPGRADE, token=JANE_TOKEN)
        assert (answer.code, answer.headers["Retry-After"]) == (429, "1")
        opened[0].writer.write(spdy.control(spdy.GOAWAY, bytes(8)))
        assert await opened[0].has_ended()
        await forwarded(site, token=JANE_TOKEN)

    async def test_are_so_many_whosever_they_are(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(portforward, "MAX_SESSIONS", 2)
        for name in ("jane", "joe", "jim"):
            await site.promote(name)
        joe, jim = (pki.issue_client(AUTHORITY, name, now=NOW) for name in ("joe", "jim"))
        await forwarded(site, token=JANE_TOKEN)
        await forwarded(site, certificate=joe)
        answer = await site.request("POST", f"{PODS}/p/portforward", headers=UPGRADE, certificate=jim)
        assert answer.code == 429
        await forwarded(site, token=ADMIN_TOKEN)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(spdy.control(spdy.SYN_STREAM, bytes(40)), id="headers that are not compressed"),
        pytest.param(spdy.control(spdy.SYN_STREAM, b"\x00"), id="a stream without a number"),
        pytest.param(struct.pack(">HHI", 0x8002, 1, 4) + bytes(4), id="another version of SPDY"),
        pytest.param(struct.pack(">II", 1, spdy.MAX_FRAME_BYTES + 1), id="a frame that is too long"),
        pytest.param(
            struct.pack(">HHI", 0x8003, spdy.PING, spdy.MAX_CONTROL_BYTES + 1), id="a question that is too long"
        ),
    ],
)
async def test_what_is_no_spdy_ends_the_connection(site: Site, sent: bytes) -> None:
    client = await forwarded(site)
    client.writer.write(sent)
    assert await client.has_ended()


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param((0,), id="no number"),
        pytest.param((2,), id="a number of the server's"),
        pytest.param((1, 1), id="the same one again"),
        pytest.param((5, 3), id="one from before"),
    ],
)
async def test_streams_that_are_not_numbered_one_after_the_other_end_the_connection(
    site: Site, numbers: tuple[int, ...]
) -> None:
    client = await forwarded(site)
    for request, number in enumerate(numbers):
        client.open(number, "error", 7, request=str(request))
    for _ in numbers[1:]:
        assert (await client.frame()).kind == spdy.SYN_REPLY
    assert await client.has_ended()


async def test_a_request_with_two_streams_for_data_ends_and_leaves_no_port_in_use(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portforward, "MAX_FORWARDS", 1)
    client = await forwarded(site)
    client.open(1, "data", 7)
    assert (await client.frame()).kind == spdy.SYN_REPLY
    client.open(3, "data", 7)
    assert await client.has_ended()
    again = await forwarded(site)
    await pair(again)
    again.writer.write(spdy.data(3, b"a"))
    assert (await again.frame()).content == b"A"


async def test_a_flood_of_frames_leaves_the_loop_to_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await forwarded(site)
    frame = spdy.frame
    at_once = [0]

    def counted(head: bytes, content: bytes, rest: int = 0) -> spdy.Frame:
        at_once[-1] += 1
        return frame(head, content, rest)

    async def tick() -> None:
        while True:
            await asyncio.sleep(0)
            at_once.append(0)

    monkeypatch.setattr(spdy, "frame", counted)
    ticking = asyncio.create_task(tick())
    client.writer.write(spdy.data(1, b"") * 5_000 + spdy.control(spdy.PING, bytes(4)))
    assert (await client.frame()).kind == spdy.PING
    ticking.cancel()
    assert sum(at_once) > 5_000
    assert max(at_once) < 200


async def test_a_flow_in_debt_waits_for_others_before_its_next_frame(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.promote("jane")
    flows: list[Flow] = []
    free = asyncio.Event()

    async def turn(flow: Flow) -> None:
        flows.append(flow)
        await free.wait()

    client = await forwarded(site, token=JANE_TOKEN)
    await pair(client)
    monkeypatch.setattr(Flow, "turn", turn)
    client.writer.write(spdy.data(3, b"a"))
    await eventually(lambda: len(flows) == 1)
    free.set()
    assert (await client.frame()).content == b"A"
    assert len(flows) == 2, "one for each direction"
    assert len(set(flows)) == 1


async def test_the_time_of_both_directions_is_charged(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.promote("jane")
    client = await forwarded(site, token=JANE_TOKEN)
    await pair(client)
    charged: set[str] = set()
    charge = Flow.charge

    def noted(flow: Flow, seconds: float, now: float) -> None:
        task = asyncio.current_task()
        charged.add(task.get_name() if task is not None else "")
        charge(flow, seconds, now)

    monkeypatch.setattr(Flow, "charge", noted)
    client.writer.write(spdy.data(3, b"a"))
    assert (await client.frame()).content == b"A"
    await eventually(lambda: "port-forward" in charged and len(charged) > 1)


async def test_more_headers_than_anybody_needs_end_the_connection(site: Site) -> None:
    client = await forwarded(site)
    packer = zlib.compressobj(zdict=spdy._DICTIONARY)  # pyright: ignore[reportPrivateUsage]
    block = packer.compress(struct.pack(">I", 17) + bytes(17 * 8)) + packer.flush(zlib.Z_SYNC_FLUSH)
    client.writer.write(spdy.control(spdy.SYN_STREAM, struct.pack(">IIH", 1, 0, 0) + block))
    assert await client.has_ended()


async def test_headers_that_unpack_to_too_much_end_the_connection(site: Site) -> None:
    client = await forwarded(site)
    packer = zlib.compressobj(9, zdict=spdy._DICTIONARY)  # pyright: ignore[reportPrivateUsage]
    block = packer.compress(bytes(5_000_000)) + packer.flush(zlib.Z_SYNC_FLUSH)
    assert len(block) < spdy.MAX_CONTROL_BYTES
    client.writer.write(spdy.control(spdy.SYN_STREAM, struct.pack(">IIH", 1, 0, 0) + block))
    assert await client.has_ended()
