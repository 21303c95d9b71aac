"""Every property test and state machine of the suite, with far more examples than a run of the tests has time for.

The examples come from the seed, so that a failure can be had again: `python -m tests.soak properties --seed 7`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

PROFILE = "soak"
_EXAMPLES = "STEELYARD_PROPERTY_EXAMPLES"


def wanted_examples() -> int:
    """How many the soak asks of each test."""
    return int(os.environ.get(_EXAMPLES) or 1)


def examples(usual: int, *, cases: int = 1) -> int:
    """For a test with a number of its own: that one, or the soak's where it runs, which all cases of a test share."""
    return max(usual, wanted_examples() // cases)


def run(folder: Path, given: argparse.Namespace) -> bool:
    """True when every property held; what did not hold is printed by pytest, with the shortest example."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "-p", "no:randomly", "-p", "no:cacheprovider"),
        *(f"--hypothesis-profile={PROFILE}", f"--hypothesis-seed={given.seed}", f"--basetemp={folder / 'tests'}"),
    ]
    environment = {**os.environ, _EXAMPLES: str(given.count)}
    repository = Path(__file__).parents[2]
    outcome = subprocess.run(command, cwd=repository, env=environment, check=False)
    print(f"properties: {given.count} examples each, {'all held' if outcome.returncode == 0 else 'FAILED'}")
    return outcome.returncode == 0
