"""Leader election: one works at a time, another follows, and who cannot renew stops before that."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import LEASES, Resource
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.runtime.leadership import Leadership, Lost, Terms
from tests.kube.runtime.memory import MemoryClient

PLACE = ("system", "work")


class Flaky(MemoryClient):
    """Fails while it is told to."""

    is_away = False

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if self.is_away:
            raise errors.ServiceUnavailable("nobody answers")
        return await super().get(resource, name, namespace)


@pytest.fixture
def client() -> Flaky:
    return Flaky()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def holder(client: Client) -> str:
    return str(objects.at(await client.get(LEASES, PLACE[1], PLACE[0]), "spec", "holderIdentity") or "")


async def test_the_second_waits_until_the_first_gives_it_back(client: Flaky, clock: VirtualClock) -> None:
    first, second = (Leadership(client, *PLACE, name, clock=clock) for name in ("a", "b"))
    order: list[str] = []

    async def work(who: Leadership, name: str, seconds: float) -> None:
        async with who.held():
            order.append(f"{name} begins")
            await clock.sleep(seconds)
            order.append(f"{name} ends")

    async with asyncio.TaskGroup() as group:
        group.create_task(work(first, "a", 60))
        group.create_task(work(second, "b", 1))
        await clock.advance(59)
        assert order == ["a begins"]
        assert await holder(client) == "a"
        await clock.advance(20)
    assert order == ["a begins", "a ends", "b begins", "b ends"]
    assert await holder(client) == ""


async def test_who_dies_is_followed_after_the_lease_has_run_out(client: Flaky, clock: VirtualClock) -> None:
    async with Leadership(client, *PLACE, "a", clock=clock).held() as keeping:
        keeping.cancel()  # as a process that is gone
        second = Leadership(client, *PLACE, "b", clock=clock)
        waiting = asyncio.create_task(_take(second))
        await clock.advance(14)
        assert not waiting.done()
        await clock.advance(6)
        await waiting
        lease = await client.get(LEASES, PLACE[1], PLACE[0])
        assert objects.at(lease, "spec", "leaseTransitions") == 2


async def test_who_cannot_renew_stops_before_another_may_begin(client: Flaky, clock: VirtualClock) -> None:
    other = MemoryClient()
    other.stored = client.stored
    second = Leadership(other, *PLACE, "b", clock=clock)
    async with Leadership(client, *PLACE, "a", clock=clock).held() as keeping:
        waiting = asyncio.create_task(_take(second))
        client.is_away = True
        await clock.advance(12)
        assert keeping.done()
        lost = keeping.exception()
        assert isinstance(lost, Lost)
        assert "nobody answers" in str(lost)
        assert not waiting.done(), "it has stopped by the time that the other begins"
        await clock.advance(10)
        await waiting


async def test_a_last_renewal_that_is_answered_late_counts_from_when_it_was_asked_for(clock: VirtualClock) -> None:
    class Slow(MemoryClient):
        is_written = False

        async def update(self, resource: Resource, obj: Object, *, subresource: str = "") -> Object:
            written = await super().update(resource, obj, subresource=subresource)
            self.is_written = True
            await clock.sleep(4.8)
            return written

        async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
            if self.is_written:
                await clock.sleep(3600)
            return await super().get(resource, name, namespace)

    slow = Slow()
    async with Leadership(slow, *PLACE, "a", clock=clock).held() as keeping:
        await clock.advance(2)
        assert slow.is_written
        await clock.advance(9.9)
        assert not keeping.done()
        await clock.advance(0.2)
        lost = keeping.exception()
        assert isinstance(lost, Lost), "ten seconds after it was asked for, whatever hangs"
        assert "the API has not answered in time" in str(lost)


async def test_who_finds_another_in_its_place_stops_at_once(client: Flaky, clock: VirtualClock) -> None:
    async with Leadership(client, *PLACE, "a", clock=clock).held() as keeping:
        lease = await client.get(LEASES, PLACE[1], PLACE[0])
        await client.update(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}})
        await clock.advance(3)
        lost = keeping.exception()
        assert isinstance(lost, Lost)
        assert "b has it" in str(lost)
    assert await holder(client) == "b", "what is another's is not given back"


async def test_who_was_held_up_itself_does_not_blame_the_api(client: Flaky) -> None:
    terms = Terms(valid=3, renew_within=0.2, pause=0.1)
    async with Leadership(client, *PLACE, "a", terms=terms).held() as keeping:
        await asyncio.sleep(0)
        time.sleep(1.6)  # noqa: ASYNC251 (nothing else goes on meanwhile: that is what it is about)
        with pytest.raises(Lost, match="this program was held up for 1 s or more"):
            await keeping


async def test_of_many_who_try_at_once_one_gets_it(client: Flaky, clock: VirtualClock) -> None:
    rivals = [Leadership(client, *PLACE, f"r{number}", clock=clock) for number in range(8)]
    tasks = [asyncio.create_task(_hold(each, clock)) for each in rivals]
    await clock.advance(30)
    assert sum(each.is_held for each in rivals) == 1
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)


async def test_a_namespace_that_is_not_there_is_told(client: Flaky, clock: VirtualClock) -> None:
    client.fail("create", *[errors.NotFound('namespaces "nowhere" not found')] * 5)
    lonely = Leadership(client, "nowhere", "work", "a", clock=clock)
    trying = asyncio.create_task(_take(lonely))
    await clock.advance(3)
    assert "nowhere" in lonely.problem
    trying.cancel()


async def _take(who: Leadership) -> None:
    async with who.held():
        pass


async def _hold(who: Leadership, clock: VirtualClock) -> None:
    async with who.held():
        await clock.sleep(1000)
