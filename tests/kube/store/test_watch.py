from __future__ import annotations

import asyncio

import pytest

from steelyard.kube.store import errors
from steelyard.kube.store import watch as watches
from steelyard.kube.store.record import Change
from steelyard.kube.store.store import Store
from steelyard.kube.store.watch import Subscription

from .conftest import OpenStore
from .test_store import put_many, stamped


async def take(subscription: Subscription, number: int) -> list[Change]:
    async with asyncio.timeout(60):
        return [await anext(subscription) for _ in range(number)]


@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b", "a/b/", "a/b/c", "a/bx", "a/b/cx", "b/"])
async def test_whatever_a_prefix_ends_with_each_change_is_told_once(store: Store, prefix: str) -> None:
    others = [store.watch(each, 0) for each in ("x", "xy", "a/x", "a/b/x", "a/b/xy", "a/b/c/long")]
    subscription = store.watch(prefix, 0)
    await store.put("a/b/c", stamped)
    await store.put("last", stamped)
    await asyncio.sleep(0)
    assert [change.key for change in subscription.arrived()] == [
        key for key in ("a/b/c", "last") if key.startswith(prefix)
    ]
    for each in (subscription, *others):
        each.close()


async def test_what_does_not_concern_a_subscriber_does_not_wake_it(store: Store) -> None:
    watch = store.watch("a/", 0, lambda change: change.key == "a/2")
    waiting = asyncio.create_task(watch.batch())
    await put_many(store, ["a/1"])
    await asyncio.sleep(0)
    assert not waiting.done()
    await put_many(store, ["a/2", "a/3"])
    assert [change.key for change in await waiting] == ["a/2"]
    watch.close()


async def test_a_watch_sees_only_its_prefix_in_order(store: Store) -> None:
    watch = store.watch("a/", 0)
    everything = store.watch("", 0)
    await put_many(store, ["a/1", "b/1", "a/2", "ab/1", "a/1"])
    assert [(change.revision, change.key) for change in await take(watch, 3)] == [(1, "a/1"), (3, "a/2"), (5, "a/1")]
    assert [change.revision for change in await take(everything, 5)] == [1, 2, 3, 4, 5]


async def test_a_change_carries_the_state_it_replaced_and_a_deletion_its_last_state(open_store: OpenStore) -> None:
    store = await open_store()
    await store.put("a", stamped)
    await store.put("a", stamped)
    await store.delete("a", encode=lambda revision: b'{"deleted":%d}' % revision)
    for _ in ("from memory", "from the file"):
        created, updated, deleted = await take(store.watch("", 0), 3)
        assert created.previous is None
        assert created.record is not None
        assert updated.previous is not None
        assert (updated.previous.revision, updated.previous.object) == (1, {"revision": 1})
        assert deleted.record is None
        assert deleted.previous is not None
        assert deleted.previous.revision == 2
        assert deleted.final is not None
        assert (deleted.final.revision, deleted.final.object) == (3, {"deleted": 3})
        await store.close()
        store = await open_store()


async def test_a_watch_resumes_after_reopening_and_goes_on_live(open_store: OpenStore) -> None:
    store = await open_store()
    await put_many(store, [f"a/{number}" for number in range(1300)])
    await store.close()
    store = await open_store()
    watch = store.watch("a/", 100)
    await put_many(store, ["a/live", "b/live"])
    changes = await take(watch, 1201)
    assert [change.revision for change in changes] == list(range(101, 1302))
    await store.put("a/last", stamped)
    assert (await take(watch, 1))[0].key == "a/last"


async def test_history_dropped_during_a_replay_is_reported(open_store: OpenStore) -> None:
    store = await open_store()
    await put_many(store, ["a"] * 1200)
    await store.close()
    store = await open_store()
    watch = store.watch("a", 0)
    await take(watch, 1)
    await store.compact(1000)
    with pytest.raises(errors.Compacted):
        await take(watch, 1199)


async def test_a_slow_watch_is_cut_off_without_hurting_others(open_store: OpenStore) -> None:
    store = await open_store(lag_limit=10)
    slow = store.watch("a/", 0)
    narrow = store.watch("a/5", 0)
    await put_many(store, [f"a/{number}" for number in range(10, 60)])
    with pytest.raises(errors.Lagging, match="more than 10 changes behind"):
        await take(slow, 1)
    assert len(await narrow.batch()) == 10
    again = store.watch("a/", 0)
    assert len(await take(again, 50)) == 50, "resuming from memory does not count as lagging"


async def test_a_watch_that_leaves_much_lying_is_cut_off(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletions show the last state, which is in memory as well."""
    monkeypatch.setattr(watches, "_MOST_BYTES", 6000)
    slow = store.watch("a", 0)
    for _ in range(4):
        await store.put("a", lambda _: b"{}" + b" " * 1000)
        await store.delete("a")
    with pytest.raises(errors.Lagging):
        await slow.batch()


async def test_closing_ends_the_iteration(store: Store) -> None:
    watch = store.watch("", 0)
    waiting = asyncio.create_task(watch.batch())
    await asyncio.sleep(0)
    watch.close()
    watch.close()
    assert await waiting == []
    with pytest.raises(StopAsyncIteration):
        await anext(watch)
    await store.put("a", stamped)


async def test_closing_the_store_ends_every_watch(store: Store) -> None:
    watch = store.watch("", 0)
    await store.put("a", stamped)
    await store.close()
    assert [change.key async for change in watch] == ["a"]
    with pytest.raises(errors.Closed):
        store.watch("", 1)
