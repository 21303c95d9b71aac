"""Space set aside: on a disk that is full deletions go on, nothing else does, and it all comes back."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import orjson
import pytest

from steelyard.kube.store import errors, reserve
from steelyard.kube.store.reserve import Reserve
from steelyard.kube.store.store import Store
from steelyard.kube.store.writer import Encode

SIZE = 1 << 20


class Disk:
    """A disk that a test can fill: then writes fail unless the reserve has been given back, up to a number of them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "reserve"
        self.is_full = False
        self.writes_in_reserve = 10_000

    def before_commit(self, _: int) -> None:
        if not self.is_full:
            return
        if self._path.stat().st_size or not self.writes_in_reserve:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.writes_in_reserve -= 1

    def free(self, _: Path) -> int:
        return 0 if self.is_full else 1 << 40


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk(tmp_path)
    monkeypatch.setattr(reserve, "_free", made.free)
    return made


@pytest.fixture
def held(disk: Disk, tmp_path: Path) -> Reserve:
    assert not disk.is_full
    made = Reserve(tmp_path / "reserve", SIZE)
    assert made.renew()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= SIZE
    return made


async def opened(path: Path, disk: Disk, held: Reserve) -> Store:
    store = await Store.open(path, fsync=False, before_commit=disk.before_commit)
    store.rely_on(held)
    return store


def obj(name: str, **metadata: object) -> Encode:
    return lambda revision: orjson.dumps(
        {"metadata": {"name": name, "resourceVersion": str(revision), **metadata}, "text": "x" * 500}
    )


async def recovered(store: Store) -> None:
    for _ in range(500):
        if store.check() is None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(store.check())


async def test_deleting_goes_on_when_nothing_else_does(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    store = await opened(tmp_path / "a.db", disk, held)
    for number in range(20):
        await store.put(f"k{number}", obj("k"))
    disk.is_full = True
    with pytest.raises(errors.StoreFailed, match="the disk is full: nothing was written"):
        await store.put("new", obj("new"))
    assert not held.is_released, "nobody has needed it yet"
    await store.put("k0", obj("k", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"]))
    assert held.is_released
    await store.put("k0", obj("k", deletionTimestamp="2026-01-01T00:00:00Z"))
    for number in range(20):
        await store.delete(f"k{number}")
    assert store.count("") == 0
    for key in ("new", "another"):
        with pytest.raises(errors.StoreFailed):
            await store.put(key, obj("new"))
    assert "the disk is full" in (store.check() or "")
    disk.is_full = False
    await recovered(store)
    assert not held.is_released
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= SIZE
    await store.put("new", obj("new"))
    await store.close()


async def test_a_deletion_is_not_refused_for_what_is_written_with_it(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    store = await opened(tmp_path / "a.db", disk, held)
    await store.put("a", obj("a"))
    await store.put("b", obj("b"))
    disk.is_full = True
    watch = store.watch("", store.revision)
    going = obj("b", deletionTimestamp="2026-01-01T00:00:00Z")
    new, gone = store.put("new", obj("new")), store.delete("a", encode=obj("a"))
    marked = store.put("b", going)
    settled = asyncio.create_task(store.settled("b"))
    with pytest.raises(errors.StoreFailed, match="the disk is full: nothing was written"):
        await new
    final, last = await gone, await marked
    assert [(record.key, record.revision) for record in store.scan("")] == [("b", 4)]
    assert (await settled) is last
    assert [(record.revision, record.object["metadata"]["resourceVersion"]) for record in (final, last)] == [
        (3, "3"),
        (4, "4"),
    ]
    assert [change.revision for change in await watch.batch()] == [3, 4]
    await store.close()
    store = await Store.open(tmp_path / "a.db", fsync=False)
    assert [(record.key, record.value) for record in store.scan("")] == [("b", going(4))]
    await store.close()


async def test_what_builds_on_a_refused_write_is_refused_with_it(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    store = await opened(tmp_path / "a.db", disk, held)
    await store.put("a", obj("a"))
    disk.is_full = True
    changed, gone = store.put("a", obj("other")), store.delete("a")
    for refused in (changed, gone):
        with pytest.raises(errors.StoreFailed, match="the disk is full"):
            await refused
    assert [(record.key, record.revision) for record in store.scan("")] == [("a", 1)]
    await store.delete("a")
    await store.close()


async def test_what_is_being_deleted_cannot_grow_into_the_reserve(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    store = await opened(tmp_path / "a.db", disk, held)
    await store.put("k", obj("k"))
    disk.is_full = True
    with pytest.raises(errors.StoreFailed):
        await store.put("k", obj("k" * 5000, deletionTimestamp="2026-01-01T00:00:00Z"))
    await store.close()


async def test_history_goes_so_that_deleting_everything_needs_little(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    store = await opened(tmp_path / "a.db", disk, held)
    for number in range(600):
        store.put(f"k{number:03}", obj("k"))
    await store.put("last", obj("last"))
    before = store.compacted
    disk.is_full = True
    for number in range(600):
        await store.delete(f"k{number:03}")
    assert store.compacted > before
    await store.close()
    store = await Store.open(tmp_path / "a.db", fsync=False)
    assert [record.key for record in store.scan("")] == ["last"]
    await store.close()


async def test_all_stores_of_a_directory_know_that_it_is_full(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    one, other = await opened(tmp_path / "a.db", disk, held), await opened(tmp_path / "b.db", disk, held)
    await one.put("k", obj("k"))
    disk.is_full = True
    await one.delete("k")
    with pytest.raises(errors.StoreFailed, match=r"free some space for .*b\.db"):
        await other.put("k", obj("k"))
    assert "the disk is full" in (other.check() or "")
    disk.is_full = False
    await recovered(other)
    assert one.check() is None
    await one.put("k", obj("k"))
    await one.close()
    await other.close()


async def test_a_reserve_that_is_used_up_is_told(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    store = await opened(tmp_path / "a.db", disk, held)
    for number in range(5):
        await store.put(f"k{number}", obj("k"))
    disk.is_full, disk.writes_in_reserve = True, 2
    await store.delete("k0")
    await store.delete("k1")
    with pytest.raises(errors.StoreFailed, match="the disk is full"):
        await store.delete("k2")
    disk.is_full = False
    await recovered(store)
    await store.delete("k2")
    await store.close()


def test_a_start_on_a_full_disk_has_the_reserve_at_once(tmp_path: Path, disk: Disk, held: Reserve) -> None:
    assert not held.is_released
    disk.is_full = True
    again = Reserve(tmp_path / "reserve", SIZE)
    assert again.is_released
    assert (tmp_path / "reserve").stat().st_size == 0
    disk.is_full = False
    assert not Reserve(tmp_path / "reserve", SIZE).is_full


def test_without_room_for_it_there_is_none_and_nothing_is_left(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not disk.is_full
    made = Reserve(tmp_path / "reserve", SIZE)

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not made.renew()
    assert (tmp_path / "reserve").stat().st_size == 0


async def test_without_room_for_the_reserve_the_disk_is_full(tmp_path: Path, disk: Disk) -> None:
    """There is nothing set aside: whoever writes on takes the space that deletions would need."""
    made = Reserve(tmp_path / "reserve", SIZE)
    assert not made.is_full
    store = await opened(tmp_path / "a.db", disk, made)
    await store.put("k", obj("k"))
    disk.is_full = True
    assert not made.renew()
    assert made.is_full
    with pytest.raises(errors.StoreFailed, match="the disk is full"):
        await store.put("new", obj("new"))
    disk.is_full = False
    await recovered(store)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= SIZE
    await store.put("new", obj("new"))
    await store.close()
