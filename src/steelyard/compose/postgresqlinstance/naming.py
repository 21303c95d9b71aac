"""What a claim's database is called on the server, and what the objects are called that stand for it.

    team-a/shop in dev                       ->   dev_team_a_shop_8a1f0c52d3
    crossplane.io/external-name: dev-shop    ->   dev-shop

The digits are of the claim's namespace and name, so that no two claims come to the same name, however theirs are cut or
written. The name is kept once it is in use: another prefix in the platform file is for new claims, since another name
would be another, empty database.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api import externalnames
from steelyard.api.crossplane import EXTERNAL_NAME
from steelyard.api.dataservices import NAME_MAX
from steelyard.api.externalnames import DIGEST_LENGTH, OWNER
from steelyard.compose.refusing import Refused
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform

MOST_GENERATIONS: Final = 9999
"""Their digits fit behind the longest name; after the last comes the first, which is long gone by then."""


@frozen
class Names:
    database: str
    login: str
    owner: str


def of(claim: Object, platform: Platform, environment: str, *, has_generations: bool = False) -> Names:
    """`environment` by its own name, not by an alias. Raises `Refused` where the claim may not have the name that it
    gives."""
    recorded = _recorded(claim)
    if has_generations:
        recorded = re.sub(r"_c[0-9]{1,4}$", "", recorded)
    database = _external(claim, platform, environment, recorded, has_generations=has_generations) or _derived(
        claim, platform, environment, recorded
    )
    return Names(database, login=database, owner=f"{database}{OWNER}")


def login(named: Names, generation: int) -> str:
    """The first is called as the database, which is how all were once."""
    return named.login if generation == 1 else f"{named.database}_r{generation}"


def clone(named: Names, generation: int) -> str:
    """`dev_shop_c3`; without a generation the database that is no copy."""
    return f"{named.database}_c{generation}" if generation else named.database


def generation(name: str, base: str, letter: str) -> int | None:
    """Which one a name is of; None where it is none of the base's."""
    if name == base:
        return 1 if letter == "r" else 0
    found = re.fullmatch(rf"_{letter}([1-9][0-9]{{0,3}})", name.removeprefix(base)) if name.startswith(base) else None
    return int(found[1]) if found is not None else None


def of_object(name: str) -> str:
    """What the object is called that stands for a database or a role: `dev_shop` is `dev-shop-5b0e7a19`. One name on
    the server is one name in the API, and the API lets nobody have it twice."""
    return f"{name.replace('_', '-')}-{_digest(name)[:8]}"


def prefixes(platform: Platform, environment: str) -> tuple[str, ...]:
    """What names of databases there may begin with; the first is what derived ones do."""
    own = f"{environment.replace('-', '_')}_"
    if environment not in platform.environments:
        return (own, f"{environment}-")
    prefix = platform.environments[environment].database_prefix
    return tuple(dict.fromkeys((prefix, own, f"{environment}-")))


def all_prefixes(platform: Platform) -> Mapping[str, Sequence[str]]:
    """By every name that claims can have for an environment of the platform file."""
    named = {name: prefixes(platform, name) for name in platform.environments}
    aliases = {
        alias: named[name] for name, each in platform.environments.items() for alias in each.aliases if alias != name
    }
    return {**named, **aliases}


def _external(claim: Object, platform: Platform, environment: str, recorded: str, *, has_generations: bool) -> str:
    asked = objects.annotations(claim).get(EXTERNAL_NAME, "")
    is_another = bool(recorded) and asked != recorded and (bool(asked) or not _is_derived(claim, recorded))
    if is_another:
        raise Refused(
            "ExternalNameChanged",
            f"the claim's database is {recorded}, and the annotation {EXTERNAL_NAME} says {asked or 'nothing'}; a "
            f"database does not change its name. Put the annotation back as it was, or make another claim",
        )
    if not asked:
        return ""
    known = [prefix for each in all_prefixes(platform).values() for prefix in each]
    is_granted = platform.postgresql.grants(objects.namespace(claim), asked)
    own = prefixes(platform, environment)
    problem = externalnames.database_problem(asked, own, known, is_granted=is_granted, has_generations=has_generations)
    if problem:
        raise Refused(
            "ExternalNameForbidden",
            f"the annotation {EXTERNAL_NAME}: {asked[:100]}: {problem}. Make another claim, or have the name granted "
            f"to claims in {objects.namespace(claim)} (postgresql.externalNames in the platform file)",
        )
    return asked


def _derived(claim: Object, platform: Platform, environment: str, recorded: str) -> str:
    if recorded:
        return recorded
    prefix = prefixes(platform, environment)[0][:31]
    namespace, name = objects.namespace(claim), objects.name(claim)
    words = re.sub(r"[^a-z0-9]+", "_", name if namespace == environment else f"{namespace}_{name}")
    room = NAME_MAX - len(prefix) - DIGEST_LENGTH - 1
    return f"{prefix}{words[:room].strip('_')}_{digest_of(claim)}"


def _recorded(claim: Object) -> str:
    """Whoever may write the claim's status can have put it there: it counts for a name that is derived for this claim
    and no other, or against another one."""
    return str(objects.at(claim, "status", "database") or "")


def _is_derived(claim: Object, name: str) -> bool:
    is_sound = len(name) <= NAME_MAX and re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None
    return is_sound and name.endswith(f"_{digest_of(claim)}")


def digest_of(claim: Object) -> str:
    """Digits that no other claim has."""
    return _digest(f"{objects.namespace(claim)}/{objects.name(claim)}")[:DIGEST_LENGTH]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
