"""Arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli import completing

TargetArgument = Annotated[
    list[str],
    typer.Argument(metavar="[KIND] NAME", help="NAME, KIND/NAME or KIND NAME.", autocompletion=completing.claims),
]
