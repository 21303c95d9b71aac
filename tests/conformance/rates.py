"""Pass rates per bullet, and the record of them: a rate may rise, never fall."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance import randomised
from tests.conformance.compare import Outcome
from tests.harness import ROOT

RECORD: Final = Path(__file__).parent / "record.json"
DOCUMENT: Final = ROOT / "docs" / "conformance.md"
_BEGIN, _END = "<!-- rates -->\n", "<!-- end of rates -->\n"


@dataclass(frozen=True)
class Rate:
    passed: int
    total: int
    invalid: int

    @property
    def value(self) -> float:
        return round(100 * self.passed / self.total, 1) if self.total else 0.0


def count(outcomes: Iterable[Outcome]) -> dict[str, Rate]:
    by_bullet: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_bullet.setdefault(outcome.sequence.bullet, []).append(outcome)
    return {
        bullet: Rate(sum(each.passed for each in group), len(group), sum(each.sequence.invalid for each in group))
        for bullet, group in sorted(by_bullet.items())
    }


def table(rates: Mapping[str, Rate]) -> str:
    return "\n".join(
        f"  {bullet:<24} {rate.passed:>3} of {rate.total:<3} {rate.value:>6.1f} %   {rate.invalid} of invalid input"
        for bullet, rate in rates.items()
    )


def recorded() -> dict[str, float]:
    """Empty when nothing was ever recorded."""
    if not RECORD.exists():
        return {}
    return {str(bullet): float(rate["rate"]) for bullet, rate in json.loads(RECORD.read_text()).items()}


def fallen(rates: Mapping[str, Rate], before: Mapping[str, float], wanted: Collection[str]) -> list[str]:
    """Of the bullets that were to run, those whose rate is below the record, and those that ran nothing."""
    below = [
        f"{bullet} {rate.value} % < {before[bullet]} %"
        for bullet, rate in rates.items()
        if rate.value < before.get(bullet, 0.0)
    ]
    return below + [f"{bullet} ran nothing" for bullet in wanted if bullet not in rates]


def record(rates: Mapping[str, Rate]) -> None:
    """Bullets that did not run keep what was recorded; random sequences are others each time, so they are not.

    The table in the documentation is made again with it."""
    rates = {bullet: rate for bullet, rate in rates.items() if bullet != randomised.BULLET}
    kept: dict[str, dict[str, float]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    kept |= {
        name: {"rate": each.value, "passed": each.passed, "sequences": each.total, "invalid": each.invalid}
        for name, each in rates.items()
    }
    RECORD.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")
    head, _, rest = DOCUMENT.read_text().partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    lines = ["| Subject | Pass | Of | Invalid |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {each['passed']} | {each['sequences']} | {each['invalid']} |"
        for name, each in sorted(kept.items())
    ]
    DOCUMENT.write_text(f"{head}{_BEGIN}\n" + "\n".join(lines) + f"\n\n{_END}{tail}")
