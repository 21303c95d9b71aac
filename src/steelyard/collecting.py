"""When Python looks for garbage.

While modules are imported and the platform starts, nearly everything that is made stays; looking through it again and
again is a tenth of the time until the platform is ready.

While the platform runs, Python would look through everything whenever there is a quarter more of it, in the middle of
whatever is done: with some ten thousand objects in the store that holds everybody up for a third of a second, and
whoever sends much makes it happen often. Most of what a server makes has no cycles and goes without being looked for.
So it is looked for in small portions, and through everything only while there is little to do. Sooner where memory has
grown: whoever sends much is not to leave it behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICK_SECONDS: Final = 0.1
_IDLE: Final = 0.25
"""Part of one core."""
_MANY: Final = 100_000
"""More that is new than is looked through at once: mostly a large body, which goes with its request."""
_PATIENCE: Final = 10
_MIDDLE: Final = 10
_APART: Final = 3000
_OVERDUE: Final = 18_000
"""In ticks: how long many new ones are left alone, how often those are looked at that have been left once, how far
apart it is looked through everything, and when even while there is much to do."""
_GROWTH: Final = 4
"""Everything is looked through when a quarter has come to it."""
_SOON: Final = 100
_GROWN_BYTES: Final = 12 * 1024 * 1024
_FEW: Final = 150_000
"""Where memory has grown by so much, everything is looked through after so many ticks; while there is much to do only
if there is not much to look through, which then takes a twentieth of a second."""
_STATM: Final = Path("/proc/self/statm")
_PAGE: Final = 4096


@contextlib.contextmanager
def paused() -> Generator[None]:
    """What is there at the end is never looked through again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


@dataclass(slots=True)
class Plan:
    """What to look through next, tick by tick."""

    old: int = 0
    """How many are left after everything was looked through."""
    resident: int = 0
    """The memory that was used then."""
    _come: int = 0
    _rounds: int = 0
    _waited: int = 0
    _since: int = 0

    def generation(self, young: int, *, is_idle: bool, resident: int = 0) -> int | None:
        """The generation to collect, where so many are new and so much memory is used; None if it is better to wait."""
        self._since += 1
        has_grown = resident > self.resident + _GROWN_BYTES and self._since >= _SOON
        if has_grown and (is_idle or self.old + self._come < _FEW):
            return self._everything()
        if young > _MANY and self._waited < _PATIENCE and not is_idle:
            self._waited += 1
            return None
        self._waited = 0
        self._come += young
        is_due = self._since >= _APART and self._come * _GROWTH > self.old
        if is_due and (is_idle or self._since >= _OVERDUE):
            return self._everything()
        self._rounds += 1
        return 0 if self._rounds % _MIDDLE else 1

    def _everything(self) -> int:
        self._since = self._come = self._waited = 0
        return 2


@contextlib.contextmanager
def paced(
    tick: float = _TICK_SECONDS, *, before: Callable[[], None] | None = None, after: Callable[[], None] | None = None
) -> Generator[None]:
    """Looks for garbage in small portions as long as it lasts; within a running event loop. `before` is called at each
    tick, `after` when everything was looked through."""
    if not gc.isenabled():
        yield
        return
    loop = asyncio.get_running_loop()
    plan = Plan(old=len(gc.get_objects()), resident=_resident())
    used = time.process_time()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal used, timer
        is_late = loop.time() - timer.when() > tick
        if before is not None:
            before()
        is_idle = time.process_time() - used < tick * _IDLE and not is_late
        generation = plan.generation(gc.get_count()[0], is_idle=is_idle, resident=_resident())
        if generation is not None:
            gc.collect(generation)
        if generation == 2:
            if after is not None:
                after()
            plan.old, plan.resident = len(gc.get_objects()), _resident()
        used = time.process_time()
        timer = loop.call_later(tick, look)

    gc.disable()
    timer = loop.call_later(tick, look)
    try:
        yield
    finally:
        timer.cancel()
        gc.enable()


def _resident() -> int:
    """Bytes of memory that the process uses; 0 where the system does not tell."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return 0
