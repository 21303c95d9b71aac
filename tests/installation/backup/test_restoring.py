"""Backup and restore of a data directory: what comes back, what is refused, and what stays untouched."""

from __future__ import annotations

import asyncio
import datetime
import shutil
import stat
import statistics
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard import app
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.installation import datadir
from steelyard.installation.backup import archive, making, restoring
from steelyard.installation.backup.archive import BadArchive
from steelyard.installation.datadir import AlreadyRunning, DataDir
from steelyard.kube import errors
from steelyard.kube.store.errors import Compacted
from steelyard.kube.store.store import Store

NOW = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
BASE = int(NOW.timestamp() * 1_000_000)
MACHINE = f"main/{MACHINES.group}/machines/default/"


def encoder(obj: dict[str, Any]) -> Any:
    return lambda revision: orjson.dumps({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}})  # type: ignore[no-any-return]


def thing(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}, **fields}


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "data")
    made.create()
    (made.pki / "ca.crt").write_text("certificate")
    (made.pki / "ca.key").write_text("key")
    made.kubeconfig.write_text("token")
    return made


async def fill(data_dir: DataDir) -> None:
    store = await Store.open(data_dir.database)
    await store.put("main/core/things/default/a", encoder(thing("a", data="1")))
    await store.put("main/core/things/default/gone", encoder(thing("gone")))
    await store.put("main/core/things/default/a", encoder(thing("a", data="2")))
    await store.delete("main/core/things/default/gone")
    await store.put(MACHINE + "m", encoder(thing("m", spec={"providerID": "simulated://known"})))
    await store.close()


async def backed_up(data_dir: DataDir, tmp_path: Path) -> Path:
    await fill(data_dir)
    target = tmp_path / "backup.tar"
    making.from_files(data_dir, target)
    return target


async def test_objects_authority_and_token_come_back_elsewhere(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    other = DataDir(tmp_path / "elsewhere" / "data")
    done = restoring.restore(backup, other, force=False, now=NOW)
    assert (done.objects, done.held, done.unknown, done.kept) == (2, 1, [], None)
    assert done.manifest.revision == 5
    assert (other.pki / "ca.key").read_text() == "key"
    assert other.kubeconfig.read_text() == "token"
    assert stat.S_IMODE(other.kubeconfig.stat().st_mode) == 0o600
    assert sorted(path.name for path in other.root.iterdir()) == ["kubeconfig", "pki", "steelyard.db", "steelyard.pid"]
    store = await Store.open(other.database)
    try:
        found = {record.key: record.object for record in store.scan("main/")}
        assert set(found) == {"main/core/things/default/a", MACHINE + "m"}
        assert found["main/core/things/default/a"]["data"] == "2"
    finally:
        await store.close()


async def test_revisions_never_come_twice_and_old_watches_list_again(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    store = await Store.open(data_dir.database)
    handed_out = await store.put("main/core/things/default/a", encoder(thing("a", data="3")))
    await store.close()
    done = restoring.restore(backup, data_dir, force=True, now=NOW)
    store = await Store.open(data_dir.database)
    try:
        assert store.revision == done.revision > BASE > handed_out.revision
        restored = store.get("main/core/things/default/a")
        assert restored is not None
        assert restored.object["metadata"]["resourceVersion"] == str(restored.revision)
        assert restored.revision > BASE
        with pytest.raises(Compacted):
            store.watch("main/", handed_out.revision)
        written = await store.put("main/core/things/default/b", encoder(thing("b")))
        assert written.revision == done.revision + 1
    finally:
        await store.close()


async def test_a_second_restore_goes_above_the_first_also_when_the_clock_went_back(
    data_dir: DataDir, tmp_path: Path
) -> None:
    backup = await backed_up(data_dir, tmp_path)
    first = restoring.restore(backup, data_dir, force=True, now=NOW)
    second = restoring.restore(backup, data_dir, force=True, now=NOW - datetime.timedelta(days=400))
    assert second.revision > first.revision


async def test_machines_are_held_by_deletion_hooks(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    restoring.restore(backup, data_dir, force=True, now=NOW)
    store = await Store.open(data_dir.database)
    try:
        machine, other = store.get(MACHINE + "m"), store.get("main/core/things/default/a")
        assert machine is not None
        assert other is not None
        assert set(machine.object["metadata"]["annotations"]) == set(restoring.HOOKS)
        assert "annotations" not in other.object["metadata"]
    finally:
        await store.close()


async def test_the_world_stays_and_unknown_machines_are_listed(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    world = await Store.open(data_dir.provider_database("simulated"))
    await world.put("c1/core/nodes/n1", encoder(thing("n1", spec={"providerID": "simulated://known"})))
    await world.put("c1/core/nodes/n2", encoder(thing("n2", spec={"providerID": "simulated://later"})))
    await world.close()
    done = restoring.restore(backup, data_dir, force=True, now=NOW, providers=app.PROVIDERS)
    assert done.unknown == ["c1/n2"]
    world = await Store.open(data_dir.provider_database("simulated"))
    assert [record.key for record in world.scan("c1/")] == ["c1/core/nodes/n1", "c1/core/nodes/n2"]
    await world.close()


async def test_existing_data_is_kept_aside_and_only_when_told(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    (data_dir.pki / "ca.key").write_text("newer")
    before = data_dir.database.read_bytes()
    with pytest.raises(restoring.WouldReplace, match="--force"):
        restoring.restore(backup, data_dir, force=False, now=NOW)
    assert data_dir.database.read_bytes() == before
    done = restoring.restore(backup, data_dir, force=True, now=NOW)
    assert done.kept is not None
    assert (done.kept / "steelyard.db").read_bytes() == before
    assert (done.kept / "pki" / "ca.key").read_text() == "newer"
    assert (data_dir.pki / "ca.key").read_text() == "key"


async def test_nothing_is_restored_under_a_running_platform(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    hold = datadir.Hold(data_dir)
    try:
        with pytest.raises(AlreadyRunning):
            restoring.restore(backup, data_dir, force=True, now=NOW)
    finally:
        hold.release()


async def test_a_damaged_archive_changes_nothing(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    whole = backup.read_bytes()
    middle = whole.index(b'"data":"2"')
    backup.write_bytes(whole[:middle] + b'"data":"9"' + whole[middle + 10 :])
    before = sorted(path.name for path in data_dir.root.iterdir())
    with pytest.raises(BadArchive, match=r"steelyard\.db fails its checksum"):
        restoring.restore(backup, data_dir, force=True, now=NOW)
    assert sorted(path.name for path in data_dir.root.iterdir()) == before


async def test_a_row_that_was_damaged_before_the_backup_is_refused(data_dir: DataDir, tmp_path: Path) -> None:
    await fill(data_dir)
    whole = data_dir.database.read_bytes()
    middle = whole.rindex(b'"data":"2"')
    data_dir.database.write_bytes(whole[:middle] + b'"data":"9"' + whole[middle + 10 :])
    with pytest.raises(making.NotReadable, match="things/default/a at revision 3 fails its checksum"):
        making.from_files(data_dir, tmp_path / "backup.tar")
    assert not (tmp_path / "backup.tar").exists()
    assert not list(data_dir.root.glob("*.tmp"))


async def test_an_archive_with_sound_checksums_over_damaged_rows_is_refused(data_dir: DataDir, tmp_path: Path) -> None:
    backup = await backed_up(data_dir, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    manifest = archive.unpack(backup, out)
    whole = (out / archive.DATABASE).read_bytes()
    (out / archive.DATABASE).write_bytes(whole.replace(b'"data":"2"', b'"data":"9"'))
    forged = tmp_path / "forged.tar"
    archive.write(forged, {archive.DATABASE: out / archive.DATABASE}, version="1", time="", revision=manifest.revision)
    with pytest.raises(BadArchive, match="fails its checksum"):
        restoring.restore(forged, DataDir(tmp_path / "elsewhere"), force=False, now=NOW)


async def test_a_backup_under_load_is_consistent_and_holds_up_no_writer(data_dir: DataDir, tmp_path: Path) -> None:
    """Each write sets a pair of keys in order; a copy of one revision never shows the second ahead of the first."""
    store = await Store.open(data_dir.database)
    filler = "x" * 2000
    for first in range(0, 4_000, 500):
        await asyncio.gather(
            *(
                store.put(f"main/core/things/default/f{i}", encoder(thing(f"f{i}", d=filler)))
                for i in range(first, first + 500)
            )
        )
    latencies: list[float] = []
    stopping = False

    async def write() -> None:
        count = 0
        while not stopping:
            count += 1
            started = time.perf_counter()
            one = store.put("main/core/things/default/first", encoder(thing("first", n=count)))
            other = store.put("main/core/things/default/second", encoder(thing("second", n=count)))
            await asyncio.gather(one, other)
            latencies.append(time.perf_counter() - started)

    writing = asyncio.create_task(write())
    await asyncio.sleep(0.5)
    baseline, latencies = latencies, []
    backups = making.Backups(data_dir, store)
    revisions: list[int] = []
    for number in range(2):
        async with backups.make({}) as path:
            with pytest.raises(errors.TooManyRequests):
                async with backups.make({}):
                    pass
            shutil.copyfile(path, tmp_path / f"{number}.tar")
    during = latencies
    stopping = True
    await writing
    await store.close()
    assert not list(data_dir.root.glob("*.tmp"))
    for number in range(2):
        other = DataDir(tmp_path / f"restored{number}")
        done = restoring.restore(tmp_path / f"{number}.tar", other, force=False, now=NOW)
        revisions.append(done.manifest.revision)
        copy = await Store.open(other.database)
        first, second = copy.get("main/core/things/default/first"), copy.get("main/core/things/default/second")
        await copy.close()
        assert first is not None
        assert second is not None
        assert first.object["n"] - second.object["n"] in (0, 1)
        assert done.objects == 4_002
    assert revisions[0] < revisions[1]
    assert len(during) > 10
    assert statistics.median(during) < 10 * statistics.median(baseline) + 0.05
    assert max(during) < 10 * max(baseline) + 0.5
