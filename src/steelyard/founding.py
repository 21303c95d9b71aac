"""What every new platform begins with, made ahead: Kubernetes' own roles, the definitions of its kinds and the policies
that guard claims.

To make them from the models, judge them, merge them field by field and bring each definition to where it is served took
a third of a start, and as much memory as a hundred clusters. `founding.txt` has what came of that, as the server stores
it. A new platform stores those bytes; at later starts an object with the same bytes is one that nobody has changed, and
no model needs to be loaded to know it. Where anything is otherwise (another offering, a definition that somebody has
changed, settings that make other policies, a newer version), `app.py` goes the long way, with the same end.

The table begins with a fingerprint of the models' sources, as that of `api/schemas.py`. `make reference` makes it
again, and a test compares it with what the long way gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import orjson

from steelyard.api import schemas
from steelyard.frozen import frozen
from steelyard.kube.resources import Resource
from steelyard.kube.server.space.premade import Premade
from steelyard.settings import Platform

TABLE: Final = Path(__file__).with_name("founding.txt")
DOMAIN: Final = "domain.invalid"
"""Stands for the platform's domain in the table; it is no domain of anybody's."""
ROLES: Final = "roles"
KINDS: Final = "kinds"
LIFECYCLE: Final = "lifecycle"
GUARDS: Final = "guards"
_WITHOUT_GUARDS: Final = ("domain", "simulated", "limits", "audit")
"""Settings that no policy is made from, but for the domain, which the table leaves open."""


def of_provider(name: str) -> str:
    """The group of what a provider of this version defines."""
    return f"provider/{name}"


@frozen
class Founding:
    claims: tuple[Resource, ...]
    """The kinds of claims."""
    groups: Mapping[str, tuple[Premade, ...]]

    def of(self, names: Iterable[str]) -> list[Premade]:
        return [each for name in names for each in self.groups.get(name, ())]


def read(domain: str) -> Founding | None:
    """None where the table is not that of these sources."""
    if not TABLE.is_file():
        return None
    groups: dict[str, tuple[Premade, ...]] = {}
    with TABLE.open("rb") as file:
        if next(file).strip().decode() != schemas.fingerprint():
            return None
        # One by one: together they are large.
        claims, *lines = (line.rstrip().replace(DOMAIN.encode(), domain.encode()) for line in file)
    for line in lines:
        group, place, text = line.split(b" ", 2)
        name = group.decode()
        groups[name] = (*groups.get(name, ()), Premade(place.decode(), text))
    return Founding(tuple(Resource(*each) for each in orjson.loads(claims)), groups)


def text(claims: Iterable[Resource], groups: Mapping[str, Iterable[Premade]]) -> str:
    """The content of the table, for these."""
    kinds = [(each.group, each.version, each.plural, each.kind) for each in claims]
    lines = [f"{name} {each.place} {each.text.decode()}" for name, premade in groups.items() for each in premade]
    return "\n".join((schemas.fingerprint(), orjson.dumps(kinds).decode(), *lines)) + "\n"


def has_guards_of(platform: Platform) -> bool:
    """Whether the policies of the table are those of a platform with these settings."""
    open_ = {name: getattr(platform, name) for name in _WITHOUT_GUARDS}
    return platform == Platform.known().model_copy(update=open_)
