"""SIGKILL under load, again and again: everything acknowledged is there, and nothing that was not is half there.

The platform runs as `steelyard up` runs it, with TLS, RBAC, encryption and audit. Several clients write through it
while one watch per kind follows. At a random moment, now and then already while it starts, the process is killed; then
it is started again and everything is compared: each object with what its client was told, the revision with the
highest that anybody was told, and where the resumed watches lead with what a list shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from steelyard.kube.store import acknowledged
from steelyard.kube.store.log import Log
from tests.harness import PlatformProcess
from tests.soak import load
from tests.soak.follower import Follower
from tests.soak.ledger import Found, Ledger
from tests.soak.load import Client
from tests.soak.site import Site

CLIENTS: Final = 8
_WRITES_BEFORE_KILL: Final = 250
_LOAD_SECONDS: Final = 3.0
_KILLED_WHILE_STARTING: Final = 0.15
_START_SECONDS: Final = (0.05, 2.0)
_SURVEY_EVERY: Final = 10
_REPORT_EVERY: Final = 25

Report = Callable[[str], None]


@dataclass(slots=True)
class Figures:
    kills: int = 0
    while_starting: int = 0
    acknowledged: int = 0
    events: int = 0
    revision: int = 0
    surveys: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list[str])

    def summary(self) -> str:
        return (
            f"{self.kills} kills, {self.while_starting} of them while starting, in {self.seconds:.0f} s: "
            f"{self.acknowledged} acknowledged writes, {self.events} watch events, revision {self.revision}, "
            f"{self.surveys} surveys of the files as they were left; {len(self.wrong)} problems"
        )


async def run(folder: Path, seed: int, count: int, report: Report) -> Figures:
    """Stops at the first kill after which something is wrong."""
    random_ = random.Random(seed)
    figures = Figures()
    ledger = Ledger()
    began = time.monotonic()
    with PlatformProcess(folder / "platform") as platform:
        await asyncio.to_thread(platform.start)
        async with Site(platform) as site:
            site.look()
            await load.prepare(site)
            followers = [Follower(kind, site, (await load.listed(site, kind))[1]) for kind in load.KINDS]
            following = [asyncio.create_task(follower.run()) for follower in followers]
            try:
                while figures.kills < count and not figures.wrong:
                    figures.wrong += await _under_load(platform, site, ledger, random_)
                    figures.kills += 1
                    if figures.kills % _SURVEY_EVERY == 0:
                        await asyncio.to_thread(_survey, platform, folder / "survey")
                        figures.surveys += 1
                    while figures.kills < count and random_.random() < _KILLED_WHILE_STARTING:
                        await _kill_while_starting(platform, random_)
                        figures.kills += 1
                        figures.while_starting += 1
                    await asyncio.to_thread(platform.start)
                    site.look()
                    figures.wrong += await _compare(site, ledger, followers)
                    if figures.kills % _REPORT_EVERY == 0:
                        report(f"{figures.kills} kills, {ledger.acknowledged} acknowledged, revision {ledger.revision}")
            finally:
                for task in following:
                    task.cancel()
                await asyncio.gather(*following, return_exceptions=True)
    figures.acknowledged, figures.revision = ledger.acknowledged, ledger.revision
    figures.events = sum(follower.events for follower in followers)
    figures.seconds = time.monotonic() - began
    return figures


async def _under_load(platform: PlatformProcess, site: Site, ledger: Ledger, random_: random.Random) -> list[str]:
    """Until the kill; what the clients had to complain of."""
    clients = [Client(number, site, ledger, random.Random(random_.random())) for number in range(CLIENTS)]
    working = [asyncio.create_task(client.run()) for client in clients]
    enough = ledger.acknowledged + random_.randrange(_WRITES_BEFORE_KILL)
    deadline = time.monotonic() + _LOAD_SECONDS
    while ledger.acknowledged < enough and time.monotonic() < deadline:  # noqa: ASYNC110 - any moment will do
        await asyncio.sleep(0.001)
    await asyncio.sleep(random_.uniform(0, 0.01))
    platform.kill()
    await asyncio.gather(*working)
    return [complaint for client in clients for complaint in client.wrong]


async def _kill_while_starting(platform: PlatformProcess, random_: random.Random) -> None:
    platform.launch()
    await asyncio.sleep(random_.uniform(*_START_SECONDS))
    await asyncio.to_thread(platform.kill)


async def _compare(site: Site, ledger: Ledger, followers: list[Follower]) -> list[str]:
    found: dict[str, Found] = {}
    revision = 0
    wrong: list[str] = []
    for follower in followers:
        objects, revision = await load.listed(site, follower.kind)
        found |= objects
        wrong += await follower.caught_up(objects)
    return wrong + ledger.settle(found, revision)


def _survey(platform: PlatformProcess, copy: Path) -> None:
    """Checks the files as the kill left them, in a copy: looking at them in place would tidy them up."""
    copy.mkdir()
    for database in (platform.data_dir.database, platform.data_dir.provider_database("simulated")):
        for end in ("", "-wal", acknowledged.SUFFIX):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(f"{database}{end}", copy)
        log = Log.open(copy / database.name)
        try:
            acknowledged.check(copy / database.name, log.survey().revision)
        finally:
            log.close()
    shutil.rmtree(copy)
