"""Compares what two servers answered to one sequence, and shows the first differences so that a reader sees them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance import picking
from tests.conformance.corpus import Sequence
from tests.conformance.normalise import Normaliser
from tests.conformance.replay import Exchange

STUCK = "upstream: "


@dataclass(frozen=True)
class Outcome:
    sequence: Sequence
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.differences

    @property
    def is_stuck(self) -> bool:
        """Whether upstream did not come to the end: a state never came, or too late, or a value was not there."""
        return any(each.startswith(STUCK) for each in self.differences)


def compare(sequence: Sequence, upstream: list[Exchange], ours: list[Exchange]) -> Outcome:
    sent = json.dumps([sequence.given(), sequence.crd, sequence.steps], default=str, ensure_ascii=False)
    left, right = Normaliser(sent), Normaliser(sent)
    differences: list[str] = []
    for number, (theirs, mine) in enumerate(zip(upstream, ours, strict=False), 1):
        expected, actual = left.exchange(theirs), right.exchange(mine)
        if expected != actual:
            differences.append(f"step {number}: {theirs.step}\n{diff(expected, actual)}")
        elif theirs.is_picked and picking.finds_nothing(theirs.body):
            differences.append(
                f"step {number}: {theirs.step}: something to compare is in neither answer: {theirs.body}"
            )
    if len(upstream) != len(ours):
        differences.append(f"{len(upstream)} steps against {len(ours)}")
    return Outcome(sequence, tuple(differences))


def diff(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str:
    lines = difflib.unified_diff(_lines(expected), _lines(actual), "upstream", "ours", lineterm="", n=2)
    return "\n".join(f"    {line}" for line in list(lines)[2:])


def _lines(value: Mapping[str, Any]) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
