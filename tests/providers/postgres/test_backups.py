"""Dumps of databases: when they are made, that they are whole and can be restored, and what is left of failures."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from steelyard.api.databases import BACKUPS, DatabaseBackupSpec, DatabaseBackupStatus
from steelyard.kube.objects import Object
from steelyard.providers.postgres import programs
from steelyard.providers.postgres.backups import plan
from steelyard.providers.postgres.backups.reconcile import DatabaseBackupReconciler
from steelyard.providers.postgres.dumps import making
from steelyard.providers.postgres.dumps.folder import DumpFolder, Reason, Side
from steelyard.providers.postgres.problems import Broken
from tests.postgresserver import PostgresServer, postgres_server
from tests.providers.postgres import ourkinds
from tests.providers.postgres.ourkinds import CONFIG, Rig, said

__all__ = ["postgres_server"]

_numbers = itertools.count(1)
NOW = datetime.datetime(2026, 1, 10, 12, tzinfo=datetime.UTC)


def spec(database: str = "shop", **more: object) -> Object:
    return {"providerConfigRef": {"name": CONFIG}, "database": database, "keep": 2, **more}


def side(at: str, reason: Reason = "scheduled", trigger: str | None = None) -> Side:
    return Side(at.replace("-", "").replace(":", "").lower(), at, 1, "", reason, "shop", trigger)


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[str]:
    with ourkinds.tenant(postgres_server, f"backup{next(_numbers)}") as name:
        with postgres_server.connect(name) as connection:
            connection.execute(
                "CREATE TABLE orders AS SELECT n AS id, repeat('x', 50) AS text FROM generate_series(1, 500) n"
            )
        yield name


@pytest.fixture
async def rig(postgres_server: PostgresServer, tmp_path: Path) -> AsyncIterator[Rig]:
    async with ourkinds.opened(postgres_server, tmp_path) as opened:
        yield opened


@pytest.fixture
async def reconciler(rig: Rig) -> AsyncIterator[DatabaseBackupReconciler]:
    made = DatabaseBackupReconciler(rig.tools)
    yield made
    await made.close()


async def settled(rig: Rig, reconciler: DatabaseBackupReconciler, name: str = "nightly") -> Object:
    """Until nothing is under way."""
    for _ in range(500):
        await rig.reconcile(reconciler, name)
        obj = await rig.get(BACKUPS, name)
        job = reconciler.jobs.find(obj["metadata"]["uid"])
        if job is None:
            return obj
        await asyncio.wait([job.task], timeout=30)
    raise AssertionError("the dump does not end")


def run(*command: str, check: bool = True) -> bool:
    return subprocess.run(command, check=check, capture_output=True).returncode == 0


def files(rig: Rig) -> list[str]:
    return sorted(str(path.relative_to(rig.folder)) for path in rig.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("given", "status", "dumps", "make", "due_at"),
    [
        pytest.param(
            {"every": "24h"}, {"dueAt": "2026-01-10T13:00:00Z"}, [], None, "2026-01-10T13:00:00", id="not yet"
        ),
        pytest.param(
            {"every": "24h"}, {"dueAt": "2026-01-10T11:00:00Z"}, [], "scheduled", "2026-01-10T11:00:00", id="due"
        ),
        pytest.param(
            {"every": "1h"},
            {"dueAt": "2026-01-03T11:30:00Z"},
            [],
            "scheduled",
            "2026-01-03T11:30:00",
            id="after a week",
        ),
        pytest.param(
            {"every": "1h"},
            {"dueAt": "2026-01-03T11:30:00Z"},
            [side("2026-01-10T11:59:00Z")],
            None,
            "2026-01-10T12:30:00",
            id="one for a whole week, then in step again",
        ),
        pytest.param(
            {"every": "1h"}, {"dueAt": "2026-01-30T00:00:00Z"}, [], None, "2026-01-10T13:00:00", id="now more often"
        ),
        pytest.param({}, {"dueAt": "2026-01-03T11:30:00Z"}, [], None, None, id="no longer scheduled"),
        pytest.param({"trigger": "a"}, {}, [], "asked for", None, id="asked for"),
        pytest.param({"trigger": "a"}, {"trigger": "a"}, [], None, None, id="acted on"),
        pytest.param(
            {"trigger": "a"},
            {},
            [side("2026-01-10T11:00:00Z", "asked for", "a")],
            None,
            None,
            id="killed after the dump was made and before that was written down",
        ),
    ],
)
def test_what_is_decided(
    given: dict[str, Any], status: dict[str, Any], dumps: list[Side], make: str | None, due_at: str | None
) -> None:
    decision = plan.decide(
        DatabaseBackupSpec.model_validate(spec(**given)), DatabaseBackupStatus.model_validate(status), dumps, "u", NOW
    )
    assert decision.make == make
    assert decision.due_at == (datetime.datetime.fromisoformat(f"{due_at}+00:00") if due_at else None)


def test_backups_that_are_made_together_are_not_due_together() -> None:
    wanted = DatabaseBackupSpec.model_validate(spec(every="24h"))
    moments = {plan.decide(wanted, DatabaseBackupStatus(), [], f"uid-{number}", NOW).due_at for number in range(100)}
    assert len(moments) > 90
    assert all(each and NOW <= each <= NOW + datetime.timedelta(hours=1) for each in moments)


def test_the_newest_of_each_reason_are_kept() -> None:
    dumps = [side(f"2026-01-{day:02}T00:00:00Z") for day in range(9, 4, -1)]
    dumps += [side("2026-01-01T00:00:00Z", "asked for"), side("2025-01-01T00:00:00Z", "asked for")]
    assert plan.surplus(dumps, 2) == tuple(each.name for each in dumps[2:5])


async def test_a_dump_that_was_asked_for_is_whole_private_and_told(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, trigger="now"))
    obj = await settled(rig, reconciler)
    (dump,) = obj["status"]["dumps"]
    assert dump["reason"] == "asked for"
    assert obj["status"]["trigger"] == "now"
    assert said(obj)[:2] == ("True", "Available")
    path = rig.folder / "dumps" / "nightly" / f"{dump['name']}.dump"
    assert path.stat().st_size == dump["sizeBytes"]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == dump["sha256"]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    before = await rig.get(BACKUPS, "nightly")
    await settled(rig, reconciler)
    assert await rig.get(BACKUPS, "nightly") == before


async def test_a_dump_can_be_restored_and_holds_what_was_there(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, trigger="now"))
    obj = await settled(rig, reconciler)
    path = rig.folder / "dumps" / "nightly" / f"{obj['status']['dumps'][0]['name']}.dump"
    with rig.server.database(f"{database}_restored") as dsn:
        run(str(rig.server.programs / "pg_restore"), "-d", dsn, str(path))
        query = "SELECT count(*), sum(id), md5(string_agg(text, '' ORDER BY id)) FROM orders"
        assert rig.sql(query, f"{database}_restored") == rig.sql(query, database)


async def test_the_schedule_is_kept_and_old_dumps_go(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, every="1h"))
    obj = await settled(rig, reconciler)
    assert "dumps" not in obj["status"]
    names: list[str] = []
    for _ in range(3):
        await rig.clock.advance(3601)
        obj = await settled(rig, reconciler)
        names.append(obj["status"]["dumps"][0]["name"])
    assert len(set(names)) == 3
    assert [each["name"] for each in obj["status"]["dumps"]] == [names[2], names[1]]
    assert len(files(rig)) == 4


async def test_after_a_long_absence_one_is_made_at_once(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, every="1h"))
    await settled(rig, reconciler)
    await rig.clock.advance(7 * 24 * 3600)
    again = DatabaseBackupReconciler(rig.tools)
    obj = await settled(rig, again)
    assert len(obj["status"]["dumps"]) == 1
    assert obj["status"]["dueAt"] > rig.clock.now().isoformat()


async def test_a_failure_is_told_with_pg_dumps_last_words_and_tried_again(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec("nowhere", trigger="now"))
    obj = await settled(rig, reconciler)
    status, reason, message = said(obj)
    assert (status, reason) == ("False", "DumpFailed")
    assert 'database "nowhere" does not exist' in message
    assert files(rig) == []
    await rig.change(BACKUPS, "nightly", database=database)
    obj = await settled(rig, reconciler)
    assert said(obj)[0] == "False"
    await rig.clock.advance(61)
    obj = await settled(rig, reconciler)
    assert said(obj)[0] == "True"
    assert len(obj["status"]["dumps"]) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk")
async def test_a_full_disk_is_told_and_nothing_half_made_is_left(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = rig.folder / "dumps"
    folder.mkdir(parents=True)
    monkeypatch.setattr(making, "_LEAST_FREE", 0)
    if not run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder), check=False):
        pytest.skip("no disk can be mounted here")
    try:
        rig.sql(
            "CREATE TABLE noise AS SELECT md5(random()::text) AS text FROM generate_series(1, 80000)",
            database,
        )
        await rig.create(BACKUPS, "nightly", spec(database, trigger="now"))
        obj = await settled(rig, reconciler)
        assert said(obj)[:2] == ("False", "DumpFailed")
        assert "the disk is full" in said(obj)[2]
        assert "Make room" in said(obj)[2]
        assert files(rig) == []
        rig.sql("DROP TABLE noise", database)
        await rig.clock.advance(61)
        assert said(await settled(rig, reconciler))[0] == "True"
    finally:
        run("umount", str(folder), check=False)


async def test_what_a_kill_left_half_made_goes_and_what_was_whole_counts(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, trigger="now"))
    before = await settled(rig, reconciler)
    await rig.live.patch(BACKUPS, "nightly", {"status": {"dumps": None, "trigger": None}}, subresource="status")
    folder = DumpFolder(rig.folder, "nightly")
    folder.unfinished("20200101t000000z").write_bytes(b"half")
    (folder.path / "20200102t000000z.json").write_bytes(side("20200102t000000z").to_json())
    after = await settled(rig, DatabaseBackupReconciler(rig.tools))
    assert after["status"]["dumps"] == before["status"]["dumps"]
    assert after["status"]["trigger"] == "now"
    await rig.change(BACKUPS, "nightly", trigger="another")
    await rig.clock.advance(5)
    await settled(rig, reconciler)
    assert [name for name in files(rig) if "2020" in name] == []


async def test_deleting_it_ends_pg_dump_at_once_and_takes_its_dumps(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, trigger="one"))
    await settled(rig, reconciler)
    blocker = rig.server.connect(database)
    with blocker.transaction():
        blocker.execute("LOCK TABLE orders")
        await rig.change(BACKUPS, "nightly", trigger="two")
        await rig.clock.advance(5)
        await rig.reconcile(reconciler, "nightly")
        for _ in range(500):
            if rig.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                break
            await asyncio.sleep(0.02)
        await rig.live.delete(BACKUPS, "nightly")
        async with asyncio.timeout(60):
            await rig.reconcile(reconciler, "nightly")
        assert await rig.is_gone(BACKUPS, "nightly")
        assert files(rig) == []
    blocker.close()


async def test_dumps_that_are_to_be_kept_stay_under_a_name_of_their_own(
    rig: Rig, reconciler: DatabaseBackupReconciler, database: str
) -> None:
    annotations = {"steelyard.dev/keep-dumps": "true"}
    obj = await rig.create(BACKUPS, "nightly", spec(database, trigger="one"), annotations=annotations)
    before = await settled(rig, reconciler)
    await rig.live.delete(BACKUPS, "nightly")
    await rig.reconcile(reconciler, "nightly")
    assert await rig.is_gone(BACKUPS, "nightly")
    folder = DumpFolder(rig.folder, f"nightly.kept-{obj['metadata']['uid'][:8]}")
    (kept,) = folder.listed()
    assert kept.sha256 == before["status"]["dumps"][0]["sha256"]
    folder.check(kept)
    await rig.create(BACKUPS, "nightly", spec(database))
    assert "dumps" not in (await settled(rig, reconciler))["status"]


async def test_a_damaged_dump_is_noticed(rig: Rig, reconciler: DatabaseBackupReconciler, database: str) -> None:
    await rig.create(BACKUPS, "nightly", spec(database, trigger="one"))
    await settled(rig, reconciler)
    folder = DumpFolder(rig.folder, "nightly")
    (dump,) = folder.listed()
    content = bytearray(folder.dump(dump.name).read_bytes())
    content[len(content) // 2] ^= 1
    folder.dump(dump.name).write_bytes(content)
    with pytest.raises(Broken, match="is damaged"):
        folder.check(dump)


async def test_no_more_than_two_are_made_at_once(rig: Rig, reconciler: DatabaseBackupReconciler, database: str) -> None:
    names = [f"b{number}" for number in range(5)]
    blocker = rig.server.connect(database)
    with blocker.transaction():
        blocker.execute("LOCK TABLE orders")
        for name in names:
            await rig.create(BACKUPS, name, spec(database, trigger="one"))
            await rig.reconcile(reconciler, name)
        running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LOCK TABLE%' AND wait_event_type = 'Lock'"
        async with asyncio.timeout(60):
            while rig.sql(running) != [(2,)]:  # noqa: ASYNC110 (the server tells nobody)
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert rig.sql(running) == [(2,)]
    blocker.close()
    for name in names:
        assert len((await settled(rig, reconciler, name))["status"]["dumps"]) == 1


def test_programs_can_be_run_on_the_event_loop_of_the_platform(tmp_path: Path) -> None:
    async def write() -> None:
        await programs.run(Path("/bin/sh"), ["-c", f"umask > {tmp_path}/mask"], {}, deadline=30)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(write())
    assert (tmp_path / "mask").read_text().strip().endswith("077")


async def test_a_program_that_is_no_longer_waited_for_is_ended() -> None:
    waiting = asyncio.create_task(programs.run(Path("/bin/sleep"), ["3600"], {}, deadline=3600))
    await asyncio.sleep(0.3)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(Broken, match=r"not finished after 0\.2 seconds"):
        await programs.run(Path("/bin/sleep"), ["3600"], {}, deadline=0.2)


def test_a_program_dies_with_a_platform_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = f"""
import asyncio
from pathlib import Path
from steelyard.providers.postgres import programs
asyncio.run(programs.run(Path("/bin/sh"), ["-c", "echo $$ > {told}; exec sleep 3600"], {{}}, deadline=3600))
"""
    with subprocess.Popen([sys.executable, "-c", code]) as platform:
        until(lambda: told.exists() and told.read_text().endswith("\n"))
        platform.kill()
    process = Path("/proc") / told.read_text().strip()
    until(lambda: not process.exists() or "State:\tZ" in (process / "status").read_text())


def until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)
