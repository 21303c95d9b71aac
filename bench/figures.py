"""The figures of a run, the budgets they are held against, and the table that is printed of them."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Round = Mapping[str, float]
"""What one life of a server gave, by the figure's key."""


@dataclass(frozen=True, slots=True)
class Budget:
    text: str
    is_met: Callable[[float, float], bool]
    """Given our figure and its ratio to upstream's."""


@dataclass(frozen=True, slots=True)
class Figure:
    key: str
    title: str
    unit: str
    budget: Budget | None = None
    is_compared: bool = True


def _at_least(ratio: float) -> Budget:
    return Budget(f"≥ {ratio:g} x", lambda _, found: found >= ratio)


def _at_most(ratio: float, text: str) -> Budget:
    return Budget(f"≤ {text}", lambda _, found: found <= ratio)


FIGURES: Final = (
    Figure("start", "start to ready", "s", Budget("≤ 1 s, < 1/3", lambda ours, ratio: ours <= 1 and ratio < 1 / 3)),
    Figure("resident", "resident memory after start", "MB", Budget("< 1/3", lambda _, ratio: ratio < 1 / 3)),
    Figure("create_1_median", "create a 1 KB ConfigMap, 1 connection, median", "ms", _at_most(0.5, "1/2")),
    Figure("create_1_per_second", "creates, 1 connection", "/s"),
    Figure("create_16_per_second", "creates, 16 connections", "/s", _at_least(1.5)),
    Figure("create_16_p99", "  of these, the slowest in a hundred", "ms"),
    Figure("create_16_cpu", "  processor time per create", "µs"),
    Figure("create_64_per_second", "creates, 64 connections", "/s"),
    Figure("get_1_median", "get, 1 connection, median", "ms"),
    Figure("get_32_per_second", "gets, 32 connections", "/s", _at_least(2)),
    Figure("get_32_cpu", "  processor time per get", "µs"),
    Figure("apply_1_median", "apply a KubeadmControlPlane, 1 connection, median", "ms"),
    Figure("apply_16_per_second", "applies of KubeadmControlPlanes, 16 connections", "/s"),
    Figure("apply_16_cpu", "  processor time per apply", "µs"),
    Figure("list_median", "list 10,000 ConfigMaps", "ms"),
    Figure("list-cached_median", "  with resourceVersion=0", "ms"),
    Figure("list-paged_median", "  in pages of 500", "ms"),
    Figure("list_bytes", "  bytes received, without compression", "MB"),
    Figure("fan-out_median", "one change to the last of 100 watchers, median", "ms"),
    Figure("fan-out_per_second", "events to 100 watchers, 16 connections writing", "/s"),
    Figure("resident_full", "resident memory after 30,000 objects", "MB"),
    Figure("generator", "busiest load generator, of one core", "%", is_compared=False),
)


@dataclass(frozen=True, slots=True)
class Row:
    figure: Figure
    ours: float
    upstream: float | None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.upstream if self.upstream and self.figure.is_compared else None

    @property
    def verdict(self) -> str:
        """Empty where nothing is promised, or nothing was compared."""
        if self.figure.budget is None or self.ratio is None:
            return ""
        return "met" if self.figure.budget.is_met(self.ours, self.ratio) else "not met"


def rows(ours: Sequence[Round], upstream: Sequence[Round]) -> list[Row]:
    """The median of the rounds for each figure that was measured."""
    return [
        Row(figure, found, _median(upstream, figure.key))
        for figure in FIGURES
        if (found := _median(ours, figure.key)) is not None
    ]


def _median(rounds: Iterable[Round], key: str) -> float | None:
    found = [each[key] for each in rounds if key in each]
    return statistics.median(found) if found else None


def table(found: Sequence[Row]) -> str:
    """In Markdown, with columns that line up on a terminal."""
    lines = [("", "ours", "upstream", "ours/upstream", "budget", "")]
    lines += [
        (
            each.figure.title,
            _amount(each.ours, each.figure.unit),
            _amount(each.upstream, each.figure.unit) if each.upstream is not None else "",
            f"{each.ratio:.2f}" if each.ratio is not None else "",
            each.figure.budget.text if each.figure.budget is not None else "",
            each.verdict,
        )
        for each in found
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    made = [_line(cells, widths) for cells in lines]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    return "\n".join((made[0], rule, *made[1:]))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cells[0].ljust(widths[0]),
        *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)),
    ]
    return f"| {' | '.join(padded)} |"


def _amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}".replace(" /s", "/s")


def machine() -> str:
    """What it was measured on."""
    model = _first(Path("/proc/cpuinfo"), "model name") or platform.machine()
    memory = int((_first(Path("/proc/meminfo"), "MemTotal") or "0 kB").split()[0]) / 1e6
    cores = Path("/proc/cpuinfo").read_text().count("processor\t")
    release = ".".join(platform.release().split(".")[:2])
    system = f"{platform.system()} {release}, Python {platform.python_version()}"
    return f"{cores} x {model}, {memory:.0f} GB, {system}"


def _first(path: Path, name: str) -> str:
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""
