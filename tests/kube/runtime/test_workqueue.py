from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.runtime.metrics import Metrics
from steelyard.kube.runtime.workqueue import ShutDown, WorkQueue
from tests.kube.runtime.memory import turns


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue[str]:
    return WorkQueue(clock=clock)


async def test_key_added_twice_is_handed_out_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    queue.add("a")
    assert await queue.get() == "a"
    assert len(queue) == 0


async def test_keys_come_in_order_of_arrival(queue: WorkQueue[str]) -> None:
    for key in "cab":
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["c", "a", "b"]


async def test_key_added_while_processed_comes_again_afterwards_and_behind_the_others(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("b")
    assert len(queue) == 1
    queue.done("a")
    assert await queue.get() == "b"
    assert await queue.get() == "a"


async def test_workers_waiting_for_a_key_are_woken_one_per_key(queue: WorkQueue[str]) -> None:
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await turns()
    queue.add("a")
    queue.add("b")
    await turns()
    assert sorted(worker.result() for worker in workers if worker.done()) == ["a", "b"]
    queue.add("c")
    await turns()
    assert sorted(worker.result() for worker in workers) == ["a", "b", "c"]


async def test_key_meant_for_a_cancelled_worker_goes_to_another(queue: WorkQueue[str]) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await turns()
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 60) == "a"


async def test_delayed_key_comes_when_due_and_not_before(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 5)
    await clock.advance(4.9)
    assert len(queue) == 0
    await clock.advance(0.2)
    assert await queue.get() == "a"


async def test_of_several_delays_the_earliest_counts(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 60)
    queue.add_after("a", 1)
    queue.add_after("a", 30)
    await clock.advance(1)
    assert await queue.get() == "a"
    queue.done("a")
    await clock.advance(120)
    assert len(queue) == 0


async def test_many_delayed_keys_share_one_timer_and_come_in_order_of_deadline(
    queue: WorkQueue[str], clock: VirtualClock
) -> None:
    for seconds in (30, 10, 20):
        queue.add_after(str(seconds), seconds)
    assert clock.pending == 1
    await clock.advance(60)
    assert [await queue.get() for _ in range(3)] == ["10", "20", "30"]
    assert clock.pending == 0


async def test_taking_a_key_drops_its_delay_and_the_timer(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 60)
    queue.add("a")
    await queue.get()
    assert (queue.delayed, clock.pending) == (0, 0)
    queue.done("a")
    await clock.advance(120)
    assert len(queue) == 0


async def test_delays_set_over_and_over_do_not_pile_up(queue: WorkQueue[str], clock: VirtualClock) -> None:
    for _ in range(1000):
        queue.add_after("a", 60)
        queue.add("a")
        queue.done(await queue.get())
    assert queue.next_due_in() is None
    assert clock.pending == 0


async def test_back_off_doubles_up_to_the_limit_and_starts_again_after_forget(clock: VirtualClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock=clock, base_delay=1, max_delay=10)
    assert [queue.retry("a") for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    assert queue.retry("b") == 1
    queue.forget("a")
    assert queue.retry("a") == 1


async def test_delayed_keys_come_at_once_when_what_they_wait_for_may_have_come(clock: VirtualClock) -> None:
    queue: WorkQueue[str] = WorkQueue(clock=clock)
    for _ in range(12):
        queue.retry("failing")
    queue.add_after("waiting", 30)
    queue.hurry()
    assert [await queue.get(), await queue.get()] == ["failing", "waiting"]
    assert queue.delayed == 0
    assert queue.retry("failing") == 0.05


async def test_shut_down_ends_waiting_workers_and_lets_taken_keys_finish(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    waiting = asyncio.create_task(queue.get())
    await turns()
    queue.shut_down()
    with pytest.raises(ShutDown):
        await waiting
    queue.add("b")
    assert len(queue) == 0
    assert not queue.is_quiet
    queue.done("a")
    assert queue.is_quiet


async def test_quiet_means_nothing_ready_and_nothing_in_flight(queue: WorkQueue[str]) -> None:
    assert queue.is_quiet
    queue.add("a")
    assert not queue.is_quiet
    key = await queue.get()
    assert not queue.is_quiet
    queue.add("a")
    queue.done(key)
    assert not queue.is_quiet
    queue.done(await queue.get())
    assert queue.is_quiet


async def test_metrics_tell_depth_adds_retries_and_latency(clock: VirtualClock) -> None:
    registry = CollectorRegistry()
    queue: WorkQueue[str] = WorkQueue(clock=clock, metrics=Metrics(registry).for_queue("q"))
    queue.add("a")
    queue.add("b")
    queue.retry("c")

    def value(name: str) -> float | None:
        return registry.get_sample_value(name, {"queue": "q"})

    assert value("steelyard_queue_depth") == 2
    await clock.advance(0.01)
    await queue.get()
    assert value("steelyard_queue_depth") == 1
    assert value("steelyard_queue_adds_total") == 2
    assert value("steelyard_queue_retries_total") == 1
    assert value("steelyard_queue_latency_seconds_count") == 1
    assert value("steelyard_queue_latency_seconds_sum") == pytest.approx(0.01)
