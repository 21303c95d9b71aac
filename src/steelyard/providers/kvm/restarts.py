"""How soon a machine that has stopped is started again: at once, then ever later while it does not stay up."""

from __future__ import annotations

from typing import Final

from steelyard.kube.runtime.clock import Clock

_FIRST: Final = 5.0
_LONGEST: Final = 300.0
_STAYED: Final = 600.0
"""Seconds after which a machine has stayed up."""


class Restarts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starts: dict[str, tuple[float, int]] = {}

    def wait(self, uuid: str) -> float:
        """Seconds until it may be started."""
        last, count = self._starts.get(uuid, (0.0, 0))
        since = self._clock.monotonic() - last
        if count == 0 or since > _STAYED:
            return 0.0
        return min(_FIRST * 2.0 ** (count - 1), _LONGEST) - since

    def started(self, uuid: str) -> None:
        last, count = self._starts.get(uuid, (0.0, 0))
        has_stayed = self._clock.monotonic() - last > _STAYED
        self._starts[uuid] = (self._clock.monotonic(), 1 if has_stayed else count + 1)

    def forget(self, uuid: str) -> None:
        self._starts.pop(uuid, None)
