"""Lists that are made while their clients read them: read like any other, and left unread they take next to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import sys
import time
from collections.abc import Hashable, Sequence
from pathlib import Path

import orjson
import pytest

from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server import listing
from steelyard.kube.server.bodies import forms, workers
from steelyard.kube.server.bodies.negotiation import Format
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.listing import Listing, Piece
from steelyard.kube.server.transport.intake import Intake
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.store.record import Record
from tests.kube.server import serving
from tests.kube.server.bench import Bench, eventually
from tests.kube.server.serving import ADMIN_TOKEN, JANE_TOKEN, Site
from tests.kube.server.transport.test_http import Backend
from tests.kube.server.verbs.test_watchers_at_scale import connect, server_alone

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
PATH = "/api/v1/namespaces/default/configmaps"
PARTIAL = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MANY = 700
"""Of a kilobyte each: several slices, also of those that a worker gets."""
PLAIN = {"Accept-Encoding": "identity"}
UNREAD = 120
KILOBYTES_UNREAD = 250
"""What one of them may hold; the list itself has five megabytes."""


async def fill(bench: Bench, count: int = MANY) -> None:
    def config_map(number: int) -> Object:
        metadata = {"name": f"c{number}"}
        data = {"x": f"é{number}: " + "x" * 900, "lines": "a\nb\n", "yes": "no"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    await asyncio.gather(*(bench.create(CONFIG_MAPS, config_map(number)) for number in range(count)))


@pytest.mark.parametrize(
    ("accept", "query", "format_"),
    [
        ("application/json", "", "json"),
        ("application/json", "?pretty=1", "json"),
        ("application/yaml", "", "yaml"),
        ("application/vnd.kubernetes.protobuf", "", "protobuf"),
        (PARTIAL, "", "json"),
        (TABLE, "", "json"),
        (TABLE, "?pretty=1", "json"),
        (f"{TABLE.replace('json', 'yaml')}", "?includeObject=Object", "yaml"),
    ],
)
async def test_a_long_list_reads_like_any_other(bench: Bench, accept: str, query: str, format_: Format) -> None:
    await fill(bench)
    representation = "table" if "Table" in accept else "metadata" if "Partial" in accept else "object"
    options = dict(pair.split("=") for pair in query[1:].split("&") if pair)
    whole = await bench.list(CONFIG_MAPS, representation=representation, **options)
    async with serving.served(bench.api) as site:
        answer = await site.request("GET", f"{PATH}{query}", headers={"Accept": accept, **PLAIN})
        packed = await site.request("GET", f"{PATH}{query}", headers={"Accept": accept, "Accept-Encoding": "gzip"})
    assert answer.code == 200, answer.body
    assert answer.body == forms.encode(whole, format_, pretty="pretty" in query)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == answer.body


@pytest.mark.parametrize("form", ["application/yaml", "application/vnd.kubernetes.protobuf"])
async def test_no_worker_gets_more_of_a_long_list_than_a_slice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """It makes many times the bytes of what it gets."""
    given: list[int] = []
    write = workers.SHARED.write

    async def noted(format_: Format, data: bytes, flow: Hashable, *, patient: bool = False) -> bytes:
        given.append(len(data))
        return await write(format_, data, flow, patient=patient)

    monkeypatch.setattr(workers.SHARED, "write", noted)
    await fill(bench)
    async with serving.served(bench.api) as site:
        assert (await site.request("GET", PATH, headers={"Accept": form})).code == 200
    assert len(given) > 1
    assert max(given) < 300 * 1024


async def test_only_a_long_list_comes_in_chunks(bench: Bench) -> None:
    await fill(bench)
    async with serving.served(bench.api) as site:
        short = await site.request("GET", f"{PATH}?limit=10")
        assert int(short.headers["Content-Length"]) == len(short.body)
        middling = await site.request("GET", f"{PATH}?limit=70", headers={"Accept-Encoding": "gzip"})
        assert "Content-Encoding" not in middling.headers
        assert int(middling.headers["Content-Length"]) == len(middling.body)
        assert len(middling.json()["items"]) == 70
        long = await site.request("GET", PATH, headers=PLAIN)
        assert (long.headers["Transfer-Encoding"], len(long.json()["items"])) == ("chunked", MANY)
        assert "Content-Length" not in long.headers


async def test_http_1_0_knows_no_chunks(bench: Bench) -> None:
    await fill(bench)
    async with serving.served(bench.api) as site:
        reader, writer = await site.connect()
        writer.write(f"GET {PATH} HTTP/1.0\r\nAuthorization: Bearer {ADMIN_TOKEN}\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head
    assert len(orjson.loads(body)["items"]) == MANY


class Endless(Backend):
    """Of lists whose items are made one by one, and counted."""

    def __init__(self, fails_at: int = 1 << 30) -> None:
        super().__init__(Reply(200))
        self.calls = self.made = 0
        self._fails_at = fails_at

    async def call(self, call: Call) -> Reply:
        self.calls += 1
        records = [Record(f"r{number}", number, b"x" * listing.SLICE_BYTES) for number in range(1, 501)]
        return Reply(200, listing=Listing({"kind": "XList"}, "items", records, self._encode))

    def _encode(self, records: Sequence[Record]) -> Sequence[Piece]:
        self.made += len(records)
        if self.made >= self._fails_at:
            raise RuntimeError("this item has no text")
        return (b",".join(b'"%b"' % record.value for record in records),)


async def ask(site: Site, times: int = 1, token: str = ADMIN_TOKEN) -> asyncio.StreamReader:
    reader, writer = await site.connect()
    writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode() * times)
    return reader


async def until_still(backend: Endless) -> int:
    """How many items were made by the time that no more are."""
    made = -1
    async with asyncio.timeout(60):
        while made != backend.made or made < 1:
            made = backend.made
            await asyncio.sleep(0.2)
    return made


async def test_nothing_is_made_or_begun_for_a_client_that_does_not_read() -> None:
    backend = Endless()
    async with serving.served(backend) as site:
        reader = await ask(site, times=2)
        assert await until_still(backend) < 400
        assert backend.calls == 1
        while backend.calls < 2 or backend.made < 1000:
            async with asyncio.timeout(60):
                assert await reader.read(1 << 20)


async def test_a_list_that_cannot_be_finished_does_not_look_whole(caplog: pytest.LogCaptureFixture) -> None:
    async with serving.served(Endless(fails_at=1)) as site:
        assert (await site.request("GET", PATH)).code == 500
    async with serving.served(Endless(fails_at=3)) as site:
        reader = await ask(site)
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(60):
                while piece := await reader.read(1 << 20):
                    received += piece
    assert not received.endswith(b"0\r\n\r\n")
    assert {record.message for record in caplog.records} == {"request failed"}


async def test_who_leaves_most_unread_is_cut_off(bench: Bench) -> None:
    await fill(bench)
    commons = Commons(intake=Intake(max_bytes=4 * listing.SLICE_BYTES))
    async with serving.served(bench.api, commons=commons) as site:
        await site.promote("jane")
        for _ in range(8):
            await ask(site, times=30, token=JANE_TOKEN)
        await eventually(lambda: _are_cut(commons))
        assert commons.intake.held <= 4 * listing.SLICE_BYTES
        assert (await site.request("GET", f"{PATH}/c1", token=JANE_TOKEN)).code == 200
        site.abort()
        await eventually(lambda: _is_free(commons))


async def _are_cut(commons: Commons) -> bool:
    return 0 < commons.door.guests < 8


async def _is_free(commons: Commons) -> bool:
    return not commons.intake.held


@pytest.mark.skipif(sys.platform != "linux", reason="measures with /proc")
def test_lists_that_nobody_reads_take_little_memory_and_hold_up_nobody(tmp_path: Path) -> None:
    with server_alone(tmp_path) as server:
        for number in range(5):
            items = {f"k{n}": "x" * 1000 for n in range(900)}
            body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}, "data": items}
            connect(server.port, f"POST {PATH}", orjson.dumps(body)).close()
        first = connect(server.port, f"GET {PATH}")
        before = server.resident_kilobytes()
        unread = [connect(server.port, f"GET {PATH}", session=first.session) for _ in range(UNREAD)]
        asked = time.perf_counter()
        connect(server.port, f"GET {PATH}/c1", session=first.session).close()
        waited = time.perf_counter() - asked
        each = (server.resident_kilobytes() - before) / UNREAD
        assert each < KILOBYTES_UNREAD, f"{each:.0f} KB for each of {UNREAD} lists"
        assert waited < 2, f"another client waited for {waited:.1f} s"
        for connection in (first, *unread):
            connection.close()
