"""`--dry-run`, alone or as kubectl spells it: `--dry-run=server`, `--dry-run=client`, `--dry-run=none`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.core


class DryRun(StrEnum):
    NONE = "none"
    CLIENT = "client"
    SERVER = "server"

    def word(self, done: str) -> str:
        """What is said to have been done: `created`, or what would have been."""
        return done if self is DryRun.NONE else f"would be {done}"


DryRunOption = Annotated[
    DryRun,
    typer.Option(
        "--dry-run",
        metavar="[none|server|client]",
        help="Change nothing. Alone or =server: the API validates it; =client: it does not.",
        show_default=False,
    ),
]


class WithBareDryRun(typer.core.TyperCommand):
    """A command whose `--dry-run` needs no value. As with kubectl, a value follows an equals sign, never a space."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["--dry-run=server" if each == "--dry-run" else each for each in args])
