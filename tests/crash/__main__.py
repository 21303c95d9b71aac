"""`make crash`: one life for each write that a cluster's life takes, each killed at another write.

Prints how many writes there are, and fails unless every life ends as the undisturbed one did. `ARGS=clones`: the same
for the life of a masked copy of a database. `ARGS=postgres`: for the statements of a database's life. `ARGS=moves`: for
the writes of a move to another platform.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from tests import postgresserver
from tests.crash import clones, scenario
from tests.crash.lives import count_writes, interrupted, undisturbed
from tests.harness import end_in_order

Outcome = clones.Outcome | scenario.Outcome
Interrupt = Callable[[int], Awaitable[tuple[Outcome, int]]]
"""One life that is killed at this write: how it ended, and how often it was killed."""
_SWEEPS: Final = {
    "postgres": "tests/providers/postgres/test_faults.py",
    "moves": "tests/moving/test_kills.py",
}
"""Tests that kill at some points, and at every one where they are told to."""


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=1, help="the first write")
    parser.add_argument("--every", type=int, default=1, help="only every Nth write")
    parser.add_argument("what", nargs="?", choices=["clusters", "clones", *_SWEEPS], default="clusters")
    arguments = parser.parse_args()
    if arguments.what in _SWEEPS:
        return _swept(_SWEEPS[arguments.what])
    async with contextlib.AsyncExitStack() as servers:
        name = servers.enter_context(tempfile.TemporaryDirectory(prefix="steelyard-crash-"))
        life = _clones if arguments.what == "clones" else _clusters
        reference, writes, interrupt = await life(Path(name), servers, arguments.jobs)
        points = range(arguments.first, writes + 1, arguments.every)
        print(f"{writes} writes in a life; killing at {len(points)} of them", flush=True)
        started = time.monotonic()
        gate = asyncio.Semaphore(arguments.jobs)
        failures: list[str] = []
        survived = 0

        async def one(point: int) -> None:
            nonlocal survived
            async with gate:
                try:
                    outcome, kills = await interrupt(point)
                except Exception as error:
                    failures.append(f"write {point}: {error}")
                    print(f"write {point}: FAILED: {error}", flush=True)
                    return
                if outcome != reference:
                    failures.append(f"write {point}: {outcome} instead of {reference}")
                    print(failures[-1], flush=True)
                elif kills:
                    survived += 1

        await asyncio.gather(*(one(point) for point in points))
        took = time.monotonic() - started
    print(f"{survived} lives killed and resumed with the same end, {len(failures)} failures, {took:.0f} s")
    print(f"{survived} passed, {len(failures)} failed")
    return 1 if failures or not survived else 0


async def _clusters(root: Path, _servers: contextlib.AsyncExitStack, _jobs: int) -> tuple[Outcome, int, Interrupt]:
    reference = await undisturbed(root / "reference")
    writes = await count_writes(root / "counting")
    return reference, writes, lambda point: interrupted(root / f"kill-{point}", point)


async def _clones(root: Path, servers: contextlib.AsyncExitStack, jobs: int) -> tuple[Outcome, int, Interrupt]:
    """Those that run at the same time have a server each."""
    idle: list[clones.Source] = []
    for number in range(jobs):
        source = clones.Source(servers.enter_context(postgresserver.running()), root / str(number))
        idle.append(await servers.enter_async_context(source.made()))
    reference, writes = await idle[0].undisturbed()

    async def interrupt(point: int) -> tuple[Outcome, int]:
        source = idle.pop()
        try:
            return await source.interrupted(point)
        finally:
            idle.append(source)

    return reference, writes, interrupt


def _swept(tests: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", tests]
    return subprocess.run(command, env={**os.environ, "STEELYARD_SWEEP": "all"}, check=False).returncode


end_in_order()
sys.exit(asyncio.run(main()))
