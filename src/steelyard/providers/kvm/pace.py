"""How often the provider looks at things by itself. News of a machine wakes it at once; these are for what has none."""

from __future__ import annotations

import random
from typing import Final

from steelyard.frozen import frozen


@frozen
class Pace:
    """Seconds; tests have less patience."""

    machines: float = 600.0
    """Between two looks at one that runs."""
    clusters: float = 600.0
    hosts: float = 300.0
    retry: float = 30.0
    """After something that did not work."""
    host_retry: float = 15.0
    soon: float = 10.0
    """For what is about to change."""
    boots: float = 30.0
    """Between two looks at one whose Node has not come."""

    def spread(self, seconds: float) -> float:
        """Give or take a quarter, so that not all are looked at in the same moment."""
        return seconds * random.uniform(0.75, 1.25)  # noqa: S311 (spread, not a secret)

    def of_boot(self, age: float) -> float:
        """For one that has run for so many seconds without a Node: the longer that takes, the less often."""
        return self.spread(min(self.machines, max(self.boots, age / 10)))


STEADY: Final = Pace()
