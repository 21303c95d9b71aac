from __future__ import annotations

import asyncio
import datetime

from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.clock import SystemClock, VirtualClock


async def test_virtual_time_stands_still_until_advanced_and_runs_what_is_due_in_order() -> None:
    clock = VirtualClock()
    rung: list[tuple[str, float]] = []
    clock.call_later(20, lambda: rung.append(("b", clock.monotonic())))
    clock.call_later(10, lambda: rung.append(("a", clock.monotonic())))
    clock.call_later(15, lambda: rung.append(("never", 0))).cancel()
    await clock.advance(9.9)
    assert rung == []
    await clock.advance(20)
    assert rung == [("a", 10), ("b", 20)]
    assert clock.now() == datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=29.9)


async def test_sleeps_one_after_the_other_end_within_one_advance() -> None:
    clock = VirtualClock()
    woken: list[float] = []

    async def sleeper() -> None:
        for _ in range(3):
            await clock.sleep(5)
            woken.append(clock.monotonic())

    task = asyncio.create_task(sleeper())
    await clock.advance(60)
    assert woken == [5, 10, 15]
    assert task.done()
    assert clock.pending == 0


async def test_system_clock_is_in_utc_and_its_timers_ring() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is datetime.UTC
    rung = asyncio.Event()
    clock.call_later(0.001, rung.set)
    await asyncio.wait_for(rung.wait(), 60)
    await clock.sleep(0)


def test_times_are_written_as_kubernetes_does_and_read_back() -> None:
    cet = datetime.timezone(datetime.timedelta(hours=1))
    moment = datetime.datetime(2025, 5, 1, 12, 30, 15, 123456, tzinfo=cet)
    assert clocks.rfc3339(moment) == "2025-05-01T11:30:15Z"
    assert clocks.rfc3339_micro(moment) == "2025-05-01T11:30:15.123456Z"
    assert clocks.parse_rfc3339(clocks.rfc3339_micro(moment)) == moment
