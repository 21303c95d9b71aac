"""Large values are on the disk alone, and nobody who asks for one can tell."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import orjson
import pytest

from steelyard.kube.store import errors, shelf
from steelyard.kube.store.record import Record
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store
from steelyard.kube.store.writer import Encode
from tests.kube.store.conftest import OpenStore

KEPT = 64 * 1024
SIZE = KEPT // 8


@pytest.fixture(autouse=True)
def _little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "KEPT_BYTES", KEPT)


def large(text: str) -> Encode:
    return lambda revision: orjson.dumps({"revision": revision, "text": text * SIZE})


def is_away(record: Record | None) -> bool:
    assert record is not None
    return record.value_at_hand is None


async def filled(store: Store, count: int = 20) -> list[Record]:
    return [await store.put(f"k{number:02}", large("x")) for number in range(count)]


async def filled_with(store: Store, text: str) -> None:
    for number in range(20):
        await store.put(f"{text}{number:02}", large(text))


async def test_only_so_much_of_large_values_is_in_memory(store: Store) -> None:
    records = await filled(store)
    at_hand = [record for record in records if record.value_at_hand is not None]
    assert sum(record.size for record in at_hand) <= KEPT
    assert at_hand == records[-len(at_hand) :], "the newest"
    for record in records:
        assert record.value == large("x")(record.revision)
        assert record.object["revision"] == record.revision
        assert record.size == len(record.value)
    assert sum(record.size for record in records if not is_away(record)) <= KEPT


async def test_all_who_use_a_value_have_the_same(store: Store) -> None:
    [first, *_] = await filled(store)
    used = memoryview(first.value)[10:]
    assert is_away(store.get("k01"))
    await filled_with(store, "y")
    assert memoryview(first.value).obj is used.obj
    del used
    await store.put("z", large("z"))
    assert is_away(first)


async def test_small_values_stay(store: Store) -> None:
    small = [await store.put(f"s{number}", lambda revision: b"%d" % revision) for number in range(100)]
    await filled(store)
    assert not any(is_away(record) for record in small)


async def test_after_a_start_large_values_are_on_the_disk_alone(open_store: OpenStore) -> None:
    store = await open_store()
    await filled(store)
    await store.put("small", lambda _: b"1")
    await store.close()
    store = await open_store()
    assert {record.key for record in store.scan("") if not is_away(record)} == {"small"}
    assert [record.value for record in store.scan("k")] == [large("x")(number) for number in range(1, 21)]


async def test_what_is_replaced_keeps_its_value_when_history_goes(store: Store) -> None:
    [first, *_] = await filled(store)
    second = store.get("k01")
    assert is_away(first)
    assert is_away(second)
    await store.put("k00", large("y"))
    await store.delete("k01")
    await filled(store)
    await store.compact(store.revision)
    assert first.value == large("x")(1)
    assert second is not None
    assert second.value == large("x")(2)


async def test_what_is_replaced_before_it_is_durable_keeps_its_value(store: Store) -> None:
    first, second = await asyncio.gather(store.put("a", large("x")), store.put("a", large("y")))
    await filled(store)
    await store.compact(store.revision)
    assert is_away(second)
    assert first.value == large("x")(1)


async def test_a_write_that_fails_leaves_the_state_on_the_shelf(open_store: OpenStore) -> None:
    broken = False

    def fail(_: int) -> None:
        if broken:
            raise OSError(28, "No space left on device")

    store = await open_store(before_commit=fail)
    records = await filled(store)
    broken = True
    with pytest.raises(errors.StoreFailed):
        await asyncio.gather(*(store.put(record.key, large("y")) for record in records))
    broken = False
    assert sum(record.size for record in records if not is_away(record)) <= KEPT
    assert [record.value for record in store.scan("")] == [large("x")(number) for number in range(1, 21)]


async def test_a_secret_on_the_shelf_is_sealed(open_store: OpenStore, path: Path) -> None:
    store = await open_store(sealer=Sealer([bytes(32)]))
    secret = await store.put("s/core/secrets/default/a", large("secret"))
    await filled(store)
    assert is_away(secret)
    with sqlite3.connect(path) as connection:
        [(stored,)] = connection.execute("SELECT value FROM log WHERE revision = 1").fetchall()
    assert b"secretsecret" not in stored
    assert secret.value == large("secret")(1)


async def test_threads_read_while_the_state_changes_under_them(store: Store) -> None:
    await filled(store)
    stop, wrong = threading.Event(), list[str]()

    def read() -> None:
        while not stop.is_set():
            for record in store.scan(""):
                if record.value != large("x")(record.revision):
                    wrong.append(repr(record))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        await asyncio.gather(*(store.put(f"k{number:02}", large("x")) for number in range(20)))
        await store.compact(store.revision)
    stop.set()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert wrong == []


async def test_damage_is_told_and_not_served(store: Store, path: Path) -> None:
    [record, *_] = await filled(store)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE log SET value = replace(value, 'x', 'y') WHERE revision = 1")
    with pytest.raises(errors.Corrupt, match="k00 at revision 1 fails its checksum"):
        _ = record.value
    await asyncio.sleep(0)
    assert "restore a backup" in (store.check() or "")
    with pytest.raises(errors.Corrupt):
        await store.put("new", large("z"))
    assert store.get("k01") is not None


async def test_nothing_is_read_from_a_store_that_is_closed(store: Store) -> None:
    [record, *_] = await filled(store)
    await store.close()
    with pytest.raises(errors.Closed):
        _ = record.value
