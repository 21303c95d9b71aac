from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path

import orjson
import pytest

from steelyard.kube.store import errors, record
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store

from .conftest import OpenStore


def stamped(revision: int) -> bytes:
    return b'{"revision":%d}' % revision


async def put_many(store: Store, keys: list[str]) -> None:
    await asyncio.gather(*(store.put(key, stamped) for key in keys))


async def test_a_write_is_visible_only_once_durable(store: Store) -> None:
    pending = store.put("a/1", stamped, expect=0)
    assert store.get("a/1") is None
    assert store.scan("a/") == []
    head = store.head("a/1")
    assert head is not None
    assert head.revision == 1
    record = await pending
    assert store.get("a/1") is record
    assert record.object == {"revision": 1}
    assert store.revision == 1


async def test_writes_build_on_writes_that_are_not_yet_durable(store: Store) -> None:
    first = store.put("a", stamped, expect=0)
    second = store.put("a", stamped, expect=1)
    gone = store.delete("a", expect=2)
    again = store.put("a", stamped, expect=0)
    assert [record.revision for record in await asyncio.gather(first, second, gone, again)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "expect", [pytest.param(0, id="must not exist, but does"), pytest.param(7, id="another revision")]
)
async def test_an_unmet_expectation_writes_nothing(store: Store, expect: int) -> None:
    await store.put("a", stamped)
    with pytest.raises(errors.Mismatch) as caught:
        store.put("a", stamped, expect=expect)
    assert (caught.value.expected, caught.value.actual) == (expect, 1)
    with pytest.raises(errors.Mismatch):
        store.delete("a", expect=expect)
    with pytest.raises(errors.Mismatch):
        store.put("b", stamped, expect=1)
    await store.put("b", stamped)
    assert store.revision == 2


async def test_deleting_what_does_not_exist_is_a_mismatch(store: Store) -> None:
    with pytest.raises(errors.Mismatch, match="found nothing"):
        store.delete("a")


async def test_an_encoder_that_raises_uses_up_no_revision(store: Store) -> None:
    def broken(_: int) -> bytes:
        raise ValueError("cannot encode")

    with pytest.raises(ValueError, match="cannot encode"):
        store.put("a", broken)
    assert (await store.put("a", stamped)).revision == 1


async def test_the_given_object_is_not_parsed_again(store: Store) -> None:
    obj = {"kind": "Pod"}
    assert (await store.put("a", stamped, obj=obj)).object is obj


async def test_a_scan_is_in_key_order_and_pages(store: Store) -> None:
    await put_many(store, ["s/b", "s/a", "s/c", "r/z", "t/a", "s"])
    assert [record.key for record in store.scan("s/")] == ["s/a", "s/b", "s/c"]
    assert [record.key for record in store.scan("s/", limit=2)] == ["s/a", "s/b"]
    assert [record.key for record in store.scan("s/", after="s/b", limit=2)] == ["s/c"]
    assert [record.key for record in store.scan("s/", after="s/bb")] == ["s/c"]
    assert store.count("s/") == 3
    assert store.count("") == 6


async def test_state_and_revision_survive_reopening(open_store: OpenStore) -> None:
    store = await open_store()
    await put_many(store, ["a/1", "a/2"])
    await store.delete("a/1", encode=lambda revision: b'{"gone":%d}' % revision)
    await store.close()
    store = await open_store()
    assert [(record.key, record.revision) for record in store.scan("")] == [("a/2", 2)]
    assert (await store.put("a/3", stamped)).revision == 4


async def test_closing_makes_queued_writes_durable(open_store: OpenStore) -> None:
    store = await open_store()
    pending = [store.put(f"a/{number}", stamped) for number in range(50)]
    await store.close()
    assert all(future.done() for future in pending)
    with pytest.raises(errors.Closed):
        store.put("b", stamped)
    assert (await open_store()).count("a/") == 50


async def test_the_file_is_readable_by_its_owner_only(store: Store, path: Path) -> None:
    await store.put("a", stamped)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_concurrent_writes_share_commits(store: Store) -> None:
    await put_many(store, [f"a/{number}" for number in range(1000)])
    assert store.revision == 1000
    assert store.commits < 50


async def test_a_batch_limit_of_one_gives_every_write_its_own_commit(open_store: OpenStore) -> None:
    before: list[int] = []
    after: list[int] = []
    store = await open_store(max_batch=1, before_commit=before.append, after_commit=after.append)
    await put_many(store, ["a", "b", "c"])
    assert before == after == [1, 2, 3]


async def test_a_state_of_the_past_can_be_listed(open_store: OpenStore) -> None:
    store = await open_store()
    await put_many(store, ["a/1", "a/2", "b/1"])
    await store.put("a/2", stamped)
    await store.delete("a/1")
    await store.put("a/3", stamped)

    async def listed(revision: int, *, after: str = "", limit: int = 0) -> list[tuple[str, int]]:
        found = await store.scan_at("a/", revision, after=after, limit=limit)
        return [(record.key, record.revision) for record in found]

    for _ in ("from memory", "from the file"):
        assert await listed(2) == [("a/1", 1), ("a/2", 2)]
        assert await listed(3, after="a/1") == [("a/2", 2)]
        assert await listed(4, limit=1) == [("a/1", 1)]
        assert await listed(5) == [("a/2", 4)]
        assert await listed(6) == [("a/2", 4), ("a/3", 6)]
        assert await listed(0) == []
        await store.close()
        store = await open_store()


async def test_compaction_drops_history_and_keeps_state(open_store: OpenStore) -> None:
    store = await open_store()
    await put_many(store, ["a", "b", "a", "c"])
    await store.delete("c")
    await store.compact(4)
    for _ in ("before", "after reopening"):
        assert store.compacted == 4
        with pytest.raises(errors.Compacted):
            await store.scan_at("", 3)
        with pytest.raises(errors.Compacted):
            store.watch("", 3)
        assert [record.key for record in await store.scan_at("", 4)] == ["a", "b", "c"]
        assert [record.key for record in store.scan("")] == ["a", "b"]
        await store.close()
        store = await open_store()


async def test_the_revision_survives_compaction_of_everything(open_store: OpenStore) -> None:
    store = await open_store()
    await store.put("a", stamped)
    await store.delete("a")
    await store.compact(2)
    await store.close()
    store = await open_store()
    assert store.revision == 2
    assert (await store.put("a", stamped, expect=0)).revision == 3


async def test_history_is_compacted_when_it_has_grown(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.kube.store.store.RETAINED_REVISIONS", 50)
    monkeypatch.setattr("steelyard.kube.store.store.COMPACTION_THRESHOLD", 100)
    store = await open_store()
    await put_many(store, [f"a/{number}" for number in range(200)])
    assert store.compacted == 0, "nothing is obsolete yet"
    for _ in range(20):
        await put_many(store, [f"a/{number}" for number in range(20)])
    assert 300 <= store.compacted <= store.revision - 50
    await store.compact(store.compacted)
    await store.close()
    store = await open_store()
    assert store.count("a/") == 200
    assert store.revision == 600


async def test_a_full_disk_fails_writes_until_there_is_space(open_store: OpenStore) -> None:
    full = False

    def fail_when_full(_: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")

    store = await open_store(before_commit=fail_when_full)
    await store.put("a", stamped)
    watch = store.watch("", 1)
    full = True
    writes = [store.put("a", stamped, expect=1), store.put("a", stamped, expect=2), store.delete("a", expect=3)]
    for outcome in await asyncio.gather(*writes, return_exceptions=True):
        assert isinstance(outcome, errors.StoreFailed)
        assert outcome.retryable
        assert "No space left" in str(outcome)
    head = store.head("a")
    assert head is not None
    assert head.revision == store.revision == 1
    assert "the disk is full: nothing was written" in (store.check() or "")
    full = False
    await store.put("a", stamped, expect=1)
    assert store.check() is None
    assert [change.revision for change in await watch.batch()] == [2]


async def test_asking_what_is_wrong_finds_out_that_there_is_space_again(open_store: OpenStore) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = await open_store(before_commit=fail)
    with pytest.raises(errors.StoreFailed):
        await store.put("a", stamped)
    assert store.check() is not None
    for _ in range(500):
        if store.check() is None:
            break
        await asyncio.sleep(0.01)
    assert store.check() is None
    assert store.revision == 0


async def test_a_failed_disk_refuses_writes_until_reopened(open_store: OpenStore) -> None:
    broken = True

    def fail(_: int) -> None:
        if broken:
            raise OSError(errno.EIO, "Input/output error")

    store = await open_store(before_commit=fail)
    with pytest.raises(errors.StoreFailed, match="Input/output error"):
        await store.put("a", stamped)
    broken = False
    with pytest.raises(errors.StoreFailed):
        store.put("a", stamped)
    await store.close()
    store = await open_store()
    await store.put("a", stamped, expect=0)


async def test_a_second_opening_names_the_process_that_has_the_store(store: Store, path: Path) -> None:
    with pytest.raises(errors.Locked, match=rf"store\.db is already open in process {os.getpid()}"):
        await Store.open(path)
    await store.close()
    await (await Store.open(path)).close()


async def test_a_caller_that_gives_up_does_not_undo_its_write(store: Store) -> None:
    async def write() -> None:
        await store.put("a", stamped)

    task = asyncio.create_task(write())
    await asyncio.sleep(0)
    task.cancel()
    await store.put("b", stamped)
    assert store.get("a") is not None


async def test_a_reader_of_the_head_can_wait_until_it_is_durable(store: Store) -> None:
    assert await store.settled("a") is None
    pending = store.put("a", stamped)
    assert await store.settled("a") is store.get("a") is await pending
    store.delete("a").cancel()
    assert await store.settled("a") is None, "also if whoever deleted it gave up"
    assert store.get("a") is None


def test_of_large_objects_only_the_one_asked_for_last_stays_and_only_for_a_moment() -> None:
    large = [Record(f"/{name}", 1, orjson.dumps({"name": name, "text": "x" * 200_000})) for name in "ab"]
    first = large[0].object
    assert large[0].object is first
    second = large[1].object
    assert large[0].object is not first
    assert large[1].object is not second
    again = large[1].object
    record.forget_large()
    assert large[1].object is not again
