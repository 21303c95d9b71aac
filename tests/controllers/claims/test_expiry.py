"""Claims with a ttl: announced, deleted when their time has come, kept where they are protected, whatever happens."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any, cast

import pytest

from steelyard.api.claims import CREATED
from steelyard.controllers.claims import expiry
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.clock import SystemClock
from tests.controllers.claims.stage import CLAIMS, NAMESPACE, Stage

MINUTE = 60.0
HOUR = 60 * MINUTE


class Shifted(SystemClock):
    """The real clock, put forward: what waits for an hour is looked at by hand."""

    def __init__(self, shift: datetime.timedelta) -> None:
        self.shift = shift

    def now(self) -> datetime.datetime:
        return super().now() + self.shift


async def at(stage: Stage, created: Object, *, after: float = 0.0) -> Shifted:
    """The controller, started anew with a clock that stands so long after the claim was made."""
    await stage.crash()
    wanted = _created(created) + datetime.timedelta(seconds=after)
    clock = Shifted(wanted - datetime.datetime.now(datetime.UTC))
    stage.clock = clock
    await stage.start()
    await stage.settle()
    return clock


def _created(claim: Object) -> datetime.datetime:
    return clocks.parse_rfc3339(str(claim["metadata"]["creationTimestamp"]))


async def passes(stage: Stage, clock: Shifted, seconds: float) -> None:
    clock.shift += datetime.timedelta(seconds=seconds)
    await stage.look_again()


def _moved(first: str) -> Object:
    metadata = {"creationTimestamp": "2026-03-01T00:00:00Z", "annotations": {CREATED: first}}
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("first", "end"),
    [
        pytest.param("2026-02-01T00:00:00Z", "2026-02-01T10:00:00Z", id="from where it was made first"),
        pytest.param("2026-04-01T00:00:00Z", "2026-03-01T10:00:00Z", id="never from later than it is there"),
        pytest.param("soon", "2026-03-01T10:00:00Z", id="not from what is no time"),
    ],
)
def test_a_claim_that_was_moved_lives_no_longer_for_it(first: str, end: str) -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    found = expiry.of(_moved(first), now, ttl="10h", protection="")
    assert found is not None
    assert found.text == end


async def test_a_claim_is_announced_and_then_deleted(stage: Stage) -> None:
    created = await stage.claim(ttl="10h")
    clock = await at(stage, created)
    await stage.lifecycle_takes_over()
    end = clocks.rfc3339(_created(created) + datetime.timedelta(hours=10))
    assert (await stage.get())["status"]["expiresAt"] == end
    assert (await stage.condition("Expiring"))[0] == "None"

    await passes(stage, clock, 8 * HOUR)
    assert (await stage.condition("Expiring"))[0] == "None", "an hour is notice enough"

    await passes(stage, clock, 1.5 * HOUR)
    status, reason, message = await stage.condition("Expiring")
    assert (status, reason) == ("True", "EndOfLife")
    assert f"at {end} the claim is deleted" in message
    assert "raise spec.parameters.ttl" in message

    await passes(stage, clock, HOUR)
    assert "deletionTimestamp" in (await stage.get())["metadata"]
    await stage.lifecycle_lets_go()
    assert await stage.find(CLAIMS, "dev") is None
    assert await stage.objects_of() == []
    told = await stage.events()
    assert any(each.startswith("EndOfLife: ") for each in told)
    assert any(each.startswith(f"Expired: its ttl ended at {end}") for each in told)


async def test_the_controller_looks_again_by_itself_when_the_time_has_come(stage: Stage) -> None:
    created = await stage.claim(ttl="10h")
    await at(stage, created, after=9 * HOUR - 2)
    assert (await stage.condition("Expiring"))[0] == "None"

    async with asyncio.timeout(60):
        while (await stage.condition("Expiring"))[0] != "True":  # noqa: ASYNC110 (seen from outside)
            await asyncio.sleep(0.05)


async def test_an_end_that_passed_while_nobody_looked_is_announced_first(stage: Stage) -> None:
    created = await stage.claim(ttl="1h")
    clock = await at(stage, created, after=5 * HOUR)

    assert (await stage.condition("Expiring"))[:2] == ("True", "EndOfLife")
    await passes(stage, clock, 4 * MINUTE)
    assert await stage.find(CLAIMS, "dev") is not None

    clock = await at(stage, created, after=5 * HOUR + 4.5 * MINUTE)
    assert await stage.find(CLAIMS, "dev") is not None, "a restart begins no second notice, and ends none early"
    await passes(stage, clock, MINUTE)
    assert await stage.find(CLAIMS, "dev") is None


async def test_a_longer_ttl_or_none_takes_the_announcement_back(stage: Stage) -> None:
    created = await stage.claim(ttl="1h")
    clock = await at(stage, created, after=0.95 * HOUR)
    assert (await stage.condition("Expiring"))[0] == "True"

    await stage.change({"spec": {"parameters": {"ttl": "20h"}}})
    assert (await stage.condition("Expiring"))[0] == "None"
    await passes(stage, clock, 2 * HOUR)
    assert await stage.find(CLAIMS, "dev") is not None

    await stage.change({"spec": {"parameters": {"ttl": None}}})
    assert "expiresAt" not in (await stage.get())["status"]
    await passes(stage, clock, 1000 * HOUR)
    assert await stage.find(CLAIMS, "dev") is not None


async def test_a_shorter_ttl_is_announced_before_it_deletes(stage: Stage) -> None:
    created = await stage.claim(ttl="100h")
    clock = await at(stage, created, after=50 * HOUR)

    await stage.change({"spec": {"parameters": {"ttl": "10m"}}})
    assert (await stage.condition("Expiring"))[0] == "True"
    assert await stage.find(CLAIMS, "dev") is not None
    await passes(stage, clock, 6 * MINUTE)
    assert await stage.find(CLAIMS, "dev") is None


async def test_a_protected_claim_stays_and_says_so(stage: Stage) -> None:
    created = await stage.claim(ttl="1h", deletionProtection=True)
    clock = await at(stage, created)

    await passes(stage, clock, 2 * HOUR)
    status, reason, message = await stage.condition("Expiring")
    assert (status, reason) == ("False", "Protected")
    assert "protected by spec.parameters.deletionProtection" in message
    assert any(each.startswith("Protected: ") for each in await stage.events())

    await stage.change({"spec": {"parameters": {"deletionProtection": False}}})
    assert (await stage.condition("Expiring"))[0] == "True"
    assert await stage.find(CLAIMS, "dev") is not None
    await passes(stage, clock, 6 * MINUTE)
    assert await stage.find(CLAIMS, "dev") is None


async def test_the_annotation_protects_as_well(stage: Stage) -> None:
    created = await stage.claim(ttl="1h")
    await stage.change({"metadata": {"annotations": {"steelyard.dev/protected": "true"}}})
    clock = await at(stage, created, after=2 * HOUR)

    assert (await stage.condition("Expiring"))[1] == "Protected"
    await passes(stage, clock, 24 * HOUR)
    assert await stage.find(CLAIMS, "dev") is not None


async def test_a_claim_that_is_paused_is_not_deleted(stage: Stage) -> None:
    created = await stage.claim(ttl="1h")
    await stage.change({"metadata": {"annotations": {"crossplane.io/paused": "true"}}})
    clock = await at(stage, created, after=2 * HOUR)

    await passes(stage, clock, 24 * HOUR)
    assert await stage.find(CLAIMS, "dev") is not None


async def test_a_claim_that_was_changed_in_the_last_moment_is_looked_at_again(stage: Stage) -> None:
    """Protection that the controller has not seen yet counts: the API refuses to delete another claim than the one that
    was judged."""
    created = await stage.claim(ttl="1h")
    stage.client_of_controller = cast(Client, _LateProtection(stage.client))
    clock = await at(stage, created, after=0.95 * HOUR)

    await passes(stage, clock, 0.2 * HOUR)

    assert await stage.find(CLAIMS, "dev") is not None
    assert (await stage.condition("Expiring"))[1] == "Protected"


class _LateProtection:
    """Somebody protects the claim just before it is deleted."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_done = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    async def delete(self, *args: Any, **kwargs: Any) -> Object:
        if not self._is_done:
            self._is_done = True
            patch: Object = {"spec": {"parameters": {"deletionProtection": True}}}
            await self._client.patch(CLAIMS, "dev", patch, NAMESPACE)
        return await self._client.delete(*args, **kwargs)


def test_durations_are_read_as_they_are_written() -> None:
    assert expiry.parsed("168h") == datetime.timedelta(days=7)
    assert expiry.parsed("1h30m") == datetime.timedelta(minutes=90)
    assert expiry.parsed("90m") == datetime.timedelta(minutes=90)
    assert expiry.parsed("a week") is None
