from __future__ import annotations

import pytest

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, EVENTS
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.runtime.events import Recorder
from tests.kube.runtime.memory import MemoryClient, config_map


@pytest.fixture
def server() -> MemoryClient:
    return MemoryClient()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def subject(server: MemoryClient) -> Object:
    return await server.create(CONFIG_MAPS, config_map("a"))


def stored(server: MemoryClient) -> list[Object]:
    return [obj for (resource, _), obj in server.stored.items() if resource == EVENTS]


async def test_event_names_its_object_and_reporter(server: MemoryClient, clock: VirtualClock, subject: Object) -> None:
    recorder = Recorder(server, "steelyard-claims", clock=clock)
    recorder.warning(subject, "NoCapacity", "no host has 4 cores left: add a host or ask for less")
    await recorder.flush()
    [event] = stored(server)
    assert event["involvedObject"]["name"] == "a"
    assert event["involvedObject"]["uid"] == subject["metadata"]["uid"]
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "NoCapacity", 1)
    assert event["source"] == {"component": "steelyard-claims"}
    assert event["metadata"]["namespace"] == "default"
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2025-01-01T00:00:00Z"


async def test_event_that_repeats_is_counted_even_by_a_new_process(
    server: MemoryClient, clock: VirtualClock, subject: Object
) -> None:
    first = Recorder(server, "c", clock=clock)
    first.normal(subject, "Created", "machine m-1")
    first.normal(subject, "Created", "machine m-1")
    await first.flush()
    await clock.advance(60)
    restarted = Recorder(server, "c", clock=clock)
    restarted.normal(subject, "Created", "machine m-1")
    await restarted.flush()
    [event] = stored(server)
    assert event["count"] == 3
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2025-01-01T00:00:00Z", "2025-01-01T00:01:00Z")


async def test_event_that_expired_on_the_server_is_made_again(
    server: MemoryClient, clock: VirtualClock, subject: Object
) -> None:
    recorder = Recorder(server, "c", clock=clock)
    recorder.normal(subject, "Created", "x")
    await recorder.flush()
    await server.delete_collection(EVENTS)
    recorder.normal(subject, "Created", "x")
    await recorder.flush()
    assert [event["count"] for event in stored(server)] == [1]


async def test_events_alike_but_for_the_message_are_combined(
    server: MemoryClient, clock: VirtualClock, subject: Object
) -> None:
    recorder = Recorder(server, "c", clock=clock)
    for number in range(20):
        recorder.warning(subject, "Failed", f"attempt {number}")
    await recorder.flush()
    events = stored(server)
    assert len(events) == 11
    combined = events[-1]
    assert combined["message"] == "(combined from similar events): attempt 19"
    assert combined["count"] == 10


async def test_object_that_goes_on_and_on_is_throttled(
    server: MemoryClient, clock: VirtualClock, subject: Object
) -> None:
    recorder = Recorder(server, "c", clock=clock)
    for _ in range(100):
        recorder.warning(subject, "Failed", "again")
    await recorder.flush()
    assert stored(server)[0]["count"] == 25
    await clock.advance(301)
    recorder.warning(subject, "Failed", "again")
    recorder.warning(subject, "Failed", "again")
    await recorder.flush()
    assert stored(server)[0]["count"] == 26


@pytest.mark.parametrize("cause", [errors.Forbidden("no"), RuntimeError("bug")])
async def test_server_that_refuses_an_event_disturbs_nobody(
    server: MemoryClient, clock: VirtualClock, subject: Object, cause: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server.fail("create", cause)
    recorder = Recorder(server, "c", clock=clock)
    recorder.normal(subject, "Created", "x")
    recorder.normal(subject, "Scaled", "y")
    await recorder.flush()
    assert [event["reason"] for event in stored(server)] == ["Scaled"]
    assert caplog.messages == ["event not recorded"]
