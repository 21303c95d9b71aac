"""Crashes and damaged files: nothing acknowledged is lost, and nothing wrong is answered."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.kube.store import acknowledged, errors
from steelyard.kube.store.store import Store

from .conftest import OpenStore
from .test_store import put_many, stamped

WRITE_UNTIL_KILLED = """
import asyncio, os, sys
from pathlib import Path
from steelyard.kube.store.store import Store

async def write(store, worker):
    number = 0
    while True:
        record = await store.put(f"w/{worker}/{number % 20}", lambda revision: b'{"n":%d}' % number)
        os.write(1, f"{record.key} {record.revision} {number}\\n".encode())
        number += 1

async def main():
    store = await Store.open(Path(sys.argv[1]))
    await asyncio.gather(*(write(store, worker) for worker in range(8)))

asyncio.run(main())
"""

FILL_UP = """
import asyncio, resource, sys
from pathlib import Path
from steelyard.kube.store import acknowledged, errors
from steelyard.kube.store.store import Store

async def main():
    store = await Store.open(Path(sys.argv[1]))
    await store.put("a", lambda revision: b"{}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    written = 1
    try:
        while True:
            await store.put("a", lambda revision: b"x" * 20_000)
            written += 1
    except errors.StoreFailed as failure:
        assert store.revision == written and store.head("a").revision == written
        print(written, failure.retryable, failure)
    await store.close()

asyncio.run(main())
"""


def write_until_killed(path: Path, kill_after: int) -> list[bytes]:
    """One line per acknowledged write: key, revision, number. The last line may be cut off."""
    with subprocess.Popen([sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(kill_after)]
        process.send_signal(signal.SIGKILL)
        return acknowledged + process.stdout.readlines()


def copy_as_if_killed(path: Path, copy: Path) -> None:
    """The files as a crash would leave them: the database, and the write-ahead log with its reserved space."""
    wal = path.with_name(path.name + "-wal")
    assert wal.stat().st_size > 8_000_000
    shutil.copy(path, copy)
    shutil.copy(wal, copy.with_name(copy.name + "-wal"))


def fill_up(path: Path) -> list[str]:
    command = [sys.executable, "-c", FILL_UP, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def contents(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def replace(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


def flip_a_bit(path: Path, original: bytes) -> int:
    damaged = bytearray(original)
    position = random.randrange(len(damaged))
    damaged[position] ^= 1 << random.randrange(8)
    path.write_bytes(damaged)
    return position


def change_byte(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x55
    path.write_bytes(content)


def copy_files(path: Path, copy: Path) -> None:
    for end in ("", "-wal", acknowledged.SUFFIX):
        shutil.copy(path.with_name(path.name + end), copy.with_name(copy.name + end))


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("kill_after", [50, 400])
async def test_everything_acknowledged_survives_kill_9_under_load(path: Path, kill_after: int) -> None:
    acknowledged = write_until_killed(path, kill_after)
    store = await Store.open(path)
    try:
        newest: dict[str, tuple[int, int]] = {}
        for line in acknowledged:
            if line.endswith(b"\n"):
                key, revision, number = line.decode().split()
                newest[key] = max(newest.get(key, (0, 0)), (int(revision), int(number)))
        assert newest
        for key, (revision, number) in newest.items():
            record = store.get(key)
            assert record is not None
            assert record.revision >= revision
            assert record.object["n"] >= number
        watch = store.watch("", 0)
        async with asyncio.timeout(60):
            revisions = [(await anext(watch)).revision for _ in range(store.revision)]
        assert revisions == list(range(1, store.revision + 1))
    finally:
        await store.close()


async def test_the_space_reserved_for_the_write_ahead_log_does_not_disturb_recovery(path: Path, tmp_path: Path) -> None:
    store = await Store.open(path)
    for number in range(30):
        await store.put(f"a/{number}", stamped)
    copy = tmp_path / "copy.db"
    await asyncio.to_thread(copy_as_if_killed, path, copy)
    await store.close()
    recovered = await Store.open(copy)
    try:
        assert recovered.revision == recovered.count("a/") == 30
        await recovered.put("a/30", stamped)
    finally:
        await recovered.close()


async def test_a_write_that_the_disk_refuses_is_reported_and_leaves_the_store_readable(path: Path) -> None:
    written, retryable, *_ = fill_up(path)
    assert retryable == "False", "a limit of the process is not a full disk: nothing will get better by waiting"
    store = await Store.open(path)
    try:
        assert store.revision >= int(written)
    finally:
        await store.close()


async def test_a_flipped_byte_in_a_row_is_corrupt_and_named(open_store: OpenStore, path: Path) -> None:
    store = await open_store()
    await store.put("a/first", lambda _: b'{"text":"0123456789abcdef"}')
    await store.put("a/second", stamped)
    await store.close()
    replace(path, b"0123456789abcdef", b"0123456789abcdeg")
    with pytest.raises(errors.Corrupt, match="a/first at revision 1 fails its checksum; restore a backup"):
        await open_store()


async def test_damage_found_while_reading_history_ends_the_watch_and_all_writing(
    open_store: OpenStore, path: Path
) -> None:
    store = await open_store()
    await put_many(store, ["a", "a", "a"])
    await store.close()
    store = await open_store()
    execute(path, "UPDATE log SET value = CAST('{}' AS BLOB) WHERE revision = 2")
    with pytest.raises(errors.Corrupt, match="a at revision 2"):
        await anext(store.watch("a", 0))
    assert "a at revision 2 fails its checksum" in (store.check() or "")
    with pytest.raises(errors.Corrupt, match="a at revision 2"):
        store.put("b", stamped)
    current = store.get("a")
    assert current is not None
    assert current.revision == 3


@pytest.mark.parametrize("position", [20, 40, 3000], ids=["its header", "the header of a frame", "a page in it"])
async def test_a_write_ahead_log_that_lost_its_end_is_not_taken_for_a_shorter_one(
    open_store: OpenStore, path: Path, tmp_path: Path, position: int
) -> None:
    store = await open_store()
    await put_many(store, ["a", "b", "c"])
    copy = tmp_path / "copy.db"
    copy_files(path, copy)
    change_byte(copy.with_name("copy.db-wal"), position)
    with pytest.raises(
        errors.Corrupt, match=r"ends at revision 0, but everything up to 3 was acknowledged.*the last 3 writes"
    ):
        await Store.open(copy)


async def test_a_damaged_mark_proves_nothing_and_does_no_harm(open_store: OpenStore, path: Path) -> None:
    store = await open_store()
    await put_many(store, ["a", "b", "c"])
    await store.close()
    for position in range(32):
        change_byte(path.with_name(path.name + acknowledged.SUFFIX), position)
    store = await open_store()
    assert store.revision == 3
    await store.put("d", stamped)
    assert acknowledged.read(path) == 4


async def test_acknowledged_writes_that_are_taken_away_are_missed(open_store: OpenStore, path: Path) -> None:
    store = await open_store()
    await put_many(store, ["a", "b", "c"])
    await store.close()
    execute(path, "DELETE FROM log WHERE revision = 3")
    with pytest.raises(errors.Corrupt, match="ends at revision 2, but everything up to 3 was acknowledged"):
        await open_store()


async def test_a_row_of_nothing_is_damage(path: Path) -> None:
    loose = "CREATE TABLE log(revision INTEGER PRIMARY KEY, key, previous, deleted, value, checksum)"
    for statement in (
        loose,
        "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID",
        "INSERT INTO log(revision) VALUES (1)",
        "PRAGMA application_id=0x57E31A4D",
        "PRAGMA user_version=1",
    ):
        execute(path, statement)
    with pytest.raises(errors.Corrupt, match="None at revision 1 fails its checksum"):
        await Store.open(path)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("DELETE FROM log WHERE revision = 2", id="a row in the middle is gone"),
        pytest.param("UPDATE log SET key = 'z' WHERE revision = 2", id="another key"),
        pytest.param("UPDATE log SET deleted = 1 WHERE revision = 3", id="turned into a deletion"),
        pytest.param("UPDATE log SET value = 'text' WHERE revision = 1", id="another type"),
        pytest.param("INSERT INTO meta VALUES ('compacted', 3, 1)", id="the compaction mark"),
    ],
)
async def test_a_changed_file_is_not_opened(open_store: OpenStore, path: Path, damage: str) -> None:
    store = await open_store()
    await put_many(store, ["a", "b", "c"])
    await store.close()
    execute(path, damage)
    with pytest.raises(errors.Corrupt, match="restore a backup"):
        await open_store()


async def test_random_damage_never_gives_a_wrong_answer(open_store: OpenStore, path: Path) -> None:
    store = await open_store()
    await asyncio.gather(*(store.put(f"a/{number}", lambda _: b"v" * 300) for number in range(100)))
    await store.close()
    original = contents(path)
    for _ in range(60):
        position = flip_a_bit(path, original)
        try:
            store = await open_store()
        except errors.Corrupt:
            continue
        assert [record.value for record in store.scan("a/")] == [b"v" * 300] * 100, f"byte {position}"
        assert store.revision == 100
        await store.close()


async def test_a_file_that_is_something_else_is_refused(path: Path, tmp_path: Path) -> None:
    write(path, b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(errors.Corrupt, match="cannot be read"):
        await Store.open(path)
    other = tmp_path / "other.db"
    execute(other, "PRAGMA application_id=7")
    with pytest.raises(errors.Corrupt, match="is not a store of format 1"):
        await Store.open(other)


@pytest.mark.parametrize("what", ["removed", "emptied"])
async def test_a_lost_file_is_told_and_its_write_ahead_log_survives(tmp_path: Path, what: str) -> None:
    path = tmp_path / "live.db"
    store = await Store.open(path)
    for number in range(5):
        await store.put(f"k{number}", stamped)
    copy = tmp_path / "copy.db"
    copy_files(path, copy)
    await store.close()
    whole = copy.read_bytes()
    if what == "removed":
        copy.unlink()
    else:
        copy.write_bytes(b"")
    before = _contents(tmp_path, "copy.db")
    with pytest.raises(
        errors.Missing, match=r"copy\.db-wal \(\d+ bytes\), copy\.db\.acknowledged \(up to revision 5\)"
    ):
        await Store.open(copy)
    assert _contents(tmp_path, "copy.db") == before
    copy.write_bytes(whole)
    store = await Store.open(copy)
    assert store.revision == 5
    await store.close()


async def test_a_damaged_write_ahead_log_stays_as_it_was_found(tmp_path: Path) -> None:
    """What comes after the damage is there for whoever can read it."""
    path = tmp_path / "live.db"
    store = await Store.open(path)
    for number in range(5):
        await store.put(f"k{number}", stamped)
    copy = tmp_path / "copy.db"
    copy_files(path, copy)
    await store.close()
    change_byte(copy.with_name("copy.db-wal"), 32 + 24 + 4096 + 8)
    before = _contents(tmp_path, "copy.db")
    with pytest.raises(errors.Corrupt, match="was acknowledged"):
        await Store.open(copy)
    assert _contents(tmp_path, "copy.db") == before


def _contents(folder: Path, name: str) -> dict[str, bytes]:
    """Without the lock and SQLite's index of the log, which is made anew each time."""
    files = (path for path in folder.iterdir() if path.name.startswith(name))
    return {path.name: path.read_bytes() for path in files if not path.name.endswith(("-shm", ".lock"))}
