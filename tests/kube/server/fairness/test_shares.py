"""Who gets how much of a busy server: nobody holds a place by sending slowly, and everybody has a share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from steelyard.kube import errors
from steelyard.kube.server.api import Api
from steelyard.kube.server.bodies.documents import Document
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, Reply, User
from steelyard.kube.server.fairness import shares
from steelyard.kube.server.fairness.shares import Flow, Limits, Share, Shares
from steelyard.kube.server.transport import intake
from steelyard.kube.server.transport.intake import Intake
from steelyard.kube.server.transport.limits import Commons
from steelyard.kube.server.verbs.watching import WatchStream
from steelyard.kube.store.store import Store
from tests.kube.server import serving
from tests.kube.server.bench import eventually
from tests.kube.server.serving import Site

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
JANE, JOE, MASTER = User("jane"), User("joe"), User("root", (SYSTEM_MASTERS,))


class Slow:
    """Answers when told to."""

    def __init__(self, stored: int = 0) -> None:
        self.entered: list[str] = []
        self.go_on = asyncio.Event()
        self._stored = stored
        """Bytes of whatever is asked for."""

    async def call(self, call: Call) -> Reply:
        self.entered.append(call.user.name)
        await self.go_on.wait()
        return Reply(200, body={"kind": "ConfigMap"})

    async def watch(self, call: Call) -> WatchStream:
        raise errors.Expired("too old")

    def authorize(self, call: Call) -> None:
        return None

    def check(self, call: Call) -> None:
        return None

    def size(self, call: Call) -> int:
        return self._stored

    def document(self, path: str, accept: str) -> Document | None:
        return None

    def paths(self) -> list[str]:
        return []


async def _until(backend: Slow, entered: int) -> None:
    for _ in range(6000):
        if len(backend.entered) == entered:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(backend.entered)


async def test_who_finds_no_seat_waits_and_masters_get_through(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Slow()
    options: dict[str, Any] = {"limits": Limits(reading=2, writing=1)}
    jane = serving.JANE_TOKEN
    async with serving.served(backend, **options) as site:
        requests = [asyncio.create_task(site.request("GET", CONFIG_MAPS, token=jane)) for _ in range(3)]
        requests += [asyncio.create_task(site.request("POST", CONFIG_MAPS, CONFIG_MAP, token=jane)) for _ in range(2)]
        await _until(backend, 2)
        watch = await site.request("GET", f"{CONFIG_MAPS}?watch=true", token=jane)
        assert watch.code == 410, "a watch is no request in flight"
        requests.append(asyncio.create_task(site.request("GET", CONFIG_MAPS)))
        await _until(backend, 3)
        monkeypatch.setattr(shares, "QUEUE_LENGTH", 1)
        for method, sent in (("GET", None), ("POST", CONFIG_MAP)):
            refused = await site.request(method, CONFIG_MAPS, sent, token=jane)
            assert refused.code == 429
            assert refused.headers["Retry-After"] == "1"
            assert refused.body == b"Too many requests, please try again later.\n"
        backend.go_on.set()
        assert [answer.code for answer in await asyncio.gather(*requests)] == [200] * 6
        assert (await site.request("POST", CONFIG_MAPS, CONFIG_MAP, token=jane)).code == 200


async def test_large_objects_are_written_a_few_at_a_time() -> None:
    """They take many times their bytes meanwhile; small ones do not wait for them, nor does who can stop it all."""
    backend = Slow()
    jane = serving.JANE_TOKEN
    large = CONFIG_MAP | {"data": {"text": "x" * 100_000}}
    async with serving.served(backend) as site:
        requests = [asyncio.create_task(site.request("POST", CONFIG_MAPS, large, token=jane)) for _ in range(6)]
        await _until(backend, 2)
        requests.append(asyncio.create_task(site.request("POST", CONFIG_MAPS, CONFIG_MAP, token=jane)))
        requests.append(asyncio.create_task(site.request("POST", CONFIG_MAPS, large)))
        await _until(backend, 4)
        await asyncio.sleep(0.05)
        assert len(backend.entered) == 4
        backend.go_on.set()
        assert [answer.code for answer in await asyncio.gather(*requests)] == [200] * 8


async def test_what_is_stored_and_large_is_changed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "QUEUE_SECONDS", 0.3)
    backend = Slow(stored=100_000)
    jane = serving.JANE_TOKEN
    async with serving.served(backend) as site:
        requests = [asyncio.create_task(site.request("DELETE", f"{CONFIG_MAPS}/a", token=jane)) for _ in range(5)]
        await _until(backend, 2)
        reading = asyncio.create_task(site.request("GET", f"{CONFIG_MAPS}/a", token=jane))
        await _until(backend, 3)
        refused, _ = await asyncio.wait(requests, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result().code for task in refused} == {429}, "nobody waits for ever"
        backend.go_on.set()
        assert sorted(answer.code for answer in await asyncio.gather(*requests)) == [200, 200, 429, 429, 429]
        assert (await reading).code == 200


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "QUEUE_SECONDS", 0.2)
    backend = Slow()
    options: dict[str, Any] = {"limits": Limits(reading=1, writing=1)}
    async with serving.served(backend, **options) as site:
        first = asyncio.create_task(site.request("GET", CONFIG_MAPS, token=serving.JANE_TOKEN))
        await _until(backend, 1)
        assert (await site.request("GET", CONFIG_MAPS, token=serving.JANE_TOKEN)).code == 429
        backend.go_on.set()
        assert (await first).code == 200
        assert (await site.request("GET", CONFIG_MAPS, token=serving.JANE_TOKEN)).code == 200


async def test_bodies_that_never_end_take_no_seat() -> None:
    backend = Slow()
    backend.go_on.set()
    options: dict[str, Any] = {"limits": Limits(reading=1, writing=1)}
    async with serving.served(backend, **options) as site:
        opened = [await site.connect() for _ in range(20)]
        for _, writer in opened:
            writer.write(
                f"POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {serving.JANE_TOKEN}\r\n"
                "content-type: application/json\r\ncontent-length: 1000\r\n\r\n{".encode()
            )
        await asyncio.sleep(0.1)
        answer = await site.request("POST", CONFIG_MAPS, CONFIG_MAP, token=serving.JANE_TOKEN)
        assert answer.code == 200


def flow(share: Share, user: User) -> Flow:
    return share.flow(user)


async def test_turns_go_round_clusters_and_then_users() -> None:
    common = Shares(Limits(reading=2, writing=2))
    platform, tenant = common.share(is_platform=True), common.share(is_platform=False)
    seats = common.writing
    assert flow(platform, JANE).enters(seats)
    assert flow(platform, JOE).enters(seats)
    order: list[str] = []

    async def take(name: str, whose: Flow) -> None:
        if not whose.enters(seats):
            await whose.wait(seats)
        order.append(name)
        await asyncio.sleep(0)
        whose.leave(seats)

    waiting = [asyncio.create_task(take("jane", flow(platform, JANE))) for _ in range(6)]
    await asyncio.sleep(0)
    waiting += [asyncio.create_task(take("tenant", flow(tenant, MASTER))) for _ in range(2)]
    waiting += [asyncio.create_task(take("joe", flow(platform, JOE))) for _ in range(2)]
    await asyncio.sleep(0)
    flow(platform, JANE).leave(seats)
    flow(platform, JOE).leave(seats)
    await asyncio.gather(*waiting)
    assert max(order.index("joe"), order.index("tenant")) < 4, order


async def test_no_flow_and_no_hosted_cluster_takes_more_than_half() -> None:
    common = Shares(Limits(reading=4, writing=4))
    platform, tenant = common.share(is_platform=True), common.share(is_platform=False)
    seats = common.reading
    jane = flow(platform, JANE)
    assert [jane.enters(seats) for _ in range(3)] == [True, True, False]
    assert flow(tenant, MASTER).enters(seats), "masters of a hosted cluster are users like others"
    assert flow(tenant, JANE).enters(seats)
    assert not flow(tenant, JOE).enters(seats)
    assert flow(platform, MASTER).enters(seats), "those of the platform always get through"


def test_the_accounts_of_a_namespace_are_one_flow() -> None:
    share = Shares(Limits()).share(is_platform=True)
    first, second, other = (
        flow(share, User(f"system:serviceaccount:{name}")) for name in ("team:a", "team:b", "others:a")
    )
    assert first is second
    assert first is not other


def test_unlimited_means_unlimited() -> None:
    common = Shares(Limits(reading=0, writing=0))
    jane = flow(common.share(is_platform=True), JANE)
    assert all(jane.enters(common.reading) for _ in range(1000))


async def test_a_flow_in_debt_waits_while_others_are_about() -> None:
    common = Shares(Limits())
    share = common.share(is_platform=True)
    jane, joe = flow(share, JANE), flow(share, JOE)
    now = shares.perf_counter()
    jane.charge(0.2, now)
    assert jane.enters(common.reading), "nobody else is there"
    jane.leave(common.reading)
    assert joe.enters(common.reading)
    joe.leave(common.reading)
    assert not jane.enters(common.reading)
    assert joe.enters(common.reading), "who owes nothing never waits for who does"
    joe.leave(common.reading)
    async with asyncio.timeout(60):
        await jane.wait(common.reading)
    jane.leave(common.reading)


async def test_what_lasts_waits_for_its_next_turn_however_long_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "QUEUE_SECONDS", 0.0)
    monkeypatch.setattr(shares, "QUEUE_LENGTH", 1)
    common = Shares(Limits())
    share = common.share(is_platform=True)
    jane, joe = flow(share, JANE), flow(share, JOE)
    await jane.turn()
    jane.charge(0.2, shares.perf_counter())
    await joe.turn()
    waiting = [asyncio.create_task(jane.turn()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    with pytest.raises(errors.Overloaded):
        await jane.wait(common.watching)
    async with asyncio.timeout(60):
        await asyncio.gather(*waiting)
    assert not any(jane.taken.values())


class Body:
    """As much of an exchange as counts."""

    def __init__(self, held: Intake, whose: Flow | None) -> None:
        self._intake = held
        self.flow = whose
        self.held = 0
        self.is_complete = False
        self.is_given_up = False

    def receive(self, size: int) -> None:
        self.held += size
        self._intake.hold(self, size)

    def give_up(self) -> None:
        self.is_given_up = True
        self._intake.release(self, self.held)
        self.held = 0


def test_who_holds_most_gives_up_first() -> None:
    held = Intake(max_bytes=100)
    share = Shares(Limits()).share(is_platform=True)
    hoard = [Body(held, flow(share, JANE)) for _ in range(4)]
    for body in hoard:
        body.receive(12)
    modest = [Body(held, flow(share, user)) for user in (JOE, User("jim"))]
    for body in modest:
        body.receive(30)
    assert [body.is_given_up for body in hoard] == [True, False, False, False]
    assert not any(body.is_given_up for body in modest)
    for body in hoard[1:]:
        body.is_complete = True
    hoard[1].receive(10)
    assert hoard[1].is_given_up, "what is complete is not taken away, so the newest gives up"
    assert held.held <= 100


def test_nobody_holds_more_than_half_but_who_can_stop_it_all() -> None:
    held = Intake(max_bytes=100)
    share = Shares(Limits()).share(is_platform=True)
    hoard = [Body(held, flow(share, JANE)) for _ in range(3)]
    for body in hoard:
        body.receive(20)
    assert [body.is_given_up for body in hoard] == [True, False, False]
    unknown = [Body(held, None) for _ in range(3)]
    for body in unknown:
        body.receive(20)
    assert [body.is_given_up for body in unknown] == [True, False, False]
    for body in (*hoard[1:], *unknown[1:]):
        body.give_up()
    master = Body(held, flow(share, MASTER))
    master.receive(90)
    assert not master.is_given_up


@contextlib.asynccontextmanager
async def served(tmp_path: Path, commons: Commons) -> AsyncGenerator[Site]:
    store = await Store.open(tmp_path / "db", fsync=False)
    api = await Api.start(store)
    async with serving.served(api, commons=commons) as site:
        await site.promote("jane")
        yield site
    commons.door.close()
    await api.close()
    await store.close()


async def test_unfinished_bodies_hold_so_much_and_no_more(tmp_path: Path) -> None:
    commons = Commons(intake=Intake(max_bytes=8 * intake.FREE_BYTES))
    async with served(tmp_path, commons) as site:
        opened = [await site.connect() for _ in range(20)]
        for _, writer in opened:
            writer.write(
                f"POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {serving.JANE_TOKEN}\r\n"
                "content-length: 1000000\r\n\r\n".encode()
                + b"x" * 200_000
            )
        async with asyncio.timeout(60):
            assert (await opened[0][0].readline()).startswith(b"HTTP/1.1 429")
        await eventually(lambda: commons.intake.held <= 8 * intake.FREE_BYTES)
        large = {**CONFIG_MAP, "data": {"a": "x" * 150_000}}
        assert (await site.request("POST", CONFIG_MAPS, large)).code == 201
        site.abort()
        await eventually(lambda: not commons.intake.held)


async def test_answers_that_nobody_reads_hold_so_much_and_no_more(tmp_path: Path) -> None:
    commons = Commons(intake=Intake(max_bytes=20_000_000))
    async with served(tmp_path, commons) as site:
        for number in range(9):
            large = {**CONFIG_MAP, "metadata": {"name": f"c{number}"}, "data": {"a": "x" * 900_000}}
            assert (await site.request("POST", CONFIG_MAPS, large)).code == 201
        for _ in range(5):
            _, writer = await site.connect()
            cast(Any, writer.transport).pause_reading()
            writer.write(f"GET {CONFIG_MAPS} HTTP/1.1\r\nauthorization: Bearer jane-token\r\n\r\n".encode())
        await eventually(lambda: commons.intake.held > 0)
        for _ in range(20):
            assert (await site.request("GET", f"{CONFIG_MAPS}/c1")).code == 200
            assert commons.intake.held <= 20_000_000
        site.abort()
        await eventually(lambda: not commons.intake.held)


@pytest.mark.parametrize("size", [3, 1000])
async def test_a_body_in_many_chunks_is_added_up_once(tmp_path: Path, size: int) -> None:
    body = orjson.dumps({**CONFIG_MAP, "data": {"a": "x" * 20_000}})
    async with served(tmp_path, Commons()) as site:
        reader, writer = await site.connect()
        writer.write(
            f"POST {CONFIG_MAPS} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {serving.ADMIN_TOKEN}\r\n"
            "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 201")


async def test_a_refusal_is_counted_with_what_was_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path, Commons()) as site:
        for code in (201, 409):
            assert (await site.request("POST", CONFIG_MAPS, CONFIG_MAP)).code == code
        assert (await site.request("GET", f"{CONFIG_MAPS}/none")).code == 404
        assert (await site.request("POST", "/apis/made.up/v1/things", CONFIG_MAP)).code == 404
        counted = site.metrics.exposition().decode()
    for line in (
        'apiserver_request_total{code="409",group="",resource="configmaps",verb="CREATE",version="v1"} 1.0',
        'apiserver_request_total{code="404",group="",resource="configmaps",verb="GET",version="v1"} 1.0',
        'apiserver_request_total{code="404",group="",resource="",verb="POST",version=""} 1.0',
    ):
        assert line in counted
    assert "made.up" not in counted
