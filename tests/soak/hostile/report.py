"""The figures of a run, what is held against them, and the table of every attack beside kube-apiserver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.soak.hostile.campaign import Figures, Result
from tests.soak.hostile.observed import Span, quantile

P99_SECONDS: Final = 0.25
"""Of everything the innocent client asked for while others attacked."""
STALL_SECONDS: Final = 1.0
"""The longest that any one attack may make it wait, unless kube-apiserver lets it wait for longer."""
MEMORY_FACTOR: Final = 2.0
_SHOWN: Final = 10


def overall(figures: Figures) -> Span:
    """Everything from the first attack on, in all lives."""
    samples = [sample for _, span in figures.lives for sample in span.samples]
    return Span(tuple(samples), tuple(beat for _, span in figures.lives for beat in span.beats))


def leniency(figures: Figures) -> float:
    """1, or more on a machine that is too busy to answer in time even when nobody attacks."""
    return max(1.0, *(2 * baseline.p99 / P99_SECONDS for baseline in figures.baselines))


def problems(figures: Figures, beside: Figures | None = None) -> list[str]:
    """What of the promises does not hold; `beside` is what kube-apiserver did in the same run."""
    lenient = leniency(figures)
    allowed = {each.aim.line(): each.span.stall for each in beside.results} if beside is not None else {}
    whole = overall(figures)
    found = [f"{each.aim.title}: the server {each.state}: {each.aim.line()}" for each in figures.results if each.state]
    if whole.p99 > P99_SECONDS * lenient:
        found.append(f"p99 of the innocent client is {_ms(whole.p99)}, not below {_ms(P99_SECONDS * lenient)}")
    found += [
        f"{each.aim.title}: the innocent client waited {each.span.stall:.2f} s: {each.aim.line()}"
        for each in sorted(figures.results, key=_stall, reverse=True)
        if each.span.stall > max(STALL_SECONDS * lenient, allowed.get(each.aim.line(), 0.0))
    ]
    found += [
        f"memory went from {_mb(before)} to {_mb(span.peak)}"
        for before, span in figures.lives
        if span.peak > MEMORY_FACTOR * before
    ]
    wrong = whole.wrong
    found += [f"an innocent request: {each}" for each in dict.fromkeys(wrong[:_SHOWN])]
    if wrong:
        found.append(f"{len(wrong)} innocent requests were not answered as they should")
    return found


def _stall(result: Result) -> float:
    return result.span.stall


def summary(figures: Figures) -> str:
    whole = overall(figures)
    quiet = [baseline for baseline in figures.baselines if baseline.samples]
    before = max((each for each, _ in figures.lives), default=0)
    text = (
        f"{figures.name}: {len(figures.results)} attacks in {len(figures.lives)} lives; the innocent client asked "
        f"{len(whole.samples)} times: median {_ms(whole.median)}, p99 {_ms(whole.p99)}, longest {whole.stall:.2f} s "
        f"(without attacks {_ms(quantile((b.median for b in quiet), 0.5))}, "
        f"{_ms(quantile((b.p99 for b in quiet), 0.99))}, {max((b.stall for b in quiet), default=0.0):.2f} s); "
        f"{len(whole.wrong)} answers wrong; memory {_mb(before)} -> {_mb(whole.peak)} at most; "
        f"the client itself was late by {_ms(quantile((b.lag for b in whole.beats), 0.99))} at p99, "
        f"{_ms(whole.lag)} at most"
    )
    if leniency(figures) > 1:
        text += f". The machine is busy: limits of time are taken {leniency(figures):.1f} times as large"
    return text


def row(result: Result) -> str:
    span = result.span
    return (
        f"{result.aim.title[:44]:<44} {result.aim.who[:8]:<8} {_ms(span.p99):>9} {_ms(span.stall):>9} "
        f"{_mb(result.growth):>8} {len(span.wrong):>5} {result.state:<4} {result.answers[:110]}"
    )


HEAD: Final = f"{'attack':<44} {'by':<8} {'p99':>9} {'longest':>9} {'memory':>8} {'wrong':>5}      answered"


def table(ours: Sequence[Result], theirs: Sequence[Result]) -> str:
    """Markdown; ratios of what the innocent client noticed, ours to kube-apiserver's."""
    beside = {each.aim.line(): each for each in theirs}
    lines = [
        "| Attack | By | p99 | Longest | Memory | kube-apiserver | Ratio of longest |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in sorted(ours, key=_stall, reverse=True):
        other = beside.get(each.aim.line())
        span = each.span
        cells = [each.aim.title, each.aim.who, _ms(span.p99), f"{_ms(span.stall)} {each.state}".strip()]
        cells.append(f"+{_mb(each.growth)}")
        if other is None:
            cells += ["", ""]
        else:
            theirs_ = f"{_ms(other.span.p99)}, {_ms(other.span.stall)} {other.state}".strip()
            cells += [f"{theirs_}, +{_mb(other.growth)}", f"{span.stall / max(other.span.stall, 0.001):.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
