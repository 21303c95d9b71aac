from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import pytest
from prometheus_client import CollectorRegistry

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, EVENTS, SECRETS, Resource
from steelyard.kube.runtime import conditions, logs, mapping, triggers
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.runtime.controller import RESYNC, SECOND_LOOK, Controller, Reconciler, Result, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.runtime.metrics import Metrics
from steelyard.kube.runtime.pace import Pace
from tests.kube.runtime.memory import MemoryClient, config_map, turns


class Recording:
    """Notes what it is asked to reconcile and answers as told."""

    def __init__(self, answer: Callable[[Key, int], Result] | None = None) -> None:
        self.keys: list[str] = []
        self._answer = answer

    async def reconcile(self, key: Key) -> Result:
        self.keys.append(str(key))
        return self._answer(key, len(self.keys)) if self._answer else Result()


class Platform:
    """A manager under way on a server in memory, with virtual time."""

    def __init__(self) -> None:
        self.server = MemoryClient()
        self.clock = VirtualClock()
        self.registry = CollectorRegistry()
        self.manager = Manager(self.server, clock=self.clock, metrics=Metrics(self.registry))
        self.running: asyncio.Task[None] | None = None

    async def start(self, reconciler: Reconciler, *watches: Watch, workers: int = 1, deadline: float = 60) -> None:
        self.manager.add(Controller("test", CONFIG_MAPS, reconciler, watches, workers=workers, deadline=deadline))
        self.running = asyncio.create_task(self.manager.run())
        await turns()

    def sample(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(name, {"controller": "test", "kind": "ConfigMap", **labels})
        return value or 0.0


@pytest.fixture
async def platform() -> AsyncIterator[Platform]:
    platform = Platform()
    yield platform
    if platform.running:
        platform.running.cancel()
        await asyncio.wait([platform.running])


async def test_every_object_is_reconciled_at_start_and_when_it_changes(platform: Platform) -> None:
    reconciler = Recording()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.server.create(CONFIG_MAPS, config_map("b"))
    await turns()
    await platform.server.delete(CONFIG_MAPS, "a", "default")
    await turns()
    assert reconciler.keys == ["default/a", "default/b", "default/a"]


async def test_change_of_a_watched_object_reconciles_what_it_maps_to(platform: Platform) -> None:
    reconciler = Recording()
    owner = await platform.server.create(CONFIG_MAPS, config_map("owner"))
    await platform.start(reconciler, Watch(SECRETS, mapping.to_owner(CONFIG_MAPS)))
    reconciler.keys.clear()
    secret = config_map("s")
    secret["kind"] = "Secret"
    secret["metadata"]["ownerReferences"] = [objects.owner_reference(owner)]
    await platform.server.create(SECRETS, secret)
    await turns()
    assert reconciler.keys == ["default/owner"]


async def test_what_is_watched_when_needed_is_not_before_there_is_an_object_that_needs_it(platform: Platform) -> None:
    reconciler = Recording()
    await platform.start(reconciler, Watch(SECRETS, lambda _: [Key("default", "owner")], when_needed=True))
    await platform.server.create(SECRETS, {**config_map("early"), "kind": "Secret"})
    await turns()
    assert platform.manager.informers.find(SECRETS) is None
    await platform.server.create(CONFIG_MAPS, config_map("owner"))
    await turns()
    informer = platform.manager.informers.find(SECRETS)
    assert informer is not None
    assert len(informer) == 1
    reconciler.keys.clear()
    await platform.server.create(SECRETS, {**config_map("late"), "kind": "Secret"})
    await turns()
    assert reconciler.keys == ["default/owner"]


async def test_object_that_loses_its_owner_reconciles_the_former_owner(platform: Platform) -> None:
    reconciler = Recording()
    labelled = config_map("s")
    labelled["metadata"]["labels"] = {"of": "one"}
    await platform.server.create(SECRETS, labelled)
    await platform.start(reconciler, Watch(SECRETS, mapping.to_label("of")))
    reconciler.keys.clear()
    await platform.server.patch(SECRETS, "s", {"metadata": {"labels": {"of": "two"}}}, "default")
    await turns()
    assert sorted(reconciler.keys) == ["default/one", "default/two"]


async def test_changes_that_do_not_matter_are_left_out(platform: Platform) -> None:
    reconciler = Recording()
    watch = Watch(
        SECRETS, lambda obj: [Key.of(obj)], matters=lambda old, new: (old or {}).get("data") != (new or {}).get("data")
    )
    await platform.start(reconciler, watch)
    await platform.server.create(SECRETS, config_map("s", x="1"))
    await turns()
    await platform.server.patch(SECRETS, "s", {"metadata": {"labels": {"a": "b"}}}, "default")
    await turns()
    assert reconciler.keys == ["default/s"]


async def test_changes_that_are_collected_lead_to_one_reconcile(platform: Platform) -> None:
    reconciler = Recording()
    await platform.start(reconciler, Watch(SECRETS, lambda obj: [Key("default", "sum")], after=0.5))
    for number in range(5):
        await platform.server.create(SECRETS, config_map(f"s-{number}"))
        await platform.clock.advance(0.05)
    assert reconciler.keys == []
    await platform.clock.advance(0.3)
    assert reconciler.keys == ["default/sum"]


async def test_one_object_is_never_reconciled_twice_at_the_same_time(platform: Platform) -> None:
    active: list[str] = []
    most_at_once = 0

    class Slow:
        async def reconcile(self, key: Key) -> Result:
            nonlocal most_at_once
            assert key.name not in active
            active.append(key.name)
            most_at_once = max(most_at_once, len(active))
            await turns(5)
            active.remove(key.name)
            return Result()

    await platform.start(Slow(), workers=4)
    for name in "abc":
        await platform.server.create(CONFIG_MAPS, config_map(name))
    for round_ in range(10):
        for name in "abc":
            await platform.server.patch(CONFIG_MAPS, name, {"data": {"round": str(round_)}}, "default")
        await turns(3)
    await platform.manager.idle()
    assert most_at_once == 3


async def test_requeue_after_comes_back_without_any_change(platform: Platform) -> None:
    reconciler = Recording(lambda key, count: Result(requeue_after=30) if count == 1 else Result())
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.clock.advance(29)
    assert len(reconciler.keys) == 1
    await platform.clock.advance(2)
    assert len(reconciler.keys) == 2


@pytest.mark.parametrize("after", [0.0, -5.0], ids=["now", "in the past"])
async def test_a_reconciler_whose_moment_has_passed_is_not_called_without_end(platform: Platform, after: float) -> None:
    reconciler = Recording(lambda key, count: Result(requeue_after=after))
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    async with asyncio.timeout(60):
        await platform.start(reconciler)
    await turns(50)
    assert len(reconciler.keys) == 1
    await platform.clock.advance(0.1)
    assert len(reconciler.keys) in {2, 3}


async def test_each_object_is_looked_at_again_after_hours_at_a_time_of_its_own(platform: Platform) -> None:
    reconciler = Recording()
    for number in range(20):
        await platform.server.create(CONFIG_MAPS, config_map(f"c-{number}"))
    await platform.start(reconciler)
    reconciler.keys.clear()
    await platform.clock.advance(RESYNC / 2 - 1)
    assert reconciler.keys == []
    await platform.clock.advance(RESYNC / 2)
    assert 0 < len(reconciler.keys) < 20
    await platform.clock.advance(RESYNC / 2 + 1)
    assert len(set(reconciler.keys)) == 20
    assert platform.clock.pending == 1, "all wait on one timer"


async def test_an_object_that_is_gone_is_not_looked_at_again(platform: Platform) -> None:
    reconciler = Recording()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.server.delete(CONFIG_MAPS, "a", "default")
    await turns()
    assert platform.clock.pending == 0
    assert reconciler.keys == ["default/a"] * 2


async def test_failure_is_logged_with_its_fields_counted_and_tried_again(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(key: Key, count: int) -> Result:
        if count <= 2:
            raise errors.ServiceUnavailable("host is down")
        return Result()

    reconciler = Recording(answer)
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.clock.advance(1)
    assert len(reconciler.keys) == 3
    assert [record.getMessage() for record in caplog.records] == ["reconcile failed"] * 2
    fields = vars(caplog.records[0])["fields"]
    assert fields["kind"] == "ConfigMap"
    assert (fields["namespace"], fields["name"]) == ("default", "a")
    assert fields["error"] == "ServiceUnavailable: host is down"
    assert fields["reconcile"]
    assert platform.sample("steelyard_reconcile_errors_total") == 2
    assert platform.sample("steelyard_reconciles_total", result="success") == 1
    assert platform.sample("steelyard_last_reconciled_timestamp_seconds") == pytest.approx(
        platform.clock.now().timestamp(), abs=2
    )


async def test_conflict_comes_back_quickly_and_quietly(platform: Platform, caplog: pytest.LogCaptureFixture) -> None:
    def answer(key: Key, count: int) -> Result:
        if count <= 8:
            raise errors.Conflict("modified")
        return Result()

    reconciler = Recording(answer)
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.clock.advance(4)
    assert len(reconciler.keys) == 9
    assert not caplog.records
    assert platform.sample("steelyard_reconcile_errors_total") == 0
    assert platform.sample("steelyard_reconciles_total", result="conflict") == 8


async def test_bug_in_a_reconciler_is_logged_with_traceback_and_does_not_end_the_controller(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(key: Key, count: int) -> Result:
        if key.name == "bad":
            raise KeyError("spec")
        return Result()

    reconciler = Recording(answer)
    await platform.start(reconciler)
    await platform.server.create(CONFIG_MAPS, config_map("bad"))
    await platform.server.create(CONFIG_MAPS, config_map("good"))
    await turns()
    assert "default/good" in reconciler.keys
    assert caplog.records[0].exc_info is not None


async def test_reconcile_that_hangs_is_cancelled_at_its_deadline(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    class Hanging:
        def __init__(self) -> None:
            self.keys: list[str] = []

        async def reconcile(self, key: Key) -> Result:
            self.keys.append(key.name)
            if key.name == "hangs" and len(self.keys) == 1:
                await asyncio.Event().wait()
            return Result()

    reconciler = Hanging()
    await platform.server.create(CONFIG_MAPS, config_map("hangs"))
    await platform.start(reconciler, deadline=0.05)
    await asyncio.sleep(0.1)
    assert [record.getMessage() for record in caplog.records] == ["reconcile exceeded its deadline"]
    await platform.clock.advance(1)
    assert reconciler.keys == ["hangs", "hangs"]


async def test_time_out_inside_a_reconciler_is_not_taken_for_the_deadline(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(key: Key, count: int) -> Result:
        raise TimeoutError("from within")

    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(Recording(answer))
    assert caplog.records[0].getMessage() == "reconcile failed"


async def test_log_fields_are_bound_during_a_reconcile_and_gone_after_it(
    platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.get("steelyard.test")

    def answer(key: Key, count: int) -> Result:
        log.info("working", step=1)
        return Result()

    with caplog.at_level(logging.INFO, "steelyard.test"):
        await platform.server.create(CONFIG_MAPS, config_map("a"))
        await platform.start(Recording(answer))
    fields = vars(caplog.records[0])["fields"]
    assert (fields["name"], fields["step"], fields["controller"]) == ("a", 1, "test")
    assert logs.bound() == {}


async def test_reconciling_begins_only_when_all_caches_are_full(platform: Platform) -> None:
    reconciler = Recording()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    platform.server.fail("list", errors.ServiceUnavailable("not yet"))
    await platform.start(reconciler, Watch(SECRETS, lambda obj: []))
    assert reconciler.keys == []
    assert not platform.manager.ready.is_set()
    await platform.clock.advance(1)
    assert platform.manager.ready.is_set()
    assert reconciler.keys == ["default/a"]


async def test_own_write_is_looked_at_once_more_after_a_while_and_then_there_is_silence(platform: Platform) -> None:
    class Writing:
        def __init__(self) -> None:
            self.count = 0

        async def reconcile(self, key: Key) -> Result:
            self.count += 1
            await platform.manager.client.patch(CONFIG_MAPS, key.name, {"data": {"seen": "yes"}}, key.namespace)
            return Result()

    reconciler = Writing()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.manager.idle()
    assert reconciler.count == 1
    await platform.clock.advance(SECOND_LOOK)
    assert reconciler.count == 2
    calls = list(platform.server.calls)
    await platform.clock.advance(RESYNC / 2 - 1)
    assert platform.server.calls == calls


async def test_what_others_write_during_a_reconcile_is_looked_at_at_once(platform: Platform) -> None:
    class Writing:
        def __init__(self) -> None:
            self.count = 0

        async def reconcile(self, key: Key) -> Result:
            self.count += 1
            await platform.manager.client.patch(CONFIG_MAPS, key.name, {"data": {"seen": "yes"}}, key.namespace)
            if self.count == 1:
                await platform.server.patch(CONFIG_MAPS, key.name, {"data": {"by": "another"}}, key.namespace)
                await turns()
            return Result()

    reconciler = Writing()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    await platform.manager.idle()
    assert reconciler.count == 2


async def test_what_a_reconcile_makes_for_its_object_does_not_call_it_again_at_once(platform: Platform) -> None:
    class Making:
        def __init__(self) -> None:
            self.count = 0

        async def reconcile(self, key: Key) -> Result:
            self.count += 1
            if self.count == 1:
                await platform.manager.client.create(SECRETS, {**config_map("made"), "kind": "Secret"})
                await turns()
            return Result()

    reconciler = Making()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler, Watch(SECRETS, lambda _: [Key("default", "a")]))
    await platform.manager.idle()
    assert reconciler.count == 1
    await platform.clock.advance(SECOND_LOOK)
    assert reconciler.count == 2


async def test_an_object_that_its_own_reconcile_deletes_is_looked_at_at_once(platform: Platform) -> None:
    class Ending:
        def __init__(self) -> None:
            self.seen: list[bool] = []

        async def reconcile(self, key: Key) -> Result:
            found = await platform.manager.client.get(CONFIG_MAPS, key.name, key.namespace)
            self.seen.append(objects.is_being_deleted(found))
            if len(self.seen) == 1:
                await platform.manager.client.delete(CONFIG_MAPS, key.name, key.namespace)
            return Result()

    reconciler = Ending()
    held = config_map("a")
    held["metadata"]["finalizers"] = ["test.dev/held"]
    await platform.server.create(CONFIG_MAPS, held)
    await platform.start(reconciler)
    await platform.manager.idle()
    assert reconciler.seen == [False, True]


async def test_a_change_of_the_status_alone_waits_a_moment(platform: Platform) -> None:
    reconciler = Recording()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    reconciler.keys.clear()
    for number in range(3):
        await platform.server.patch(CONFIG_MAPS, "a", {"status": {"number": number}}, "default")
        await turns()
    assert reconciler.keys == []
    await platform.clock.advance(triggers.REPORT_AFTER)
    assert reconciler.keys == ["default/a"]


class TestPace:
    def test_reports_wait_longer_the_more_there_is_to_do_and_never_very_long(self) -> None:
        waiting = [0, 10, 200, 1000, 1_000_000]
        pace = Pace(VirtualClock(), lambda: waiting.pop(0))
        waits: list[float] = []
        while waiting:
            for _ in range(16):
                pace.step()
            waits.append(pace.collected(0.2))
        assert waits[0] == 0.2
        assert waits == sorted(waits)
        assert waits[-1] == 5.0

    async def test_and_longer_the_slower_it_goes(self) -> None:
        clock = VirtualClock()
        pace = Pace(clock, lambda: 20)
        waits: list[float] = []
        for apart in (0.005, 0.05):
            for _ in range(100):
                await clock.advance(apart)
                pace.step()
            waits.append(pace.collected(0.2))
        assert 0.2 < waits[0] < waits[1]


THINGS = Resource("test.dev", "v1", "things", "Thing")


class TestFailingForever:
    """What a reconciler that never succeeds leaves for people to see."""

    @pytest.fixture
    async def thing(self, platform: Platform) -> Object:
        thing = config_map("a")
        thing |= {"apiVersion": THINGS.api_version, "kind": THINGS.kind}
        return await platform.server.create(THINGS, thing)

    async def start(self, platform: Platform, reconciler: Reconciler) -> None:
        platform.manager.add(Controller("test", THINGS, reconciler))
        platform.running = asyncio.create_task(platform.manager.run())
        await turns()

    async def seen(self, platform: Platform) -> Object:
        return await platform.server.get(THINGS, "a", "default")

    async def test_is_a_condition_and_an_event_until_it_succeeds(self, platform: Platform, thing: Object) -> None:
        is_broken = True

        def answer(key: Key, count: int) -> Result:
            if is_broken:
                raise KeyError("spec")
            return Result()

        await self.start(platform, Recording(answer))
        await platform.clock.advance(60)
        found = conditions.find(await self.seen(platform), "Reconciled") or {}
        assert (found["status"], found["reason"], found["message"]) == ("False", "ReconcileError", "KeyError: 'spec'")
        events = (await platform.server.list(EVENTS)).items
        assert [(event["reason"], event["message"]) for event in events] == [("ReconcileFailed", "KeyError: 'spec'")]
        is_broken = False
        await platform.clock.advance(120)
        assert conditions.find(await self.seen(platform), "Reconciled") is None

    async def test_is_tried_and_told_at_a_bounded_rate(
        self, platform: Platform, thing: Object, caplog: pytest.LogCaptureFixture
    ) -> None:
        def answer(key: Key, count: int) -> Result:
            raise ValueError(f"attempt {count}")

        reconciler = Recording(answer)
        await self.start(platform, reconciler)
        await platform.clock.advance(3600)
        attempts = len(reconciler.keys)
        assert 60 <= attempts <= 90, "once a minute, when its delay has grown"
        told = [vars(record)["fields"] for record in caplog.records]
        assert len(told) <= 10
        assert {(fields["kind"], fields["name"]) for fields in told} == {("Thing", "a")}
        assert all("attempt" in fields["error"] for fields in told)
        writes = [call for call in platform.server.calls if call == "patch status"]
        assert len(writes) <= 10, "also when every attempt fails in words of its own"

    async def test_that_passes_quickly_is_told_in_the_log_alone(self, platform: Platform, thing: Object) -> None:
        def answer(key: Key, count: int) -> Result:
            if count < 4:
                raise ValueError("not yet")
            return Result()

        await self.start(platform, Recording(answer))
        await platform.clock.advance(60)
        assert "patch status" not in platform.server.calls
        assert (await platform.server.list(EVENTS)).items == []


async def test_a_kind_that_is_not_served_keeps_nothing_else_from_working(platform: Platform) -> None:
    reconciler = Recording()
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    platform.server.unserved.add(SECRETS)
    await platform.start(reconciler, Watch(SECRETS, lambda obj: [Key("default", "for-secret")]))
    assert platform.manager.ready.is_set()
    assert reconciler.keys == ["default/a"]
    assert platform.manager.problem() == "no CustomResourceDefinition serves secrets"
    platform.server.unserved.clear()
    await platform.server.create(SECRETS, config_map("s"))
    await platform.clock.advance(10)
    assert set(reconciler.keys[1:]) == {"default/for-secret", "default/a"}, "and what waited is looked at again"
    assert platform.manager.problem() is None


class TestStopping:
    async def test_lets_a_reconcile_finish(self, platform: Platform) -> None:
        finished = False
        begun = asyncio.Event()

        class Slow:
            async def reconcile(self, key: Key) -> Result:
                nonlocal finished
                begun.set()
                await asyncio.sleep(0.05)
                finished = True
                return Result()

        await platform.server.create(CONFIG_MAPS, config_map("a"))
        await platform.start(Slow())
        await begun.wait()
        platform.manager.stop()
        assert platform.running is not None
        await asyncio.wait_for(platform.running, 60)
        assert finished

    async def test_cancels_a_reconcile_that_outlasts_the_deadline(self, caplog: pytest.LogCaptureFixture) -> None:
        server = MemoryClient()
        manager = Manager(server, metrics=Metrics(CollectorRegistry()), stop_deadline=0.05)
        begun = asyncio.Event()

        class Hanging:
            async def reconcile(self, key: Key) -> Result:
                begun.set()
                await asyncio.Event().wait()
                return Result()

        await server.create(CONFIG_MAPS, config_map("a"))
        manager.add(Controller("test", CONFIG_MAPS, Hanging()))
        running = asyncio.create_task(manager.run())
        await begun.wait()
        manager.stop()
        await asyncio.wait_for(running, 60)
        assert "reconciles cancelled at shutdown" in caplog.messages

    async def test_works_before_the_caches_are_full(self) -> None:
        server = MemoryClient()
        server.fail("list", *[errors.ServiceUnavailable("down")] * 100)
        manager = Manager(server, metrics=Metrics(CollectorRegistry()))
        manager.add(Controller("test", CONFIG_MAPS, Recording()))
        running = asyncio.create_task(manager.run())
        await turns()
        manager.stop()
        await asyncio.wait_for(running, 60)


async def test_idle_waits_for_delayed_work_that_is_due_soon(platform: Platform) -> None:
    reconciler = Recording(lambda key, count: Result(requeue_after=5) if count == 1 else Result(requeue_after=500))
    await platform.server.create(CONFIG_MAPS, config_map("a"))
    await platform.start(reconciler)
    idle = asyncio.create_task(platform.manager.idle(within=10))
    await asyncio.sleep(0.05)
    assert not idle.done()
    await platform.clock.advance(6)
    await asyncio.wait_for(idle, 60)
    assert len(reconciler.keys) == 2
