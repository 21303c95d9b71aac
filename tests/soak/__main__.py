"""`make soak`: kills, a full disk, damaged files, fuzzed requests, properties; for as long as the promises need it.

python -m tests.soak                            everything, as the issue of a release needs it
python -m tests.soak kills --count 20           one part, with another number
python -m tests.soak fuzz --seed 7              the same choices again (when things happen is never the same)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

from tests.conformance import upstream
from tests.conformance.replay import Server
from tests.harness import end_in_order
from tests.soak import damage, disk, kills, properties
from tests.soak.fuzz import campaign

Part = Callable[[Path, int, int], bool]


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _kills(folder: Path, seed: int, count: int) -> bool:
    figures = asyncio.run(kills.run(folder, seed, count, _say))
    print(f"kills: {figures.summary()}")
    print("".join(f"  {complaint}\n" for complaint in figures.wrong[:20]), end="")
    return not figures.wrong


def _disk(folder: Path, seed: int, count: int) -> bool:
    try:
        print(f"disk: {disk.run(folder, seed, count)}")
    except disk.Impossible as error:
        print(f"disk: SKIPPED, {error}")
    except AssertionError as error:
        print(f"disk: FAILED\n{error}")
        return False
    return True


def _damage(folder: Path, seed: int, count: int) -> bool:
    figures = asyncio.run(damage.campaign(folder, random.Random(seed), count))
    print(f"damage: {figures.flips} bytes changed, {len(figures.wrong)} wrong answers\n{figures.table()}")
    print("".join(f"  {complaint}\n" for complaint in figures.wrong[:20]), end="")
    return not figures.wrong


def _fuzz(folder: Path, seed: int, count: int) -> bool:
    figures = asyncio.run(_fuzzed(folder, seed, count))
    for finding in figures.findings:
        if not finding.is_ours_alone:
            print(f"as upstream: {finding.text()}\n")
    problems = figures.problems()
    print("".join(f"{problem}\n\n" for problem in problems), end="")
    print(f"fuzz: {figures.summary()}; {len(problems)} problems")
    return not problems


async def _fuzzed(folder: Path, seed: int, count: int) -> campaign.Figures:
    async with campaign.serving(folder, random.Random(seed)) as target:
        figures = await campaign.run(target, seed, count, _say)
        if figures.findings:
            async with _upstream(folder) as theirs:
                await campaign.prepare_upstream(theirs, random.Random(seed))
                await campaign.compare(figures, theirs, _say)
    return figures


@contextlib.asynccontextmanager
async def _upstream(folder: Path) -> AsyncGenerator[Server]:
    _say("asking kube-apiserver about the 5xx")
    (folder / "upstream").mkdir()
    async with upstream.running(folder / "upstream", folder / campaign.KEYS) as server:
        yield server


PARTS: Final[dict[str, tuple[Part, int]]] = {
    "kills": (_kills, 500),
    "disk": (_disk, 10),
    "damage": (_damage, 20_000),
    "fuzz": (_fuzz, 100_000),
    "properties": (properties.run, 5_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description="Break the platform in every way that is known.")
    parser.add_argument("parts", nargs="*", help=f"which; of {', '.join(PARTS)}")
    parser.add_argument("--count", type=int, default=0, help="kills, fillings, changed bytes, requests or examples")
    parser.add_argument("--seed", type=int, default=None, help="a new one by default")
    given = parser.parse_args()
    wanted: list[str] = given.parts or list(PARTS)
    if set(wanted) - set(PARTS):
        parser.error(f"no such part; there are {', '.join(PARTS)}")
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    failed: list[str] = []
    for name in wanted:
        part, count = PARTS[name]
        _say(f"{name}: {given.count or count}, seed {seed}")
        with tempfile.TemporaryDirectory(prefix=f"soak-{name}-", ignore_cleanup_errors=True) as folder:
            if not part(Path(folder), seed, given.count or count):
                failed.append(name)
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
