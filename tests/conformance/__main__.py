"""`make conformance`: the corpus against upstream's servers and ours, with a pass rate per bullet that may only rise.

python -m tests.conformance                     everything
python -m tests.conformance patch watch         two bullets
python -m tests.conformance --only "a name"     sequences whose name contains the text, with all their differences
python -m tests.conformance --seed 7            the random sequences of that seed
python -m tests.conformance --record            write the rates to record.json if none has fallen
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from tests.conformance import compare, corpus, hooks, keys, mutated, ours, randomised, rates, replay, upstream
from tests.conformance.compare import Outcome
from tests.conformance.corpus import Sequence
from tests.conformance.replay import Server
from tests.conformance.sharedcrds import definitions as shared
from tests.conformance.sharedcrds import run as sharedcrds
from tests.conformance.sharedcrds.definitions import Definition
from tests.harness import end_in_order

AT_ONCE = 6
SEQUENCE_SECONDS = 60.0
"""Longer than any takes; a changed one may wait for something that never comes."""
RANDOM_SEQUENCES = 20
SAMPLES = 1
"""The seed of the objects of other people's definitions, unless one is given: the same each time, so that it can be
recorded."""
REPLAYED_AT_MOST = 12
"""As many sequences that differ are played a second time, on fresh servers; with more, it is no accident."""


@dataclass(frozen=True)
class Pair:
    http: aiohttp.ClientSession
    upstream: Server
    ours: Server

    async def outcome(self, sequence: Sequence) -> Outcome:
        theirs, mine = await asyncio.gather(
            asyncio.wait_for(replay.play(self.http, self.upstream, sequence), SEQUENCE_SECONDS),
            asyncio.wait_for(replay.play(self.http, self.ours, sequence), SEQUENCE_SECONDS),
            return_exceptions=True,
        )
        # A state that upstream never reaches is a mistake in the corpus; it counts as a difference too.
        for prefix, result in ((compare.STUCK, theirs), ("ours: ", mine)):
            if isinstance(result, BaseException):
                return Outcome(sequence, (f"{prefix}{type(result).__name__}: {result}",))
        assert isinstance(theirs, list)
        assert isinstance(mine, list)
        return compare.compare(sequence, theirs, mine)


async def run(sequences: Many[Sequence], definitions: Many[Definition], seed: int, folder: Path) -> list[Outcome]:
    (folder / "upstream").mkdir()
    (folder / "ours").mkdir()
    shared = folder / "shared"
    keys.write(shared)
    async with (
        upstream.running(folder / "upstream", shared) as theirs,
        ours.running(folder / "ours", shared) as mine,
        hooks.serving() as variables,
        replay.session() as http,
    ):
        pair = Pair(http, replace(theirs, variables=variables), replace(mine, variables=variables))
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(sequence: Sequence) -> Outcome:
            async with limit:
                return await pair.outcome(sequence)

        outcomes = await asyncio.gather(*map(one, sequences))
        return [*outcomes, *await sharedcrds.outcomes(http, theirs, mine, definitions, seed)]


def settled(sequences: Many[Sequence], definitions: Many[Definition], seed: int) -> list[Outcome]:
    """What differs is played again, on servers that have seen nothing else: upstream's answers hang on its own timing
    here and there (bookmarks, seconds, informers that lag). What differs once and then no more passes, and is told."""
    first = _played(sequences, definitions, seed)
    differing = {each.sequence.name for each in first if not each.passed}
    if not differing or len(differing) > REPLAYED_AT_MOST:
        return first
    again = _played(
        [each for each in sequences if each.name in differing],
        [each for each in definitions if each.name in differing],
        seed,
    )
    second = {(each.sequence.bullet, each.sequence.name): each for each in again}
    for outcome in first:
        if not outcome.passed and second[outcome.sequence.bullet, outcome.sequence.name].passed:
            print(f"\nDIFFERED ONCE, NOT AGAIN {outcome.sequence.bullet}: {outcome.sequence.name}")
            print(outcome.differences[0])
    return [second.get((each.sequence.bullet, each.sequence.name), each) for each in first]


def _played(sequences: Many[Sequence], definitions: Many[Definition], seed: int) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(run(sequences, definitions, seed, Path(folder)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description="Compare our API server with upstream's.")
    parser.add_argument("bullets", nargs="*", help="which parts of the corpus; all by default")
    parser.add_argument("--only", default="", help="sequences whose name contains this")
    parser.add_argument("--seed", type=int, default=None, help="of the random sequences; a new one by default")
    parser.add_argument("--mutated", type=int, default=0, metavar="N", help="instead, N sequences with one change each")
    parser.add_argument("--record", action="store_true", help="write the rates to record.json")
    parser.add_argument("--brief", action="store_true", help="show the first difference of each sequence only")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    known = [*corpus.bullets(), randomised.BULLET, *([sharedcrds.BULLET] if shared.FOLDER.is_dir() else [])]
    wanted: list[str] = given.bullets or known
    if set(wanted) - set(known):
        parser.error(f"no such bullet; there are {', '.join(known)}")
    sequences = [
        each
        for each in (*corpus.load(), *randomised.sequences(seed, RANDOM_SEQUENCES))
        if each.bullet in wanted and given.only in each.name
    ]
    definitions = [each for each in shared.load() if sharedcrds.BULLET in wanted and given.only in each.name]
    if given.mutated:
        sequences, definitions = list(mutated.sequences(seed, given.mutated)), []
    objects_seed = given.seed if given.seed is not None else SAMPLES
    started = time.monotonic()
    outcomes = settled(sequences, definitions, objects_seed)
    if given.mutated:
        # What upstream does not get through tells nothing.
        outcomes = [each for each in outcomes if not each.is_stuck]
    for outcome in outcomes:
        if not outcome.passed:
            print(f"\nDIFFERS {outcome.sequence.bullet}: {outcome.sequence.name} ({outcome.sequence.source})")
            print("\n".join(outcome.differences[: 1 if given.brief else None]))
    counted = rates.count(outcomes)
    print(f"\n{len(outcomes)} sequences in {time.monotonic() - started:.0f} s, random seed {seed}")
    print(rates.table(counted))
    if definitions:
        of_definitions = (each for each in outcomes if each.sequence.bullet == sharedcrds.BULLET)
        print(f"{sharedcrds.BULLET}: {sharedcrds.summary(of_definitions)}; seed {objects_seed}")
    elif not shared.FOLDER.is_dir():
        print(f"{sharedcrds.BULLET}: skipped, because {shared.FOLDER} is not there")
    if given.mutated:
        return 0 if all(each.passed for each in outcomes) else 1
    if given.only:
        return 0
    fallen = rates.fallen(counted, rates.recorded(), wanted)
    if fallen:
        print("fell below record.json:", "; ".join(fallen))
        return 1
    if given.record:
        rates.record(counted)
    return 0


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
