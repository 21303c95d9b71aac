from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.informers import Informers
from tests.kube.runtime.memory import MemoryClient, config_map, turns

Change = tuple[str, str]


@pytest.fixture
def server() -> MemoryClient:
    return MemoryClient()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@contextlib.asynccontextmanager
async def running(informer: Informer) -> AsyncGenerator[Informer]:
    task = asyncio.create_task(informer.run())
    try:
        await turns()
        yield informer
    finally:
        task.cancel()
        await asyncio.wait([task])


def recorded(informer: Informer) -> list[Change]:
    changes: list[Change] = []

    def handler(old: Object | None, new: Object | None) -> None:
        kind = "added" if old is None else "deleted" if new is None else "changed"
        changes.append((kind, objects.name(new or old or {})))

    informer.on_change(handler)
    return changes


async def test_lists_then_follows_the_watch(server: MemoryClient, clock: VirtualClock) -> None:
    await server.create(CONFIG_MAPS, config_map("a"))
    informer = Informer(server, CONFIG_MAPS, clock=clock)
    changes = recorded(informer)
    async with running(informer):
        assert informer.synced.is_set()
        await server.create(CONFIG_MAPS, config_map("b"))
        await server.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "default")
        await server.delete(CONFIG_MAPS, "b", "default")
        await turns()
        assert changes == [("added", "a"), ("added", "b"), ("changed", "a"), ("deleted", "b")]
        a = informer.get("default", "a")
        assert a is not None
        assert a["data"] == {"x": "1"}
        assert informer.get("default", "b") is None


async def test_handler_added_late_is_told_what_is_there(server: MemoryClient) -> None:
    await server.create(CONFIG_MAPS, config_map("a"))
    async with running(Informer(server, CONFIG_MAPS)) as informer:
        assert recorded(informer) == [("added", "a")]


async def test_failing_handler_does_not_stop_the_others(server: MemoryClient, caplog: pytest.LogCaptureFixture) -> None:
    informer = Informer(server, CONFIG_MAPS)

    def broken(old: Object | None, new: Object | None) -> None:
        raise ValueError("no")

    informer.on_change(broken)
    changes = recorded(informer)
    async with running(informer):
        await server.create(CONFIG_MAPS, config_map("a"))
        await turns()
    assert changes == [("added", "a")]
    assert [record.message for record in caplog.records] == ["change handler failed"]


async def test_resumes_where_the_watch_ended_without_listing_again(server: MemoryClient, clock: VirtualClock) -> None:
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        changes = recorded(informer)
        await server.create(CONFIG_MAPS, config_map("a"))
        await turns()
        server.end_watches()
        await server.create(CONFIG_MAPS, config_map("b"))
        await clock.advance(1)
        assert changes == [("added", "a"), ("added", "b")]
        assert (server.count("list"), server.count("watch")) == (1, 2)


async def test_expired_revision_leads_to_a_new_list_and_only_differences_are_told(
    server: MemoryClient, clock: VirtualClock
) -> None:
    for name in ("kept", "changed", "removed"):
        await server.create(CONFIG_MAPS, config_map(name))
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        changes = recorded(informer)
        changes.clear()
        server.hold_events()
        await server.delete(CONFIG_MAPS, "removed", "default")
        await server.patch(CONFIG_MAPS, "changed", {"data": {"x": "1"}}, "default")
        await server.create(CONFIG_MAPS, config_map("new"))
        server.compact()
        server.end_watches()
        await clock.advance(2)
        assert sorted(changes) == [("added", "new"), ("changed", "changed"), ("deleted", "removed")]
        assert server.count("list") == 2


async def test_failures_back_off_and_recovery_needs_no_new_list(
    server: MemoryClient, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        server.fail("watch", *[errors.ServiceUnavailable("refused")] * 4)
        server.end_watches()
        await server.create(CONFIG_MAPS, config_map("a"))
        await clock.advance(0.5)
        assert server.count("watch") <= 4
        await clock.advance(5)
        assert informer.get("default", "a") is not None
        assert server.count("list") == 1
    assert {record.message for record in caplog.records} == {"list or watch failed"}


async def test_first_list_is_tried_until_it_succeeds(server: MemoryClient, clock: VirtualClock) -> None:
    server.fail("list", errors.ServiceUnavailable("starting"), RuntimeError("broken answer"))
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        assert not informer.synced.is_set()
        await clock.advance(1)
        assert informer.synced.is_set()


async def test_idle_informer_calls_nothing_and_sets_no_timer(server: MemoryClient, clock: VirtualClock) -> None:
    async with running(Informer(server, CONFIG_MAPS, clock=clock)):
        calls = list(server.calls)
        assert clock.pending == 0
        await clock.advance(86400)
        assert server.calls == calls


async def test_indexes_follow_changes(server: MemoryClient) -> None:
    await server.create(CONFIG_MAPS, config_map("a", owner="x"))
    async with running(Informer(server, CONFIG_MAPS)) as informer:
        informer.add_index("owner", lambda obj: [obj["data"]["owner"]] if "owner" in obj["data"] else [])

        def owned(by: str) -> list[str]:
            return sorted(map(objects.name, informer.by_index("owner", by)))

        assert owned("x") == ["a"]
        await server.create(CONFIG_MAPS, config_map("b", owner="x"))
        await turns()
        assert owned("x") == ["a", "b"]
        await server.patch(CONFIG_MAPS, "a", {"data": {"owner": "y"}}, "default")
        await turns()
        assert (owned("x"), owned("y")) == (["b"], ["a"])
        await server.delete(CONFIG_MAPS, "b", "default")
        await turns()
        assert owned("x") == []


async def test_list_by_namespace(server: MemoryClient) -> None:
    for namespace in ("one", "two"):
        await server.create(CONFIG_MAPS, config_map("a", namespace))
    async with running(Informer(server, CONFIG_MAPS)) as informer:
        assert [objects.namespace(obj) for obj in informer.list("two")] == ["two"]
        assert len(informer.list()) == 2


class TestOwnWrites:
    """Writes made through the cached client while the watch lags behind."""

    @pytest.fixture
    async def informers(self, server: MemoryClient, clock: VirtualClock) -> AsyncIterator[Informers]:
        await server.create(CONFIG_MAPS, config_map("a"))
        informers = Informers(server, clock=clock)
        informers.of(CONFIG_MAPS)
        task = asyncio.create_task(informers.run())
        await informers.wait_synced()
        await turns()
        yield informers
        task.cancel()
        await asyncio.wait([task])

    @pytest.fixture
    def client(self, server: MemoryClient, informers: Informers) -> CachedClient:
        return CachedClient(server, informers)

    async def test_are_read_at_once_and_told_to_handlers_once(
        self, server: MemoryClient, client: CachedClient, informers: Informers
    ) -> None:
        changes = recorded(informers.of(CONFIG_MAPS))
        changes.clear()
        server.hold_events()
        await client.create(CONFIG_MAPS, config_map("b"))
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "default")
        assert (await client.get(CONFIG_MAPS, "a", "default"))["data"] == {"x": "1"}
        assert len((await client.list(CONFIG_MAPS)).items) == 2
        server.release_events()
        await turns()
        assert changes == [("added", "b"), ("changed", "a")]
        assert server.count("get") == 0

    async def test_are_not_undone_by_older_events(self, server: MemoryClient, client: CachedClient) -> None:
        server.hold_events()
        await server.patch(CONFIG_MAPS, "a", {"data": {"x": "old"}}, "default")
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "new"}}, "default")
        server.release_events()
        await turns()
        assert (await client.get(CONFIG_MAPS, "a", "default"))["data"] == {"x": "new"}

    async def test_vanish_when_their_deletion_arrives(self, server: MemoryClient, client: CachedClient) -> None:
        server.hold_events()
        await client.create(CONFIG_MAPS, config_map("b"))
        await server.delete(CONFIG_MAPS, "b", "default")
        assert (await client.get(CONFIG_MAPS, "b", "default"))["metadata"]["name"] == "b"
        server.release_events()
        await turns()
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, "b", "default")

    async def test_answer_that_comes_after_its_deletion_is_ignored(
        self, server: MemoryClient, client: CachedClient, informers: Informers
    ) -> None:
        late = await server.create(CONFIG_MAPS, config_map("b"))
        await server.delete(CONFIG_MAPS, "b", "default")
        await turns()
        informers.of(CONFIG_MAPS).observe(late)
        with pytest.raises(errors.NotFound):
            await client.get(CONFIG_MAPS, "b", "default")

    async def test_deleted_object_is_not_brought_back_by_events_on_their_way(
        self, server: MemoryClient, client: CachedClient, informers: Informers
    ) -> None:
        server.hold_events()
        await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, "default")
        await client.delete(CONFIG_MAPS, "a", "default")
        changes = recorded(informers.of(CONFIG_MAPS))
        server.release_events()
        await turns()
        assert changes == []

    async def test_object_made_again_under_the_same_name_is_seen(
        self, server: MemoryClient, client: CachedClient
    ) -> None:
        server.hold_events()
        await client.delete(CONFIG_MAPS, "a", "default")
        again = await client.create(CONFIG_MAPS, config_map("a"))
        assert (await client.get(CONFIG_MAPS, "a", "default")) is again
        server.release_events()
        await turns()
        assert objects.uid(await client.get(CONFIG_MAPS, "a", "default")) == objects.uid(again)

    async def test_object_made_again_by_another_is_seen_after_own_delete(
        self, server: MemoryClient, client: CachedClient
    ) -> None:
        server.hold_events()
        await client.delete(CONFIG_MAPS, "a", "default")
        again = await server.create(CONFIG_MAPS, config_map("a"))
        server.release_events()
        await turns()
        assert objects.uid(await client.get(CONFIG_MAPS, "a", "default")) == objects.uid(again)

    async def test_removing_the_last_finalizer_removes_the_object(
        self, server: MemoryClient, client: CachedClient, informers: Informers
    ) -> None:
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": ["x/y"]}}, "default")
        await client.delete(CONFIG_MAPS, "a", "default")
        assert objects.is_being_deleted(await client.get(CONFIG_MAPS, "a", "default"))
        server.hold_events()
        await client.patch(CONFIG_MAPS, "a", {"metadata": {"finalizers": None}}, "default")
        assert informers.of(CONFIG_MAPS).get("default", "a") is None
        server.release_events()
        await turns()
        assert informers.of(CONFIG_MAPS).get("default", "a") is None

    async def test_labels_select_from_the_cache(self, server: MemoryClient, client: CachedClient) -> None:
        labelled = config_map("b")
        labelled["metadata"]["labels"] = {"tier": "web"}
        await client.create(CONFIG_MAPS, labelled)
        lists = server.count("list")
        found = await client.list(CONFIG_MAPS, "default", label_selector="tier in (web, db)")
        assert [objects.name(obj) for obj in found.items] == ["b"]
        assert server.count("list") == lists


async def test_a_server_that_is_still_coming_up_is_no_warning(
    server: MemoryClient, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    server.fail("list", errors.ServiceUnavailable("cannot connect"), errors.ServiceUnavailable("cannot connect"))
    informer = Informer(server, CONFIG_MAPS, clock=clock)
    async with running(informer):
        await clock.advance(10)
        assert informer.synced.is_set()
    assert [record.message for record in caplog.records if record.levelname != "DEBUG"] == []


async def test_a_kind_that_is_not_served_is_empty_and_found_by_itself_once_it_is(
    server: MemoryClient, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await server.create(CONFIG_MAPS, config_map("a"))
    server.fail("list", *[errors.NotFound("the server could not find the requested resource")] * 5)
    informer = Informer(server, CONFIG_MAPS, clock=clock)
    async with running(informer):
        assert informer.synced.is_set()
        assert informer.list() == []
        assert informer.problem == "no CustomResourceDefinition serves configmaps"
        await clock.advance(60)
        assert (informer.problem, len(informer)) == ("", 1)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["kind is not served, and taken for empty until it is"]


async def test_a_kind_that_vanishes_takes_its_objects_along(server: MemoryClient, clock: VirtualClock) -> None:
    await server.create(CONFIG_MAPS, config_map("a"))
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        changes = recorded(informer)
        gone = errors.NotFound("the server could not find the requested resource")
        server.fail("watch", gone)
        server.fail("list", gone, gone)
        server.end_watches()
        await clock.advance(2)
        assert changes == [("added", "a"), ("deleted", "a")]
        assert informer.problem
        await clock.advance(30)
        assert changes[-1] == ("added", "a")
        assert not informer.problem


async def test_a_watch_that_keeps_failing_is_told_at_growing_intervals_and_as_a_problem(
    server: MemoryClient, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        troubles: list[str] = []
        informer.on_trouble(lambda: troubles.append(informer.problem))
        server.fail("watch", *[errors.ServiceUnavailable("connection refused")] * 400)
        server.end_watches()
        await clock.advance(20)
        assert informer.problem == "", "it may still pass"
        await clock.advance(3600)
        assert informer.problem == "configmaps cannot be read: connection refused"
        calls = server.count("watch")
        assert calls <= 170, "at most every half minute, once the delay has grown"
        told = [vars(record)["fields"] for record in caplog.records]
        assert len(told) <= 10, "not a line for every attempt"
        assert all(fields["error"] == "connection refused" for fields in told)
        assert all(fields["resource"] == "configmaps" for fields in told)
        server.failures.clear()
        await clock.advance(120)
        assert informer.problem == ""
        assert len(troubles) == 2, "once when it began, once when it ended"


async def test_a_server_that_lets_watches_wait_is_asked_ever_less_and_is_a_problem(
    server: MemoryClient, clock: VirtualClock
) -> None:
    async with running(Informer(server, CONFIG_MAPS, clock=clock)) as informer:
        server.silence = lambda: clock.sleep(5)
        server.end_watches()
        await clock.advance(3600)
        assert informer.problem == "configmaps cannot be read: did not answer in time"
        assert server.count("watch") <= 120, "at most every half minute, once the delay has grown"
        server.silence = None
        await clock.advance(120)
        assert informer.problem == ""
