"""Unhealthy control-plane machines: which one is replaced, when not, and what is remembered of it."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import orjson
import pytest

from steelyard.api.clusterapi import resources as capi
from steelyard.api.clusterapi import wellknown
from steelyard.controllers.lifecycle import marks
from steelyard.controllers.lifecycle.kubeadmcontrolplane import mending, remediation
from steelyard.controllers.lifecycle.kubeadmcontrolplane.remediation import Limits, Record
from steelyard.controllers.lifecycle.members import service
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions, verdicts
from tests.controllers.lifecycle import world as worlds
from tests.controllers.lifecycle.test_clusters import patch, settled
from tests.controllers.lifecycle.world import NAMESPACE, World, until

NOW = datetime.datetime(2025, 6, 1, 12, tzinfo=datetime.UTC)


def ago(**time: float) -> str:
    return clocks.rfc3339(NOW - datetime.timedelta(**time))


def machine(name: str, *, node: str | None = None, going: bool = False, **marked: Any) -> Object:
    """`unhealthy`: what a check found; `record`: whose place it has; `asked`: somebody wants it replaced."""
    types = {"EtcdMemberHealthy": "True", "APIServerPodHealthy": "True", **marked.get("states", {})}
    if marked.get("unhealthy"):
        types |= {marks.HEALTH_CHECK: "False", marks.OWNER_REMEDIATED: "False"}
    metadata: Object = {"name": name, "namespace": NAMESPACE, "uid": name, "creationTimestamp": ago(days=2)}
    annotations = {}
    if marked.get("record"):
        annotations[wellknown.REMEDIATION_FOR_ANNOTATION] = marked["record"].to_json()
    if marked.get("asked"):
        annotations[wellknown.REMEDIATE_MACHINE_ANNOTATION] = ""
    metadata["annotations"] = annotations
    if going:
        metadata["deletionTimestamp"] = ago(seconds=5)
    status: Object = {"conditions": [{"type": type_, "status": status} for type_, status in types.items()]}
    if node != "":
        status["nodeRef"] = {"name": node or name}
    return {"kind": "Machine", "metadata": metadata, "status": status}


def decide(machines: list[Object], *, current: Record | None = None, initialized: bool = True, **limits: Any) -> Any:
    return remediation.decide(machines, Limits(**limits), current, is_initialized=initialized, now=NOW)


BAD = machine("a", unhealthy=True)
B, C = machine("b"), machine("c")


@pytest.mark.parametrize(
    ("machines", "expected"),
    [
        pytest.param([BAD, B, C], "a", id="the unhealthy one"),
        pytest.param([machine("a"), B, C], "", id="none is"),
        pytest.param([machine("a", states={marks.HEALTH_CHECK: "False"}), B, C], "", id="none that is ours to replace"),
        pytest.param([BAD, machine("b", unhealthy=True, node=""), C], "b", id="first the one without Node"),
        pytest.param(
            [BAD, machine("b", unhealthy=True, states={"EtcdMemberHealthy": "False"}), C], "b", id="then without member"
        ),
        pytest.param(
            [BAD, machine("b", unhealthy=True, states={"APIServerPodHealthy": "Unknown"}), C], "b", id="then the rest"
        ),
        pytest.param([BAD, machine("b", unhealthy=True, node="", asked=True), C], "b", id="asked for"),
        pytest.param([machine("a", unhealthy=True, going=True), B, C], "", id="it goes already"),
    ],
)
def test_which_machine_is_replaced(machines: list[Object], expected: str) -> None:
    decision = decide(machines)
    assert decision.machine == expected
    assert (decision.record is not None) == bool(expected)


@pytest.mark.parametrize(
    ("machines", "reason", "message"),
    [
        pytest.param([BAD], "CannotBeRemediated", "current replicas are less or equal to 1", id="the only one"),
        pytest.param([BAD, B, machine("c", node="")], "RemediationDeferred", "provisioning", id="one is being made"),
        pytest.param([BAD, B, machine("c", going=True)], "RemediationDeferred", "deletion", id="one is going"),
    ],
)
def test_when_a_machine_stays(machines: list[Object], reason: str, message: str) -> None:
    decision = decide(machines)
    assert (decision.machine, decision.record, decision.reason) == ("a", None, reason)
    assert message in decision.message
    assert decide(machines, initialized=False).record is not None, "nothing can be lost of what never began"


def replaced(retries: int, **time: float) -> Object:
    """A replacement, made so long ago, that is unhealthy itself."""
    return machine("a", unhealthy=True, record=Record("former", ago(**time), retries))


@pytest.mark.parametrize(
    ("machine", "limits", "expected"),
    [
        pytest.param(replaced(0, minutes=5), {}, 1, id="the first retry"),
        pytest.param(replaced(3, minutes=5), {}, 4, id="without limit, any number"),
        pytest.param(replaced(3, hours=2), {}, 0, id="one that was healthy for an hour is another matter"),
        pytest.param(replaced(3, minutes=5), {"min_healthy_seconds": 60.0}, 0, id="or for as long as is said"),
        pytest.param(
            replaced(3, minutes=5), {"max_retry": 3}, "operation already failed 3 times (MaxRetry)", id="enough"
        ),
        pytest.param(replaced(2, minutes=5), {"max_retry": 3}, 3, id="the last one"),
        pytest.param(replaced(0, minutes=5), {"max_retry": 0}, "failed 0 times", id="none at all"),
        pytest.param(
            replaced(0, minutes=5),
            {"retry_seconds": 600.0},
            "failed in the latest 10m0s (RetryPeriodSeconds)",
            id="soon",
        ),
        pytest.param(replaced(0, minutes=15), {"retry_seconds": 600.0}, 1, id="late enough"),
    ],
)
def test_how_often_and_how_soon_it_is_tried_again(machine: Object, limits: dict[str, Any], expected: int | str) -> None:
    decision = decide([machine, B, C], **limits)
    if isinstance(expected, str):
        assert decision.record is None
        assert expected in decision.message
        assert decision.retry_after == (300.0 if "latest" in expected else None)
    else:
        assert decision.record == Record("a", clocks.rfc3339(NOW), expected)


def test_one_replacement_at_a_time_and_a_crash_goes_on_with_the_same_one() -> None:
    begun = Record("a", ago(seconds=3), 2)
    assert decide([BAD, B, C], current=begun).record == begun, "written down, not done yet"
    gone = Record("z", ago(seconds=3), 0)
    assert decide([BAD, B, C], current=gone) == remediation.Decision(), "the place of z is still empty"
    new = machine("n", record=gone)
    assert decide([BAD, B, new], current=gone).machine == "a", "it has been filled"
    recovered = Record("b", ago(seconds=3), 0)
    assert decide([BAD, B, C], current=recovered).machine == "a", "b got well before it was deleted"


@pytest.mark.parametrize("text", [None, "", "{}", "x", '{"machine": "a", "timestamp": "yesterday"}', "[]", "7"])
def test_a_record_that_cannot_be_read_counts_for_nothing(text: str | None) -> None:
    assert Record.of(text) is None


def test_a_record_is_written_as_upstream_reads_it() -> None:
    record = Record("a", "2025-06-01T12:00:00Z", 2)
    assert orjson.loads(record.to_json()) == {"machine": "a", "timestamp": "2025-06-01T12:00:00Z", "retryCount": 2}
    assert Record.of(record.to_json()) == record


@pytest.fixture
def three(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(mending, "_RETRY", 0.1)
    monkeypatch.setattr(service, "_STILL_TRUE_SECONDS", 0.05)
    return world


async def made(world: World, count: int) -> list[str]:
    await worlds.create(world, worlds.cluster_objects(control_plane=count, workers=0))
    await settled(world, count)
    return await world.names(capi.MACHINES)


async def mark(world: World, name: str, *, healthy: bool = False) -> None:
    """As a MachineHealthCheck does."""
    verdict = (
        verdicts.true(marks.HEALTH_CHECK, "Succeeded") if healthy else verdicts.false(marks.HEALTH_CHECK, "X", "x")
    )
    asked = [] if healthy else [verdicts.false(marks.OWNER_REMEDIATED, "WaitingForRemediation", "Waiting")]
    while True:
        try:
            found = await world.one(capi.MACHINES, name)
            await marks.put(world.client, found, [verdict, *asked], datetime.datetime.now(datetime.UTC))
            return
        except errors.Conflict:
            # What the other wrote is shown once it is stored, for which others need a turn.
            await asyncio.sleep(0.01)


async def test_an_unhealthy_machine_is_replaced_and_its_member_with_it(three: World) -> None:
    async with worlds.running(three):
        sick, *others = await made(three, 3)
        await worlds.kill_member(three, sick)
        await mark(three, sick)

        async def replaced() -> bool:
            found = await three.names(capi.MACHINES)
            return len(found) == 3 and sick not in found and await worlds.is_settled(three, machines=3)

        await until(replaced, "a machine in its place")
        found = await three.names(capi.MACHINES)
        assert set(others) < set(found)
        assert await three.members() == found
        [new] = [each for each in await three.all(capi.MACHINES) if objects.name(each) not in others]
        record = Record.of(objects.annotations(new).get(wellknown.REMEDIATION_FOR_ANNOTATION))
        assert record is not None
        assert (record.machine, record.retries) == (sick, 0)

        async def told() -> bool:
            plane = await three.one(capi.KUBEADM_CONTROL_PLANES, "c")
            is_over = wellknown.REMEDIATION_IN_PROGRESS_ANNOTATION not in objects.annotations(plane)
            return is_over and objects.at(plane, "status", "lastRemediation") == record.to_status()

        await until(told, "what was done last")


async def test_a_machine_stays_while_quorum_would_be_lost(three: World) -> None:
    async with worlds.running(three):
        sick, other, _ = await made(three, 3)
        await worlds.kill_member(three, other)
        await mark(three, sick)

        async def told() -> bool:
            found = await three.one(capi.MACHINES, sick)
            return f"etcd loosing quorum: without etcd member {sick}" in conditions.message_of(
                found, marks.OWNER_REMEDIATED
            )

        await until(told, "why it is not replaced")
        assert (
            conditions.reason_of(await three.one(capi.MACHINES, sick), marks.OWNER_REMEDIATED) == "CannotBeRemediated"
        )

        async def shown() -> bool:
            plane = await three.one(capi.KUBEADM_CONTROL_PLANES, "c")
            return f"Machine {sick}" in conditions.message_of(plane, "Remediating")

        await until(shown, "that it waits")
        await asyncio.sleep(0.3)
        assert not objects.is_being_deleted(await three.one(capi.MACHINES, sick))
        await worlds.revive_member(three, other)

        async def replaced() -> bool:
            return sick not in await three.names(capi.MACHINES)

        await until(replaced, "it goes when it may")


async def test_the_only_machine_stays_and_one_that_got_well_is_let_be(three: World) -> None:
    async with worlds.running(three):
        [only] = await made(three, 1)
        await mark(three, only)

        async def told() -> bool:
            message = conditions.message_of(await three.one(capi.MACHINES, only), marks.OWNER_REMEDIATED)
            return "less or equal to 1" in message

        await until(told, "why it is not replaced")
        await mark(three, only, healthy=True)

        async def cleared() -> bool:
            return not conditions.reason_of(await three.one(capi.MACHINES, only), marks.OWNER_REMEDIATED)

        await until(cleared, "that nothing is asked any more")
        assert await three.names(capi.MACHINES) == [only]


async def test_a_first_machine_that_never_comes_up_is_tried_again_as_often_as_is_said(
    three: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is initialized yet, so nothing can be lost."""
    created = worlds.cluster_objects(control_plane=1, workers=0)
    for resource, obj in created:
        if resource == capi.KUBEADM_CONTROL_PLANES:
            obj["spec"]["remediation"] = {"maxRetry": 1}
    seen: list[str] = []

    def never(_: Object) -> bool:
        return False

    async def another() -> bool:
        found = await three.names(capi.MACHINES)
        return len(found) == 1 and found[0] not in seen

    monkeypatch.setattr(worlds, "boots", never)
    async with worlds.running(three):
        await worlds.create(three, created)
        for _ in range(3):
            await until(another, "the next machine")
            seen += await three.names(capi.MACHINES)
            await mark(three, seen[-1])

        async def given_up() -> bool:
            message = conditions.message_of(await three.one(capi.MACHINES, seen[-1]), marks.OWNER_REMEDIATED)
            return "already failed 1 times (MaxRetry)" in message

        await until(given_up, "that it is not tried any more")
        await patch(three, capi.KUBEADM_CONTROL_PLANES, {"spec": {"remediation": {"maxRetry": 5}}})

        async def tried() -> bool:
            return seen[-1] not in await three.names(capi.MACHINES)

        await until(tried, "another try, once it is wanted")
