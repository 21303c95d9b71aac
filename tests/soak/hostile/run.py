"""One run: every attack on our platform, the same on kube-apiserver, and the search for worse ones in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.soak.hostile import catalogue, report, search, servers
from tests.soak.hostile.attack import Aim
from tests.soak.hostile.campaign import Campaign, Figures, Result

Report = Callable[[str], None]
_ON_OURS, _ON_SEARCH, _ON_THEIRS = 0.55, 0.25, 0.2
"""Shares of the time that is given."""
_AROUND_SECONDS: Final = 1.3
"""What an attack takes besides its sending."""
_SHORTEST: Final = 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    seconds: float
    seed: int
    only: Sequence[str] = ()
    """Names of attacks, or parts of names; none are all."""
    replay: Sequence[str] = ()
    """Lines as the search prints them, instead of what is known."""
    with_upstream: bool = True

    @property
    def aims(self) -> list[Aim]:
        """Those that need few descriptors last: they have a server of their own."""
        if self.replay:
            return [Aim.read(line, catalogue.BY_NAME) for line in self.replay]
        chosen = [a for a in catalogue.ALL if not self.only or any(part in a.name for part in self.only)]
        return [Aim.of(attack) for attack in sorted(chosen, key=lambda attack: attack.needs_few_descriptors)]


@dataclass(slots=True)
class Outcome:
    ours: Figures
    theirs: Figures | None = None
    known: list[Result] = field(default_factory=list[Result])
    """Of the attacks that were asked for, without those that the search has made of them."""
    worst: list[Result] = field(default_factory=list[Result])
    tried: int = 0


async def run(folder: Path, wanted: Wanted, say: Report) -> Outcome:
    aims = wanted.aims
    is_whole = not wanted.only and not wanted.replay
    each = wanted.seconds * (_ON_OURS if is_whole else 1 - _ON_THEIRS) / max(1, len(aims))
    async with Campaign("ours", folder, servers.ours) as campaign:
        outcome = Outcome(campaign.figures)
        wide = [aim for aim in aims if not aim.needs_few_descriptors]
        say(report.HEAD)
        await _strike_all(campaign, wide, each, outcome.known, say)
        if is_whole:
            found = await search.run(campaign, catalogue.ALL, wanted.seed, wanted.seconds * _ON_SEARCH, say)
            outcome.worst, outcome.tried = found
        await _strike_all(campaign, [aim for aim in aims if aim.needs_few_descriptors], each, outcome.known, say)
    if wanted.with_upstream:
        outcome.theirs = await _upstream(folder, aims, wanted.seconds * _ON_THEIRS / max(1, len(aims)), say)
    return outcome


async def _upstream(folder: Path, aims: list[Aim], each: float, say: Report) -> Figures:
    say("the same on kube-apiserver")
    async with Campaign("upstream", folder, servers.theirs) as campaign:
        await _strike_all(campaign, aims, each, [], say)
    return campaign.figures


async def _strike_all(campaign: Campaign, aims: list[Aim], each: float, into: list[Result], say: Report) -> None:
    for aim in aims:
        result = await campaign.strike(aim, max(_SHORTEST, each - _AROUND_SECONDS))
        into.append(result)
        say(report.row(result))


def text(outcome: Outcome) -> str:
    """Everything that a run has to tell, but for what is wrong."""
    theirs = outcome.theirs
    parts = [report.table(outcome.known, theirs.results if theirs else []), report.summary(outcome.ours)]
    if theirs is not None:
        parts.append(report.summary(theirs))
    if outcome.tried:
        worst = "\n".join(f"  {each.span.stall:.2f} s {each.state} {each.aim.line()}" for each in outcome.worst[:5])
        parts.append(f"the worst of {outcome.tried} more that were tried, for --replay:\n{worst}")
    return "\n\n".join(parts)
