"""The schemas of our models, made ahead: to ask the models for them would take a fifth of a second at every start.

`schemas.txt` begins with a fingerprint of the models' sources. Where these have changed since, the table is not used:
whoever works on a model sees what it says. `make reference` makes the table again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from steelyard.api.model import ApiModel

TABLE: Final = Path(__file__).with_name("schemas.txt")


def find(model: type[ApiModel]) -> bytes | None:
    """The structural schema as JSON; None for what has to be asked itself."""
    return _table().get(_name(model))


def text(made: Iterable[tuple[type[ApiModel], bytes]]) -> str:
    """The content of the table, for those schemas."""
    lines = sorted(f"{_name(model)} {schema.decode()}" for model, schema in made)
    return "\n".join((fingerprint(), *lines)) + "\n"


@functools.cache
def _table() -> Mapping[str, bytes]:
    if not TABLE.is_file():
        return {}
    made_from, *lines = TABLE.read_bytes().splitlines()
    if made_from.decode() != fingerprint():
        return {}
    return {name.decode(): schema for name, _, schema in (line.partition(b" ") for line in lines)}


def _name(model: type[ApiModel]) -> str:
    return f"{model.__module__}.{model.__qualname__}"


@functools.cache
def fingerprint() -> str:
    """Of the sources of the models."""
    found = hashlib.sha256()
    for path in sorted(TABLE.parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()
