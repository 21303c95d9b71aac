"""Looks for what is worse than the attacks that are known: turns their knobs, and makes two of them at once.

A simple evolution: of a few attacks the one that stalls the innocent client longest is changed a little, and takes its
place among the few if it is among the worst. The seed gives the same changes again; the machine never the same times.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.soak.hostile.attack import BOUND, Aim, Attack, Value
from tests.soak.hostile.campaign import Campaign, Result

Report = Callable[[str], None]
_KEPT: Final = 12
_RIVALS: Final = 3
_STRIKE_SECONDS: Final = 1.0
_FRESH_START: Final = 0.88


async def run(
    campaign: Campaign, known: Sequence[Attack], seed: int, seconds: float, report: Report
) -> tuple[list[Result], int]:
    """The worst, worst first, and how many were tried. Starts from what the campaign has measured."""
    random_ = random.Random(seed)
    usable = [attack for attack in known if not attack.needs_few_descriptors]
    kept = _worst([result for result in campaign.figures.results if not result.aim.needs_few_descriptors])
    tried = 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        rivals = random_.sample(kept, min(_RIVALS, len(kept)))
        parent = max(rivals, key=fitness).aim if rivals else Aim.of(random_.choice(usable))
        result = await campaign.strike(changed(parent, usable, random_), _STRIKE_SECONDS)
        tried += 1
        if not kept or fitness(result) > fitness(kept[0]):
            report(f"worse: {result.span.stall:.2f} s {result.state} {result.aim.line()}")
        kept = _worst([*kept, result])
    return kept, tried


def fitness(result: Result) -> float:
    """A dead server is worse than any wait."""
    return result.span.stall + (1000.0 if result.has_died else 0.0)


def _worst(results: list[Result]) -> list[Result]:
    return sorted(results, key=fitness, reverse=True)[:_KEPT]


def changed(aim: Aim, known: Sequence[Attack], random_: random.Random) -> Aim:
    """One step away: a knob or two turned, a second attack beside the first, or one of two left out; now and then a
    fresh start.
    """
    choice = random_.random()
    if choice > _FRESH_START:
        return Aim.of(random_.choice(known))
    if len(aim.attacks) == 1 and choice < 0.2:
        return Aim((*aim.attacks, *Aim.of(random_.choice(known)).attacks))
    if len(aim.attacks) > 1 and choice < 0.15:
        return Aim((random_.choice(aim.attacks),))
    place = random_.randrange(len(aim.attacks))
    attack, values = aim.attacks[place]
    turned: dict[str, Value] = dict(values)
    knobs = [name for name in attack.knobs if name != BOUND]
    for name in random_.sample(knobs, min(len(knobs), random_.randrange(1, 3))):
        turned[name] = attack.knobs[name].turned(values[name], random_)
    return Aim((*aim.attacks[:place], (attack, turned), *aim.attacks[place + 1 :]))
