"""What the innocent client noted, and what it amounts to within a span of time."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from tests.harness import ROOT
from tests.soak.hostile.field import Field

_POLL_SECONDS: Final = 0.05
_CALM_SECONDS: Final = 0.4
_FIRST_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Sample:
    kind: str
    due: float
    seconds: float
    wrong: str


@dataclass(frozen=True, slots=True)
class Beat:
    at: float
    oldest: float
    """For how long the oldest request was unanswered."""
    lag: float
    resident: int


def quantile(values: Iterable[float], share: float) -> float:
    """0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """From the first attack to when the server was itself again, or given up."""

    samples: tuple[Sample, ...]
    beats: tuple[Beat, ...]

    @property
    def median(self) -> float:
        return quantile((each.seconds for each in self.samples), 0.5)

    @property
    def p99(self) -> float:
        return quantile((each.seconds for each in self.samples), 0.99)

    @property
    def stall(self) -> float:
        """The longest wait, also of what was never answered."""
        return max([each.seconds for each in self.samples] + [each.oldest for each in self.beats], default=0.0)

    @property
    def lag(self) -> float:
        """How late the innocent client itself was, at worst: a machine that is too busy to measure on."""
        return max((each.lag for each in self.beats), default=0.0)

    @property
    def peak(self) -> int:
        return max((each.resident for each in self.beats), default=0)

    @property
    def wrong(self) -> list[str]:
        return [f"{each.kind}: {each.wrong}" for each in self.samples if each.wrong]


@dataclass(slots=True)
class Observer:
    """Reads along while the innocent client writes."""

    notes: Path
    process: subprocess.Popen[bytes]
    _read: int = 0
    _samples: list[Sample] = field(default_factory=list[Sample])
    _beats: list[Beat] = field(default_factory=list[Beat])

    def look(self) -> None:
        with self.notes.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = content.rfind(b"\n") + 1
        self._read += whole
        for line in content[:whole].splitlines():
            kind, *rest = orjson.loads(line)
            if kind == "beat":
                self._beats.append(Beat(*rest))
            else:
                self._samples.append(Sample(kind, *rest))

    def span(self, since: float, until: float) -> Span:
        self.look()
        samples = tuple(each for each in self._samples if since <= each.due <= until)
        return Span(samples, tuple(each for each in self._beats if since <= each.at <= until))

    @property
    def resident(self) -> int:
        self.look()
        return self._beats[-1].resident if self._beats else 0

    @property
    def oldest(self) -> float:
        """For how long the oldest request is unanswered now."""
        self.look()
        last = self._beats[-1] if self._beats else Beat(time.monotonic(), 0.0, 0.0, 0)
        return last.oldest + (time.monotonic() - last.at if last.oldest else 0.0)

    async def until_calm(self, within: float, patience: float) -> bool:
        """Whether, for a moment, every answer came within as many seconds; False after `patience`."""
        began = time.monotonic()
        while time.monotonic() < began + patience:
            await asyncio.sleep(_POLL_SECONDS)
            now = time.monotonic()
            latest = self.span(now - _CALM_SECONDS, now)
            is_long_enough = now - began > _CALM_SECONDS and len(latest.samples) > 10
            if is_long_enough and latest.stall < within:
                return True
        return False

    def ended(self) -> int:
        """Ends the client in order; its exit code."""
        self.process.terminate()
        return self.process.wait(60)


@contextlib.asynccontextmanager
async def innocent(field_: Field, folder: Path) -> AsyncGenerator[Observer]:
    """The innocent client while it runs; ended whatever happens."""
    described, notes = folder / "field.json", folder / "notes.jsonl"
    described.write_text(field_.to_json())
    notes.write_bytes(b"")
    command = [sys.executable, "-m", "tests.soak.hostile.innocent", str(described), str(notes)]
    with (folder / "innocent.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - starts at once
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    observer = Observer(notes, process)
    try:
        async with asyncio.timeout(_FIRST_SECONDS):
            while not observer.resident:  # noqa: ASYNC110 - another process writes
                await asyncio.sleep(_POLL_SECONDS)
        yield observer
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
