"""`python -m tests.seams up`: the whole program with the second things."""

from __future__ import annotations

from steelyard.cli import main
from tests.seams.program import OFFERING, PROVIDERS

if __name__ == "__main__":
    main.application(OFFERING, PROVIDERS)()
