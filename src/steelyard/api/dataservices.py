"""What the claims for databases and for caches have in common: where their credentials go, and what never changes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

NAME_SCHEMA: Final[dict[str, Any]] = {"maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
"""The claim's name is the value of a label on everything that is made for it."""

VaultPath = Annotated[
    str, Field(min_length=3, max_length=253, pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$")
]

# Of databases.
SizeName = Literal["small", "medium", "large"]
StorageGB = Annotated[int, Field(ge=1, le=65536)]
NAME_MAX: Final = 57
"""Of a database. PostgreSQL cuts names at 63 bytes, and `<name>_owner` is the role that has it."""
ExternalName = Annotated[str, Field(max_length=NAME_MAX, pattern=r"^[a-z]([a-z0-9_-]*[a-z0-9])?$")]
DEFAULT_SIZE: Final = "small"
DEFAULT_STORAGE_GB: Final = 20
# Of caches.
Replicas = Annotated[int, Field(ge=1, le=10)]
MemoryGB = Annotated[int, Field(ge=1, le=1024)]
DEFAULT_REPLICAS: Final = 1
DEFAULT_MEMORY_GB: Final = 1


def stays(noun: str) -> dict[str, Any]:
    """For the field that names the environment."""
    return {
        "rule": "self == oldSelf",
        "messageExpression": f"'a {noun} stays in its environment, ' + oldSelf + '; put that back, and make a claim of "
        f"another name for ' + self",
    }
