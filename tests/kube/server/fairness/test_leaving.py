"""Whatever was held for a client is given back when it leaves, at whichever moment it does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from steelyard.kube.objects import Object
from steelyard.kube.server import listing
from steelyard.kube.server.bodies import answers
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.fairness.shares import Limits, Shares
from steelyard.kube.server.listing import Listing, Piece
from steelyard.kube.server.transport.intake import FREE_BYTES
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.store.record import Record
from tests.kube.server import serving
from tests.kube.server.bench import eventually
from tests.kube.server.serving import JANE_TOKEN, Site
from tests.kube.server.transport.test_http import Backend

PATH = "/api/v1/namespaces/default/configmaps"
JANE = f"Host: x\r\nAuthorization: Bearer {JANE_TOKEN}\r\n"
ITEMS = 200


class Lists(Backend):
    """Answers, when told to, with a list that is in memory for its client alone."""

    def __init__(self) -> None:
        super().__init__(Reply(200))
        self.go_on = self.wait = asyncio.Event()
        self.ended = 0

    async def call(self, call: Call) -> Reply:
        await super().call(call)
        self.ended += 1
        item = b'{"x":"%b"}' % (b"x" * listing.SLICE_BYTES)
        records = [Record(f"r{number}", number, item) for number in range(1, ITEMS)]
        head: Object = {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}}
        return Reply(200, listing=Listing(head, "items", records, _text, has_own_records=True))


def _text(records: Sequence[Record]) -> Sequence[Piece]:
    return (b",".join(record.value or b"" for record in records),)


def commons(**limits: int) -> Commons:
    return Commons(Shares(Limits(**limits)))


async def ask(site: Site, *headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await site.connect()
    lines = "".join(f"{line}\r\n" for line in headers)
    writer.write(f"GET {PATH} HTTP/1.1\r\n{JANE}{lines}\r\n".encode())
    return reader, writer


async def leave(shared: Commons, writer: asyncio.StreamWriter) -> None:
    """As the server sees it."""
    guests = shared.door.guests
    writer.transport.abort()
    await eventually(lambda: shared.door.guests < guests)


async def nothing_is_left(shared: Commons, site: Site) -> None:
    """Once nobody is at work any more: a server that ends waits for that."""
    await site.listener.close(deadline=60)
    assert shared.intake.held == 0
    assert (shared.shares.reading.taken, shared.shares.writing.taken) == (0, 0)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="plain"),
        pytest.param(("Accept-Encoding: gzip",), id="compressed"),
        pytest.param(("Accept: application/yaml",), id="in another form"),
    ],
)
async def test_before_the_first_byte(headers: tuple[str, ...]) -> None:
    backend, shared = Lists(), commons()
    async with serving.served(backend, commons=shared) as site:
        _, writer = await ask(site, *headers)
        await eventually(backend.called.is_set)
        await leave(shared, writer)
        backend.go_on.set()
        await eventually(lambda: backend.ended)
        await nothing_is_left(shared, site)


async def test_in_the_middle() -> None:
    backend, shared = Lists(), commons()
    backend.go_on.set()
    async with serving.served(backend, commons=shared) as site:
        reader, writer = await ask(site)
        await reader.readexactly(10_000)
        await eventually(lambda: shared.intake.held >= ITEMS // 2 * listing.SLICE_BYTES)
        await leave(shared, writer)
        await nothing_is_left(shared, site)


async def test_while_it_waits_for_a_seat() -> None:
    backend, shared = Lists(), commons(reading=1)
    async with serving.served(backend, commons=shared) as site:
        _, first = await ask(site)
        await eventually(backend.called.is_set)
        _, second = await ask(site)
        await eventually(lambda: shared.shares.waiting)
        await leave(shared, second)
        await leave(shared, first)
        backend.go_on.set()
        await eventually(lambda: backend.ended == 2)
        await nothing_is_left(shared, site)


async def test_while_a_thread_compresses(monkeypatch: pytest.MonkeyPatch) -> None:
    working, go_on = threading.Event(), threading.Event()
    compressor = answers.zlib.compressobj(level=1, wbits=31)

    class Slow:
        def compress(self, data: bytes) -> bytes:
            working.set()
            assert go_on.wait(60)
            return compressor.compress(data)

        def flush(self) -> bytes:
            return compressor.flush()

    monkeypatch.setattr(answers, "_compressor", Slow)
    backend, shared = Lists(), commons()
    backend.go_on.set()
    async with serving.served(backend, commons=shared) as site:
        _, writer = await ask(site, "Accept-Encoding: gzip")
        await eventually(working.is_set)
        assert shared.intake.held > 0
        await leave(shared, writer)
        go_on.set()
        await nothing_is_left(shared, site)


async def test_with_a_body_that_waits_for_its_turn() -> None:
    backend, shared = Lists(), commons(writing=1)
    body = b'{"x":"%b"}' % (b"x" * 4 * FREE_BYTES)
    request = f"POST {PATH} HTTP/1.1\r\n{JANE}Content-Length: {len(body)}\r\n\r\n".encode() + body
    async with serving.served(backend, commons=shared) as site:
        writers: list[asyncio.StreamWriter] = []
        for number in range(1, 4):
            _, writer = await site.connect()
            writers.append(writer)
            writer.write(request)
            await eventually(lambda number=number: shared.intake.held > 3 * FREE_BYTES * number)
        for writer in writers:
            await leave(shared, writer)
        assert shared.intake.held == 0
        backend.go_on.set()
        await nothing_is_left(shared, site)


async def test_when_the_server_ends_while_a_list_is_made() -> None:
    backend, shared = Lists(), commons()
    async with serving.served(backend, commons=shared) as site:
        await ask(site)
        await eventually(backend.called.is_set)
        await site.listener.close(deadline=0.01)
        await eventually(lambda: not shared.door.guests)
        await nothing_is_left(shared, site)
