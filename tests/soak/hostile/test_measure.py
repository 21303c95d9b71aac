"""The measure itself: what a server does to the innocent client is noticed, and what it does not do is not."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard.kube import pki
from tests.harness import ROOT
from tests.soak.hostile import catalogue, memory, observed, search
from tests.soak.hostile.attack import Aim
from tests.soak.hostile.field import Field, Identity
from tests.soak.hostile.innocent import INTERVAL
from tests.soak.hostile.observed import Observer
from tests.soak.hostile.wire import Line


@contextlib.asynccontextmanager
async def stub(folder: Path) -> AsyncGenerator[tuple[Identity, Observer]]:
    """A well-behaved server with the innocent client beside it."""
    now = datetime.datetime.now(datetime.UTC)
    serving = pki.issue_serving(pki.new_authority("stub", now=now), "stub", ["127.0.0.1"], now=now)
    (folder / "stub.pem").write_bytes(serving.certificate + serving.key)
    command = [sys.executable, "-m", "tests.soak.hostile.stub", str(folder / "stub.pem")]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        who = Identity("127.0.0.1", port)
        # Each pool of connections is somebody's.
        innocent, neighbour = Identity("127.0.0.1", port, "innocent"), Identity("127.0.0.1", port, "neighbour")
        field = Field("stub", who, who, who, who, innocent, neighbour, (process.pid,))
        async with observed.innocent(field, folder) as observer:
            yield who, observer
    finally:
        process.kill()
        await process.wait()


async def tell(who: Identity, path: str) -> None:
    line = await Line.open(who)
    await line.ask(who.request("GET", path))
    line.close()


async def test_a_server_that_stands_still_is_noticed_by_everything_that_was_due(tmp_path: Path) -> None:
    async with stub(tmp_path) as (who, observer):
        assert await observer.until_calm(1.0, 30)
        began = time.monotonic()
        await tell(who, "/block?2")
        assert await observer.until_calm(1.0, 30)
        span = observer.span(began, time.monotonic())
    assert span.stall > 1.8
    late = [sample for sample in span.samples if sample.seconds > 0.2]
    assert len(late) > 0.5 * 1.8 / INTERVAL, "one late answer would hide how long nobody was served"
    assert span.wrong == []


async def test_a_request_that_is_never_answered_counts_while_it_waits(tmp_path: Path) -> None:
    async with stub(tmp_path) as (who, observer):
        assert await observer.until_calm(1.0, 30)
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await tell(who, "/block?60")
        assert not await observer.until_calm(0.5, 1)
        assert observer.span(began, time.monotonic()).stall > 1.8
        assert observer.oldest > 1.8


@pytest.mark.parametrize("path, noticed", [("/forget", "never shown"), ("/refuse", "429")])
async def test_a_wrong_answer_is_noticed(
    tmp_path: Path, path: str, noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTILE_PARTING_SECONDS", "2")
    async with stub(tmp_path) as (who, observer):
        assert await observer.until_calm(1.0, 30)
        began = time.monotonic()
        await tell(who, path)
        await asyncio.sleep(1)
        await asyncio.to_thread(observer.ended)
        wrong = observer.span(began, time.monotonic()).wrong
    assert len(wrong) == 1
    assert noticed in wrong[0]


async def test_a_server_that_does_as_it_should_is_not_complained_of(tmp_path: Path) -> None:
    async with stub(tmp_path) as (_, observer):
        began = time.monotonic()
        await asyncio.sleep(2)
        await asyncio.to_thread(observer.ended)
        span = observer.span(began, time.monotonic())
    assert span.wrong == []
    assert {sample.kind for sample in span.samples} >= {"admin get", "create", "watch", "new connection"}
    assert span.peak > 1_000_000


_GROWS = """
import subprocess, sys
child = subprocess.Popen(["sleep", "60"])
for line in sys.stdin:
    b"x" * int(line)
    print(child.pid, flush=True)
"""


def test_memory_that_was_needed_for_a_moment_counts_and_so_does_what_a_server_has_started() -> None:
    with subprocess.Popen([sys.executable, "-c", _GROWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        given, taken = process.stdin, process.stdout
        assert given is not None
        assert taken is not None

        def grow(size: int) -> int:
            given.write(f"{size}\n".encode())
            given.flush()
            return int(taken.readline())

        child = grow(0)
        try:
            memory.peak([process.pid])
            before = memory.peak([process.pid])
            assert before > memory.resident([child]) > 0
            grow(80_000_000)
            assert memory.peak([process.pid]) > before + 70_000_000
            assert memory.peak([process.pid]) < before + 10_000_000
        finally:
            os.kill(child, signal.SIGKILL)
            process.kill()


def test_every_attack_can_be_told_and_brought_back() -> None:
    for attack in catalogue.ALL:
        aim = Aim.of(attack)
        assert Aim.read(aim.line(), catalogue.BY_NAME) == aim


def test_the_search_takes_small_steps_and_the_same_ones_with_the_same_seed() -> None:
    start = Aim.of(catalogue.BY_NAME["yaml list"])
    steps: list[list[str]] = []
    for _ in range(2):
        random_ = random.Random(7)
        aim, lines = start, list[str]()
        for _ in range(50):
            aim = search.changed(aim, catalogue.ALL, random_)
            lines.append(aim.line())
        steps.append(lines)
    assert steps[0] == steps[1]
    assert len(set(steps[0])) > 25
    assert any(line.count('"attack"') == 2 for line in steps[0])
