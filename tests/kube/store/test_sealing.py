"""Encryption at rest: nothing of a Secret in clear on disk, and everything in clear to who has the keys."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from steelyard.kube.store.errors import CannotDecrypt, Corrupt
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store
from tests.kube.store.conftest import OpenStore

OLD, NEW = b"o" * 32, b"n" * 32
SECRET = "main/core/secrets/default/a"
OTHER = "other-cluster/core/secrets/kube-system/b"
PLAIN = "main/core/configmaps/default/a"
NEEDLE = b"correct-horse-battery"


def value(number: int = 0) -> bytes:
    return b'{"data":"%s","n":%d}' % (NEEDLE, number)


def on_disk(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


async def put(store: Store, key: str, content: bytes) -> int:
    return (await store.put(key, lambda _: content)).revision


async def test_secrets_of_every_space_are_never_on_disk_in_clear(open_store: OpenStore, path: Path) -> None:
    store = await open_store(sealer=Sealer([OLD]))
    await put(store, SECRET, value(1))
    await put(store, SECRET, value(2))
    await put(store, OTHER, value(3))
    await store.delete(SECRET, encode=lambda _: value(4))
    assert NEEDLE not in on_disk(path)
    await store.compact(store.revision)
    assert NEEDLE not in on_disk(path)
    await store.close()
    assert NEEDLE not in on_disk(path)


async def test_other_objects_stay_readable_on_disk(open_store: OpenStore, path: Path) -> None:
    store = await open_store(sealer=Sealer([OLD]))
    await put(store, PLAIN, value())
    assert NEEDLE in on_disk(path)


async def test_readers_watchers_and_the_past_see_clear_values(open_store: OpenStore) -> None:
    store = await open_store(sealer=Sealer([OLD]))
    first = await put(store, SECRET, value(1))
    await put(store, SECRET, value(2))
    await store.delete(SECRET, encode=lambda _: value(3))
    await put(store, OTHER, value(4))
    await store.close()
    store = await open_store(sealer=Sealer([OLD]))
    found = store.get(OTHER)
    assert found is not None
    assert found.value == value(4)
    assert [record.value for record in await store.scan_at("main/", first)] == [value(1)]
    watch = store.watch("main/", 0)
    changes = [await anext(watch) for _ in range(3)]
    watch.close()
    assert [change.record.value if change.record else None for change in changes] == [value(1), value(2), None]
    assert changes[2].final is not None
    assert changes[2].final.value == value(3)


@pytest.mark.parametrize("sealer", [None, Sealer([NEW])])
async def test_without_the_key_the_store_does_not_open(open_store: OpenStore, sealer: Sealer | None) -> None:
    store = await open_store(sealer=Sealer([OLD]))
    await put(store, SECRET, value())
    await store.close()
    with pytest.raises(CannotDecrypt, match=SECRET):
        await open_store(sealer=sealer)
    again = await open_store(sealer=Sealer([NEW, OLD]))
    assert again.get(SECRET) is not None


async def test_clear_data_keeps_working_and_is_sealed_by_the_next_write(open_store: OpenStore, path: Path) -> None:
    store = await open_store()
    await put(store, SECRET, value(1))
    await store.close()
    store = await open_store(sealer=Sealer([OLD]))
    found = store.get(SECRET)
    assert found is not None
    assert found.value == value(1)
    await put(store, SECRET, value(2))
    rows = sqlite3.connect(path).execute("SELECT value FROM log ORDER BY revision").fetchall()
    assert [NEEDLE in row[0] for row in rows] == [True, False]


async def test_resealing_leaves_no_clear_value_and_needs_the_old_key_no_more(open_store: OpenStore, path: Path) -> None:
    store = await open_store()
    for number in range(300):
        await store.put(f"{SECRET}{number % 50}", lambda _, number=number: value(number))
    await store.delete(f"{SECRET}1")
    await store.compact(200)
    await store.close()
    sealer = Sealer([OLD])
    store = await open_store(sealer=sealer)
    before = [(record.key, record.revision, record.value) for record in store.scan("main/")]
    revision = store.revision
    assert await store.reseal() > 100
    assert NEEDLE not in on_disk(path)
    sealer.use(NEW)
    assert await store.reseal() > 100
    assert await store.reseal() == 0
    assert store.revision == revision
    await put(store, PLAIN, b"{}")
    await store.close()
    store = await open_store(sealer=Sealer([NEW]))
    assert [(record.key, record.revision, record.value) for record in store.scan("main/core/secrets/")] == before
    watch = store.watch("main/", 200)
    assert (await anext(watch)).revision == 201
    watch.close()


async def test_a_value_cannot_be_moved_to_another_key_or_revision(open_store: OpenStore, path: Path) -> None:
    store = await open_store(sealer=Sealer([OLD]))
    await put(store, SECRET, value())
    sealer = Sealer([OLD])
    sealed = sealer.seal(1, SECRET, value())
    assert sealer.open(1, SECRET, sealed) == value()
    for revision, key in ((2, SECRET), (1, OTHER)):
        with pytest.raises(CannotDecrypt):
            sealer.open(revision, key, sealed)


async def test_damage_is_found_by_the_checksum_of_what_is_on_disk(open_store: OpenStore, path: Path) -> None:
    store = await open_store(sealer=Sealer([OLD]))
    await put(store, SECRET, value())
    await store.close()
    database = sqlite3.connect(path)
    (stored,) = database.execute("SELECT value FROM log").fetchone()
    database.execute("UPDATE log SET value = ?", (stored[:-1] + bytes([stored[-1] ^ 1]),))
    database.commit()
    database.close()
    with pytest.raises(Corrupt, match="checksum"):
        await open_store(sealer=Sealer([OLD]))


def test_sealing_is_cheap() -> None:
    sealer, content = Sealer([OLD]), value() * 50
    best = min(_seconds(sealer, content) for _ in range(20))
    assert best < 30e-6


def _seconds(sealer: Sealer, content: bytes) -> float:
    started = time.thread_time()
    for _ in range(100):
        sealer.seal(1, SECRET, content)
    return (time.thread_time() - started) / 100
