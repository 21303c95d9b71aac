"""`make soak`: kills, full disks, damaged files, fuzzed requests, properties, attacks; until one can believe in it all.

python -m tests.soak                            everything, as the issue of a release needs it
python -m tests.soak kills --count 20           one part, with another number
python -m tests.soak fuzz --seed 7              the same choices again (when things happen is never the same)
python -m tests.soak hostile --only yaml        attacks of one sort
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

import uvloop

from tests.conformance import upstream
from tests.conformance.replay import Server
from tests.harness import end_in_order
from tests.providers.kvm import daemons
from tests.providers.kvm import kills as kvmkills
from tests.soak import damage, disk, kills, previews, properties
from tests.soak.fuzz import campaign
from tests.soak.hostile import report as hostile_report
from tests.soak.hostile import run as hostile

Part = Callable[[Path, argparse.Namespace], bool]
"""Given a folder and what was asked for: `seed` and `count`, and what is one part's own."""


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _kills(folder: Path, given: argparse.Namespace) -> bool:
    figures = asyncio.run(kills.run(folder, given.seed, given.count, _say))
    print(f"kills: {figures.summary()}")
    print("".join(f"  {complaint}\n" for complaint in figures.wrong[:20]), end="")
    return not figures.wrong


def _disk(folder: Path, given: argparse.Namespace) -> bool:
    try:
        print(f"disk: {disk.run(folder, given.seed, given.count)}")
    except disk.Impossible as error:
        print(f"disk: SKIPPED, {error}")
    except AssertionError as error:
        print(f"disk: FAILED\n{error}")
        return False
    return True


def _damage(folder: Path, given: argparse.Namespace) -> bool:
    figures = asyncio.run(damage.campaign(folder, random.Random(given.seed), given.count))
    print(f"damage: {figures.flips} bytes changed, {len(figures.wrong)} wrong answers\n{figures.table()}")
    print("".join(f"  {complaint}\n" for complaint in figures.wrong[:20]), end="")
    return not figures.wrong


def _fuzz(folder: Path, given: argparse.Namespace) -> bool:
    figures = asyncio.run(_fuzzed(folder, given.seed, given.count))
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


def _hostile(folder: Path, given: argparse.Namespace) -> bool:
    wanted = hostile.Wanted(given.count, given.seed, given.only, given.replay, with_upstream=not given.ours)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(hostile.run(folder, wanted, _say))
    problems = hostile_report.problems(outcome.ours, outcome.theirs)
    print(f"\n{hostile.text(outcome)}\n")
    print("".join(f"  {problem}\n" for problem in problems), end="")
    print(f"hostile: {len(problems)} problems")
    return not problems


def _previews(folder: Path, given: argparse.Namespace) -> bool:
    figures = asyncio.run(previews.run(folder, given.count, _say))
    print(f"previews: {figures.summary()}")
    print("".join(f"  left: {each}\n" for each in figures.wrong[:20]), end="")
    return not figures.wrong


def _kvm(_: Path, given: argparse.Namespace) -> bool:
    if problem := daemons.missing():
        print(f"kvm: SKIPPED, {problem}")
        return True
    figures = kvmkills.run(given.count, given.seed, _say)
    print(f"kvm: {figures.summary()}")
    print("".join(f"  {complaint}\n" for complaint in figures.wrong[:20]), end="")
    return not figures.wrong


PARTS: Final[dict[str, tuple[Part, int]]] = {
    "kills": (_kills, 500),
    "disk": (_disk, 10),
    "damage": (_damage, 20_000),
    "fuzz": (_fuzz, 100_000),
    "properties": (properties.run, 5_000),
    "hostile": (_hostile, 600),
    "previews": (_previews, 1_000),
    "kvm": (_kvm, 200),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description="Break the platform in every way that is known.")
    parser.add_argument("parts", nargs="*", help=f"which; of {', '.join(PARTS)}")
    parser.add_argument(
        "--count",
        "--seconds",
        type=int,
        default=0,
        help="kills, fillings, changed bytes, requests, examples, seconds of attacks or previews",
    )
    parser.add_argument("--seed", type=int, default=None, help="a new one by default")
    parser.add_argument("--only", action="append", default=[], help="hostile: attacks with this in their name")
    parser.add_argument("--replay", action="append", default=[], help="hostile: a line that a run has printed")
    parser.add_argument("--ours", action="store_true", help="hostile: leave kube-apiserver out")
    given = parser.parse_args()
    wanted: list[str] = given.parts or list(PARTS)
    if set(wanted) - set(PARTS):
        parser.error(f"no such part; there are {', '.join(PARTS)}")
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1_000_000)
    failed: list[str] = []
    again: list[str] = []
    for name in wanted:
        part, count = PARTS[name]
        wants = argparse.Namespace(**{**vars(given), "count": given.count or count})
        _say(f"{name}: {wants.count}, seed {wants.seed}")
        with tempfile.TemporaryDirectory(prefix=f"soak-{name}-", ignore_cleanup_errors=True) as folder:
            if not part(Path(folder), wants):
                failed.append(name)
                again.append(f'  make soak ARGS="{name} --count {wants.count} --seed {wants.seed}"\n')
    print(f"{len(wanted) - len(failed)} passed, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}")
    print(f"the same choices again:\n{''.join(again)}" if again else "", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
