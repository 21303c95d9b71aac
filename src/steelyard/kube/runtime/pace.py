"""How long reports are collected: until what waits for a worker now has been seen to, and a few times as long.

A report sums up what others do. While many objects wait for their next step, each step would otherwise be reported by
itself, which takes as much as the step; with little to do it is reported after a moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from steelyard.kube.runtime.clock import Clock

_ROUNDS: Final = 3
_LONGEST: Final = 5.0
"""Seconds."""
_COUNTED_EVERY: Final = 16
"""Steps: counting takes longer than the rest."""
_WEIGHT: Final = 0.05
_AT_FIRST: Final = 0.001
_PAUSE: Final = 1.0
"""Seconds: longer apart are only reconciles between which there was nothing to do."""


class Pace:
    """Shared by controllers that take turns in one process."""

    def __init__(self, clock: Clock, waiting: Callable[[], int]) -> None:
        """`waiting` is how many keys wait for a worker."""
        self._clock = clock
        self._waiting = waiting
        self._count = 0
        self._steps = 0
        self._each = _AT_FIRST
        self._last = clock.monotonic()

    def step(self) -> None:
        """A reconcile has ended."""
        self._steps += 1
        if self._steps % _COUNTED_EVERY == 0:
            self._count = self._waiting()
        now = self._clock.monotonic()
        apart, self._last = now - self._last, now
        if apart < _PAUSE:
            self._each += (apart - self._each) * _WEIGHT

    def is_busy(self) -> bool:
        """Whether anything waits for a worker in this moment."""
        return self._waiting() > 0

    def collected(self, after: float) -> float:
        """For how many seconds, where it would be `after` if nothing waited."""
        return max(after, min(self._count * self._each * _ROUNDS, _LONGEST))
