"""Members of a real etcd, with TLS, as they are seen and as they leave; and servers that are none, or want to be."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers import lifecycle
from steelyard.controllers.lifecycle import certificates
from steelyard.controllers.lifecycle.members import exchange, health, leaving, roads, service
from steelyard.controllers.lifecycle.members.exchange import Unreachable
from steelyard.controllers.lifecycle.members.leaving import CannotLeave
from steelyard.controllers.lifecycle.members.saying import Etcd as Seen
from steelyard.controllers.lifecycle.members.service import Members, StillLooking
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import pki, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.runtime import clock
from steelyard.kube.runtime.keys import Key
from steelyard.kube.server.api import Api
from steelyard.kube.store.store import Store
from tests.controllers.lifecycle import etcds
from tests.controllers.lifecycle.etcds import Etcd
from tests.controllers.lifecycle.world import NAMESPACE

CLUSTER: Object = {
    "apiVersion": capi.CLUSTERS.api_version,
    "kind": "Cluster",
    "metadata": {"name": "c", "namespace": NAMESPACE, "uid": "of-c"},
}
AUTHORITY = pki.new_authority("etcd-ca", now=etcds.NOW)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PATIENCE", 60.0)
    monkeypatch.setattr(service, "SILENCE_SECONDS", 0.0)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[Client]:
    store = await Store.open(tmp_path / "store.db", fsync=False)
    api = await Api.start(store)
    made = LocalClient(api)
    await made.create(resources.NAMESPACES, {"metadata": {"name": NAMESPACE}})
    yield made
    await api.close()
    await store.close()


@pytest.fixture
async def members(client: Client) -> AsyncGenerator[Members]:
    """Knowing of a cluster whose authority for etcd is AUTHORITY, and whose API nobody can reach."""
    await put_authority(client, AUTHORITY)
    made = Members(client, Workloads(client, lifecycle.over_https), clock.SYSTEM)
    yield made
    await made.close()


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Etcd]]:
    with etcds.running(tmp_path, AUTHORITY, 3) as started:
        yield started


async def put_authority(client: Client, authority: KeyPair) -> None:
    secret = certificates.as_secret(NAMESPACE, "c", certificates.ETCD_CA, authority, CLUSTER)
    del secret["metadata"]["ownerReferences"]
    await client.apply(resources.SECRETS, secret, field_manager="test")


def machines(started: list[Etcd]) -> list[Object]:
    return [each.machine() for each in started]


async def seen(members: Members, started: list[Etcd]) -> Seen:
    """Once they have chosen a leader."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(Unreachable):
                found = await members.look(CLUSTER, machines(started))
                assert found is not None
                return found
            await asyncio.sleep(0.1)


async def leads(members: Members, started: list[Etcd]) -> Etcd:
    known = await seen(members, started)
    return next(each for each in started if each.name == known.hosts[known.leader])


async def names(members: Members, started: list[Etcd]) -> list[str]:
    """Of its members, as those that are given say it."""
    return sorted(each.name for each in (await seen(members, started)).members)


async def until_leave(members: Members, machine: Object, among: list[Object]) -> None:
    """As a reconciler does: what cannot be yet is tried again. After a death the others first have to choose."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(CannotLeave):
                return await members.leave(CLUSTER, machine, among)
            await asyncio.sleep(0.1)


async def refused(members: Members, machine: Object, among: list[Object]) -> str:
    """Why for good, once those that are left have a leader."""
    async with asyncio.timeout(30):
        while True:
            try:
                await members.leave(CLUSTER, machine, among)
            except CannotLeave as error:
                if "tried again" not in str(error):
                    return str(error)
            else:
                raise AssertionError("it has left")


async def test_members_are_seen_and_each_one_is_found_to_be_its_machines(members: Members, three: list[Etcd]) -> None:
    known = await seen(members, three)
    assert sorted(each.name for each in known.members) == ["cp-1", "cp-2", "cp-3"]
    assert {each.id: each.name for each in known.members} == dict(known.hosts)
    assert known.leader in known.hosts
    hosts = [leaving.host_of(each) for each in machines(three)]
    assert all(health.of_member(each, hosts, known).is_true for each in hosts)


async def test_a_leader_hands_over_and_leaves_and_leaving_again_changes_nothing(
    members: Members, three: list[Etcd]
) -> None:
    leader = await leads(members, three)
    rest = [each for each in three if each is not leader]
    newest = rest[-1]
    for _ in range(2):
        await members.leave(CLUSTER, leader.machine(), machines(three))
        assert await names(members, rest) == [each.name for each in rest]
    assert await leads(members, rest) is newest
    await members.leave(CLUSTER, rest[0].machine(), machines(rest))
    assert await names(members, [newest]) == [newest.name]


async def test_an_etcd_that_wants_to_wait_is_waited_for(members: Members, tmp_path: Path) -> None:
    """For the first seconds, in which it has not made sure of the others yet."""
    with etcds.running(tmp_path, AUTHORITY, 3, is_strict=True) as strict:
        await seen(members, strict)
        with pytest.raises(CannotLeave, match=r"it is tried again: .* unhealthy cluster"):
            await members.leave(CLUSTER, strict[0].machine(), machines(strict))
        await until_leave(members, strict[0].machine(), machines(strict))
        assert await names(members, strict[1:]) == ["cp-2", "cp-3"]


async def test_a_dead_members_machine_leaves_though_it_led(members: Members, three: list[Etcd]) -> None:
    leader = await leads(members, three)
    rest = [each for each in three if each is not leader]
    leader.kill()
    await until_leave(members, leader.machine(), machines(three))
    assert await names(members, rest) == [each.name for each in rest]


async def test_one_that_hangs_leaves_as_a_dead_one_does(
    members: Members, three: list[Etcd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roads, "CONNECT_SECONDS", 0.5)
    three[0].freeze()
    await until_leave(members, three[0].machine(), machines(three))
    assert await names(members, three[1:]) == ["cp-2", "cp-3"]


async def test_nobody_leaves_where_quorum_would_be_lost(members: Members, three: list[Etcd]) -> None:
    dead, *rest = three
    dead.kill()
    await asyncio.sleep(0.1)
    known = await names(members, rest)
    refusal = await refused(members, rest[0].machine(), machines(three))
    assert "1 of 2 members would be healthy, and at least 2 are required for etcd quorum" in refusal
    assert "Bring back cp-1 first" in refusal
    assert await names(members, rest) == known == ["cp-1", "cp-2", "cp-3"]


async def test_nobody_leaves_where_quorum_is_lost_already(members: Members, three: list[Etcd]) -> None:
    for each in three[:2]:
        each.kill()
    with pytest.raises(CannotLeave, match="cannot be removed yet; it is tried again"):
        await members.leave(CLUSTER, three[0].machine(), machines(three))


async def test_the_last_member_stays(members: Members, tmp_path: Path) -> None:
    with etcds.running(tmp_path, AUTHORITY, 1) as started:
        going = started[0].machine()
        await seen(members, started)
        with pytest.raises(CannotLeave, match="only one with a vote"):
            await members.leave(CLUSTER, going, [going])
        assert await names(members, started) == ["cp-1"]


async def test_a_member_whose_machine_is_gone_is_swept_away_and_no_other(members: Members, three: list[Etcd]) -> None:
    gone, *rest = three
    gone.kill()
    joining = rest[0].machine(nodeRef={})
    async with asyncio.timeout(30):
        while len(await names(members, rest)) == 3:
            await members.sweep(CLUSTER, [joining, rest[1].machine()])
            assert len(await names(members, rest)) == 3, "while one joins, a member may be its"
            with contextlib.suppress(CannotLeave):
                await members.sweep(CLUSTER, machines(rest))
    assert await names(members, rest) == ["cp-2", "cp-3"]
    await members.sweep(CLUSTER, machines(rest))
    assert await names(members, rest) == ["cp-2", "cp-3"]


async def test_an_authority_that_is_not_etcds_leads_nowhere(
    client: Client, members: Members, three: list[Etcd]
) -> None:
    await put_authority(client, pki.new_authority("another", now=etcds.NOW))
    with pytest.raises(Unreachable, match="does not prove to be the cluster's"):
        await members.look(CLUSTER, machines(three))
    with pytest.raises(CannotLeave, match="does not prove to be the cluster's"):
        await members.leave(CLUSTER, three[0].machine(), machines(three))
    await put_authority(client, AUTHORITY)
    await asyncio.sleep(1.1)
    assert len(await names(members, three)) == 3, "the right one counts as soon as it is there"


async def test_a_member_that_answers_for_another_machine_is_not_believed(members: Members, three: list[Etcd]) -> None:
    """Its certificate is the cluster's, but another Node's."""
    swapped = three[0].machine(addresses=three[1].machine()["status"]["addresses"])
    await seen(members, three)
    known = await members.look(CLUSTER, [swapped, *machines(three[1:])])
    assert known is not None
    assert sorted(known.hosts.values()) == ["cp-2", "cp-3"]
    assert "does not prove to be the cluster's" in known.silences["cp-1"]


async def test_a_secret_that_cannot_sign_is_named(client: Client, members: Members) -> None:
    await client.patch(resources.SECRETS, "c-etcd", {"data": {"tls.key": None}}, NAMESPACE)
    with pytest.raises(CannotLeave, match=r"Secret team/c-etcd has no tls.key"):
        await members.leave(CLUSTER, Etcd.machine(_somewhere("127.3.3.3")), [])


def _somewhere(address: str) -> Etcd:
    found = Etcd.__new__(Etcd)
    found.name, found.address = "cp-1", address
    return found


Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def _never_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        while not writer.is_closing():
            writer.write(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)  # draining alone lets nobody else run


async def _drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    with contextlib.suppress(OSError):
        while True:
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.05)


def _answers(status: str, body: bytes) -> Answering:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]))
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(body)) + body)
                await writer.drain()

    return answer


@contextlib.asynccontextmanager
async def serving(address: str, folder: Path, answering: Answering) -> AsyncGenerator[None]:
    pair = pki.issue_serving(AUTHORITY, "cp-1", ["cp-1"], now=etcds.NOW)
    (folder / "pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pem")
    running: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await answering(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(answer, address, 2379, ssl=context)
    try:
        yield
    finally:
        server.close()
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize(
    ("answering", "expected"),
    [
        pytest.param(_says_nothing, "has not answered within 0.5 s", id="silence"),
        pytest.param(_drips, "did not answer|has not answered within 0.5 s", id="a byte at a time"),
        pytest.param(_never_ends, "longer than 1 MiB", id="no end"),
        pytest.param(_answers("200 OK", b"[]"), "no etcd", id="a list"),
        pytest.param(_answers("200 OK", b"<html>"), "answered: <html>", id="a web page"),
        pytest.param(_answers("404 Not Found", b"404 page not found\n"), "404 page not found", id="no gateway"),
        pytest.param(_answers("503 Bad", b'{"message": "no leader"}'), "answered: no leader", id="a refusal"),
        pytest.param(
            _answers("200 OK", b'{"header": {"member_id": "1", "cluster_id": "2"}, "leader": "0"}'),
            "reports: no leader",
            id="nobody leads",
        ),
    ],
)
async def test_a_server_that_is_no_good_costs_little_time_and_memory_and_is_named(
    members: Members, tmp_path: Path, answering: Answering, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "ANSWER_SECONDS", 0.5)
    where = f"127.77.{time.time_ns() % 250 + 1}.{id(answering) // 64 % 250 + 1}"
    async with serving(where, tmp_path, answering):
        machine = _somewhere(where).machine()
        started = time.monotonic()
        with pytest.raises(Unreachable, match=expected):
            await members.look(CLUSTER, [machine])
        with pytest.raises(CannotLeave, match=expected):
            await members.leave(CLUSTER, machine, [machine])
    assert time.monotonic() - started < 30


async def test_nobody_waits_long_for_a_cluster_that_does_not_answer(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told later on what was found; until then the worker is free for others."""
    monkeypatch.setattr(exchange, "ANSWER_SECONDS", 3.0)
    monkeypatch.setattr(service, "PATIENCE", 0.1)
    told: list[str] = []
    is_told = asyncio.Event()

    def tell(cluster: Key) -> None:
        told.append(cluster.name)
        is_told.set()

    members.on_seen(tell)
    where = f"127.78.{time.time_ns() % 250 + 1}.1"
    async with serving(where, tmp_path, _says_nothing):
        machine = _somewhere(where).machine()
        for _ in range(2):
            with pytest.raises(StillLooking):
                await members.look(CLUSTER, [machine])
            assert not told, "nothing has been found yet"
        await asyncio.wait_for(is_told.wait(), 60)
        with pytest.raises(Unreachable):
            await members.look(CLUSTER, [machine])
    assert set(told) == {"c"}


async def test_silence_counts_once_it_has_lasted(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the one who asked keeps what was known, and is told to ask again."""
    monkeypatch.setattr(service, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(service, "_LOOK_AGAIN_SECONDS", 0.1)
    asked = asyncio.Event()
    members.on_seen(lambda _: asked.set())
    machine = _somewhere("127.79.1.1").machine()
    started = time.monotonic()
    for _ in range(2):
        with pytest.raises(StillLooking):
            await members.look(CLUSTER, [machine])
        await asyncio.wait_for(asked.wait(), 60)
        asked.clear()
    await asyncio.sleep(max(0.0, started + 1.0 - time.monotonic()))
    with pytest.raises(Unreachable, match="connection refused"):
        await members.look(CLUSTER, [machine])
