"""`python -m tests.seams up`: the whole program with the second things."""

from __future__ import annotations

from steelyard.cli import main as cli
from tests.seams.program import OFFERING, PROVIDERS


def main() -> None:
    cli.application(OFFERING, PROVIDERS)()


if __name__ == "__main__":
    main()
