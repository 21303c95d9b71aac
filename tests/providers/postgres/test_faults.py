"""Servers and platforms that die at any statement: the end is the same, and nothing is left behind.

With STEELYARD_SWEEP=all every statement of a life is struck, before and after it has reached the server; else some.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, cast

import psycopg
import pytest

from steelyard.api.crossplane import DATABASES
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions
from tests.postgresserver import PostgresServer
from tests.providers.postgres import ourkinds, provided
from tests.providers.postgres.ourkinds import Faults, Killed, Rig, said, sampled
from tests.providers.postgres.provided import Life, each_programs

PROGRAMS: Final = next(each_programs()).values[0]
SAMPLE: Final = 2
"""Statements that are struck in each phase, in the short run."""
PHASES: Final = ("create", "resize", "rotate", "delete")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    assert isinstance(PROGRAMS, Path)
    with provided.running(PROGRAMS) as started:
        yield started


@pytest.fixture
async def rig(server: PostgresServer, tmp_path: Path) -> AsyncGenerator[Rig]:
    provided.clean(server)
    async with ourkinds.opened(server, tmp_path) as opened:
        yield opened


class Story:
    """One life in phases; each is prepared, and then whatever is left of it is done."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.life = Life(rig)
        self._moment = rig.clock.now()

    async def begin(self, phase: str) -> None:
        if phase == "create":
            await self.life.make("shop")
        elif phase == "resize":
            await self.life.resize("shop", 11)
        elif phase == "rotate":
            await self.rig.clock.advance(60)
            await self.life.rotate("shop", clocks.rfc3339(self.rig.clock.now() - datetime.timedelta(seconds=1)))
        else:
            await self.life.delete()

    async def finish(self, phase: str) -> None:
        """Until it is as the phase wants it. What a fault leaves is Synced=False for a while: time goes on."""
        for _ in range(20):
            await self.life.round()
            found = [obj for _, obj in await self.life.objects()]
            is_well = all(conditions.is_true(obj, "Ready") and conditions.is_true(obj, "Synced") for obj in found)
            if (not found) if phase == "delete" else is_well:
                return
        raise AssertionError(f"{phase}: {[(obj['kind'], obj.get('status')) for _, obj in await self.life.objects()]}")

    async def outcome(self) -> dict[str, Any]:
        found = self.life.on_server()
        with contextlib.suppress(Exception):
            # The login works with what the Secret says.
            (await self.life.connect("shop")).close()
            found["login"] = "works"
        found["secrets"] = await self._secrets(is_gone=not found["roles"])
        return found

    async def _secrets(self, *, is_gone: bool) -> list[str]:
        """Those of roles that went are collected a moment later."""
        names: list[str] = []
        for _ in range(100):
            names = sorted(objects.name(each) for each in (await self.rig.live.list(SECRETS)).items)
            if not is_gone or names == ["admin"]:
                break
            await asyncio.sleep(0.05)
        return names

    async def until(self, phase: str) -> None:
        """Everything before the phase, undisturbed."""
        for each in PHASES[: PHASES.index(phase)]:
            await self.begin(each)
            await self.finish(each)

    async def end(self) -> None:
        self.rig.faults.disarm()
        await self.life.delete()
        await self.finish("delete")


async def _undisturbed(rig: Rig, phase: str, faults: Faults) -> tuple[dict[str, Any], int]:
    """How the phase ends, and how many statements, or writes, it takes."""
    story = Story(rig)
    await story.until(phase)
    await story.begin(phase)
    faults.arm(0, after=False, error=Killed())
    await story.finish(phase)
    count = faults.count
    outcome = await story.outcome()
    await story.end()
    return outcome, count


Strike = Callable[[Story], Awaitable[None]]


async def _sweep(
    rig: Rig, phase: str, error: BaseException, strike: Strike, wanted: int, faults: Faults | None = None
) -> int:
    faults = faults or rig.faults
    expected, count = await _undisturbed(rig, phase, faults)
    assert count > 1, count
    struck = 0
    for after in (False, True):
        for point in sampled(count, wanted):
            story = Story(rig)
            await story.until(phase)
            await story.begin(phase)
            faults.arm(point, after=after, error=error)
            try:
                await story.finish(phase)
            except Killed:
                struck += 1
            else:
                struck += faults.count >= point
            faults.disarm()
            await strike(story)
            await story.finish(phase)
            assert await story.outcome() == expected, f"{phase}, statement {point}, {'after' if after else 'before'}"
            await story.end()
            assert not any(value for value in story.life.on_server().values()), f"left by {phase}, statement {point}"
    return struck


@pytest.mark.parametrize("phase", PHASES)
async def test_a_connection_that_breaks_at_a_statement_changes_no_end(rig: Rig, phase: str) -> None:
    async def nothing(_: Story) -> None:
        pass

    assert await _sweep(rig, phase, psycopg.OperationalError("server closed the connection"), nothing, SAMPLE)


@pytest.mark.parametrize("phase", PHASES)
async def test_a_platform_that_is_killed_at_a_statement_goes_on_where_it_was(rig: Rig, phase: str) -> None:
    async def again(story: Story) -> None:
        await rig.restart()
        story.life.forget()

    assert await _sweep(rig, phase, Killed(), again, SAMPLE)


class _Struck:
    """A client whose writes are counted; one of them is the last that the platform makes, or does not come to."""

    def __init__(self, client: Client, faults: Faults) -> None:
        self._client = client
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return self._watched(method) if name in ("create", "patch", "update", "apply", "delete") else method

    def _watched(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*arguments: Any, **named: Any) -> Any:
            if self._faults.strikes(after=False):
                raise self._faults.error
            answer = await method(*arguments, **named)
            if self._faults.strikes(after=True):
                raise self._faults.error
            return answer

        return write


@pytest.mark.parametrize("phase", PHASES)
async def test_a_platform_that_is_killed_at_a_write_goes_on_where_it_was(rig: Rig, phase: str) -> None:
    faults, own = Faults(), rig.live

    async def again(story: Story | None = None) -> None:
        rig.live = cast("Client", _Struck(own, faults))
        await rig.restart()
        rig.live = own
        if story is not None:
            story.life.forget()

    await again()
    assert await _sweep(rig, phase, Killed(), again, SAMPLE, faults)


@pytest.mark.parametrize("phase", PHASES)
async def test_a_server_that_is_killed_at_a_statement_recovers_to_the_same_end(rig: Rig, phase: str) -> None:
    """kill -9 of its first process, and of the session that had the statement."""

    async def kill(_: Story) -> None:
        os.kill(rig.server.process_id, signal.SIGKILL)
        rig.server.stop()
        _start_again(rig.server)
        await rig.tools.servers.close()

    assert await _sweep(rig, phase, psycopg.OperationalError("server closed the connection"), kill, 1)


def _start_again(server: PostgresServer) -> None:
    """Sessions of the one before end by themselves; until then it cannot be started. Not in a thread: a test's server
    ends with the one that started it."""
    for _ in range(20):
        with contextlib.suppress(RuntimeError):
            server.start()
            return
    raise AssertionError("the server does not start again")


async def test_a_server_that_is_away_is_told_of_and_found_again(rig: Rig) -> None:
    story = Story(rig)
    await story.until("resize")
    rig.server.stop()
    await rig.tools.servers.close()
    await story.begin("resize")
    await story.life.round()
    found = await rig.get(DATABASES, "shop")
    assert said(found, "Synced")[:2] == ("False", "ReconcileError")
    assert "cannot be reached" in said(found, "Synced")[2]
    assert conditions.is_true(found, "Ready"), "a restart of the server is no news"
    await rig.clock.advance(180)
    await story.life.round()
    assert said(await rig.get(DATABASES, "shop"))[1] == "Unavailable"
    versions = await story.life.versions()
    await rig.clock.advance(180)
    await story.life.round()
    assert await story.life.versions() == versions, "while it is away, nothing is written again and again"
    _start_again(rig.server)
    await story.finish("resize")
    assert rig.sql("SELECT datconnlimit FROM pg_database WHERE datname = 'shop'") == [(11,)]
    await story.end()


@contextlib.contextmanager
def _small_disk(megabytes: int) -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="steelyard-small-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", folder],
        capture_output=True,
        check=False,
    )
    try:
        if mounted.returncode:
            pytest.skip(f"no small disk can be made here: {mounted.stderr.decode().strip()}")
        yield folder
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_full_disk_is_told_in_words_and_got_over(rig: Rig) -> None:
    with _small_disk(30) as folder:
        place = folder / "space"
        place.mkdir()
        shutil.chown(place, rig.server.folder.owner())
        rig.sql(f"CREATE TABLESPACE small LOCATION '{place}'")
        filling = folder / "filling"
        filling.write_bytes(b"\0" * 27_000_000)
        life = Life(rig)
        await life.create(DATABASES, "shop", {"tablespace": "small", "template": "template0", "strategy": "FILE_COPY"})
        await life.round()
        found = await rig.get(DATABASES, "shop")
        assert "disk is full" in said(found, "Synced")[2], said(found, "Synced")
        assert "Make room" in said(found, "Synced")[2]
        assert rig.sql("SELECT 1 FROM pg_database WHERE datname = 'shop'") == []
        filling.unlink()
        await life.settle()
        await life.delete()
        await life.round()
        rig.sql("DROP TABLESPACE small")
