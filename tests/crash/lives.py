"""One life of a cluster on a platform of its own: undisturbed, or killed at a chosen write."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.crash.scenario import Driver, Outcome
from tests.harness import PlatformProcess

_NEVER = 1_000_000


async def undisturbed(root: Path) -> Outcome:
    with PlatformProcess(root) as platform:
        outcome = await Driver(platform, platform).live()
    shutil.rmtree(root)
    return outcome


async def count_writes(root: Path) -> int:
    """How many writes, in both databases, a life takes when each is committed on its own."""
    with PlatformProcess(root, victim=["--kill-at", str(_NEVER)]) as platform:
        await Driver(platform, platform).live()
        printed = [line for line in platform.log.read_text().splitlines() if line.startswith("writes: ")]
    shutil.rmtree(root)
    return int(printed[-1].rpartition(" ")[2])


async def interrupted(root: Path, kill_at: int) -> tuple[Outcome, int]:
    """The life that is killed right after its write number `kill_at`, and how often it was killed (0 or 1)."""
    with (
        PlatformProcess(root, victim=["--kill-at", str(kill_at)]) as victim,
        PlatformProcess(root) as replacement,
    ):
        driver = Driver(victim, replacement)
        outcome = await driver.live()
    shutil.rmtree(root)
    return outcome, driver.kills
