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
from collections.abc import Collection
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from tests.api import references
from tests.api.references import Attempt
from tests.compose import rendered
from tests.compose.rendered import Rendered
from tests.conformance import (
    compare,
    composed,
    corpus,
    hooks,
    keys,
    mutated,
    ours,
    randomised,
    rates,
    replay,
    rights,
    upstream,
)
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


@dataclass(frozen=True)
class Chosen:
    """What is to be played."""

    sequences: Many[Sequence]
    definitions: Many[Definition] = ()
    claims: Many[Rendered] = ()
    attempts: Many[Attempt] = ()
    seed: int = SAMPLES

    def only(self, names: Collection[str]) -> Chosen:
        """The subjects that are made of claims are played whole: they are short, and install what they need."""
        return replace(
            self,
            sequences=[each for each in self.sequences if each.name in names],
            definitions=[each for each in self.definitions if each.name in names],
        )


async def run(chosen: Chosen, folder: Path) -> list[Outcome]:
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

        outcomes = await asyncio.gather(*map(one, chosen.sequences))
        outcomes += await sharedcrds.outcomes(http, theirs, mine, chosen.definitions, chosen.seed)
        if chosen.claims:
            outcomes += await composed.outcomes(http, theirs, mine, chosen.claims)
        if chosen.attempts:
            outcomes += await rights.outcomes(http, theirs, mine, chosen.attempts)
        return outcomes


def settled(chosen: Chosen) -> list[Outcome]:
    """What differs is played again, on servers that have seen nothing else: upstream's answers hang on its own timing
    here and there (bookmarks, seconds, informers that lag). What differs once and then no more passes, and is told."""
    first = _played(chosen)
    differing = {each.sequence.name for each in first if not each.passed}
    if not differing or len(differing) > REPLAYED_AT_MOST:
        return first
    again = _played(chosen.only(differing))
    second = {(each.sequence.bullet, each.sequence.name): each for each in again}
    for outcome in first:
        if not outcome.passed and second[outcome.sequence.bullet, outcome.sequence.name].passed:
            print(f"\nDIFFERED ONCE, NOT AGAIN {outcome.sequence.bullet}: {outcome.sequence.name}")
            print(outcome.differences[0])
    return [second.get((each.sequence.bullet, each.sequence.name), each) for each in first]


def _played(chosen: Chosen) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="conformance-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(run(chosen, Path(folder)))


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
    of_shared = [sharedcrds.BULLET, composed.BULLET]
    known = [*corpus.bullets(), randomised.BULLET, rights.BULLET, *(of_shared if shared.FOLDER.is_dir() else [])]
    wanted: list[str] = given.bullets or known
    if set(wanted) - set(known):
        parser.error(f"no such bullet; there are {', '.join(known)}")
    sequences = [
        each
        for each in (*corpus.load(), *randomised.sequences(seed, RANDOM_SEQUENCES))
        if each.bullet in wanted and given.only in each.name
    ]
    chosen = Chosen(
        sequences,
        [each for each in shared.load() if sharedcrds.BULLET in wanted and given.only in each.name],
        [each.render() for each in rendered.everything() if composed.BULLET in wanted and given.only in each.title],
        [each for each in references.attempts() if rights.BULLET in wanted and given.only in each.title],
        given.seed if given.seed is not None else SAMPLES,
    )
    if given.mutated:
        chosen = Chosen(list(mutated.sequences(seed, given.mutated)))
    started = time.monotonic()
    outcomes = settled(chosen)
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
    _tell_subjects(chosen, outcomes, of_shared)
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


def _tell_subjects(chosen: Chosen, outcomes: Many[Outcome], of_shared: Many[str]) -> None:
    """What the subjects that are not written down as sequences were, in numbers."""
    by_bullet = {
        bullet: [each for each in outcomes if each.sequence.bullet == bullet] for bullet in (*of_shared, rights.BULLET)
    }
    if chosen.definitions:
        told = sharedcrds.summary(by_bullet[sharedcrds.BULLET])
        print(f"{sharedcrds.BULLET}: {told}; seed {chosen.seed}")
    if chosen.claims:
        print(f"{composed.BULLET}: {composed.summary(by_bullet[composed.BULLET], chosen.claims)}")
    if chosen.attempts:
        print(f"{rights.BULLET}: {rights.summary(by_bullet[rights.BULLET])}")
    if not shared.FOLDER.is_dir():
        print(f"{' and '.join(of_shared)}: skipped, because {shared.FOLDER} is not there")


if __name__ == "__main__":
    end_in_order()
    sys.exit(main())
