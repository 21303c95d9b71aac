"""What the claims for databases and for caches have in common: where their credentials go, and what never changes."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

NAME_SCHEMA: Final[dict[str, Any]] = {"maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
"""The claim's name is the value of a label on everything that is made for it."""

VaultPath = Annotated[
    str, Field(min_length=3, max_length=253, pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$")
]


def stays(noun: str) -> dict[str, Any]:
    """For the field that names the environment."""
    return {
        "rule": "self == oldSelf",
        "messageExpression": f"'a {noun} stays in its environment, ' + oldSelf + '; put that back, and make a claim of "
        f"another name for ' + self",
    }
