"""`make crash`: one life for each write that a cluster's life takes, each killed at another write.

Prints how many writes there are, and fails unless every life ends as the undisturbed one did. `ARGS=postgres`: the same
for the statements of a database's life.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.crash.lives import count_writes, interrupted, undisturbed
from tests.harness import end_in_order


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every Nth write")
    parser.add_argument("what", nargs="?", choices=["clusters", "postgres"], default="clusters")
    arguments = parser.parse_args()
    if arguments.what == "postgres":
        return _databases()
    with tempfile.TemporaryDirectory(prefix="steelyard-crash-") as name:
        root = Path(name)
        reference = await undisturbed(root / "reference")
        writes = await count_writes(root / "counting")
        points = range(1, writes + 1, arguments.every)
        print(f"{writes} writes in a life; killing at {len(points)} of them", flush=True)
        started = time.monotonic()
        gate = asyncio.Semaphore(arguments.jobs)
        failures: list[str] = []
        survived = 0

        async def one(point: int) -> None:
            nonlocal survived
            async with gate:
                try:
                    outcome, kills = await interrupted(root / f"kill-{point}", point)
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


def _databases() -> int:
    """Server, platform and connection struck at every statement of a database's life."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "tests/providers/postgres/test_faults.py"]
    return subprocess.run(command, env={**os.environ, "STEELYARD_SWEEP": "all"}, check=False).returncode


end_in_order()
sys.exit(asyncio.run(main()))
