"""Databases that begin with somebody's data: whose, by what right, and how each copy is filled.

    cloneFrom: {name: shop, namespace: production}   ->   a DatabaseCopy from production/shop's database, masked by the
                                                          rules that production/shop has

The rules belong to the data: they are taken from the other claim, never from this one. Everything about the other claim
is derived from what it is, not read from its status: who may write a status there must not have somebody else's
database copied. A copy that is complete is left as it is, whatever becomes of its source. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pydantic

from steelyard.api import postgresql
from steelyard.api.crossplane import DATABASES
from steelyard.api.databases import BACKUPS, COPIES
from steelyard.api.postgresql import SOURCE, PostgreSQLInstanceSpec
from steelyard.compose import names
from steelyard.compose.composed import Observed, Requirement
from steelyard.compose.postgresqlinstance import generations, naming
from steelyard.compose.postgresqlinstance.naming import Names
from steelyard.compose.refusing import Refused
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.masking.rules import MaskingRules
from steelyard.settings import Platform

_FIRST_REVISION: Final = "v1"
_CLAIM: Final = "source"
_DATABASE: Final = "source-database"
_BACKUP: Final = "source-backup"
_SHOWN: Final = 3
DONE: Final = "Done"
_FAILED: Final = ("Refused", "Failed")


@frozen
class Wanted:
    """What the claim says of whose data it begins with."""

    namespace: str
    name: str
    backup: str = ""
    is_masked: bool = True
    is_granted: bool = False
    """By the platform file: the author needs no right of their own."""

    @property
    def told(self) -> str:
        what = (
            f"backup {self.backup} of {self.namespace}/{self.name}" if self.backup else f"{self.namespace}/{self.name}"
        )
        return f"masked copy of {what}" if self.is_masked else f"copy of {what}"


@frozen
class Filling:
    """How a copy is filled, as far as that can be said."""

    spec: Object | None
    """Of a DatabaseCopy: source and masking."""
    problem: str = ""


def wanted(claim: Object, spec: PostgreSQLInstanceSpec, platform: Platform) -> Wanted | None:
    """None for a database that begins empty. The field counts before the documents' annotation."""
    home, asked = objects.namespace(claim), spec.parameters.clone_from
    if asked is not None:
        namespace, is_masked = asked.namespace or home, asked.anonymise is not False
        is_granted = is_masked and platform.postgresql.may_clone(home, namespace)
        return Wanted(namespace, asked.name, asked.backup or "", is_masked, is_granted)
    known = platform.postgresql.sources.get(objects.annotations(claim).get(SOURCE, ""))
    return Wanted(known.namespace, known.name, is_granted=True) if known is not None else None


def requirements(
    wanted: Wanted | None, named: Names, known: tuple[int, ...], observed: Observed, platform: Platform
) -> dict[str, Requirement]:
    """What must be looked up: the copies that there are, the claim that the data is of, and what that has."""
    found = {
        _copy_of(each): Requirement(COPIES, "", naming.of_object(naming.clone(named, each))) for each in known if each
    }
    if wanted is None:
        return found
    found[_CLAIM] = Requirement(postgresql.resource(platform.domain), wanted.namespace, wanted.name)
    source = observed.one(_CLAIM)
    if source is not None:
        try:
            database, base = database_of(source, platform)
        except Refused:
            return found
        found[_DATABASE] = Requirement(DATABASES, "", naming.of_object(database))
        if wanted.backup:
            found[_BACKUP] = Requirement(BACKUPS, "", naming.of_object(base))
    return found


def copies(claim: Object, known: tuple[int, ...], observed: Observed) -> dict[int, Object]:
    """The DatabaseCopies that are there and the claim's."""
    found = ((each, observed.one(_copy_of(each))) for each in known if each)
    labels = names.claim_labels(claim)
    return {each: obj for each, obj in found if obj is not None and objects.matches(labels, obj)}


def filled(here: Mapping[int, Object]) -> frozenset[int]:
    return frozenset(each for each, obj in here.items() if _phase(obj) == DONE)


def has_failed(copy: Object | None) -> bool:
    return copy is not None and _phase(copy) in _FAILED


def told(copy: Object | None) -> str:
    """How far one is, in words."""
    if copy is None:
        return "the copy has not begun"
    phase = _phase(copy)
    problems = [str(each) for each in objects.sequence(objects.at(copy, "status", "problems"))]
    if phase in _FAILED:
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        why = f": {'; '.join(problems[:_SHOWN])}{more}" if problems else ""
        return f"the copy was refused{why}" if phase == "Refused" else f"the copy failed{why}"
    words = {"Copying": "the copy is being filled", "Scanning": "the copy is being looked through for what must not be"}
    return words.get(phase, "the copy has not begun")


def data_of(copy: Object | None) -> str:
    return str(objects.at(copy or {}, "status", "snapshotAt") or "")


def filling(wanted: Wanted | None, existing: Object | None, observed: Observed, platform: Platform) -> Filling:
    """What is complete or cannot be said anew stays as it is."""
    as_it_is = _as_it_is(existing)
    if as_it_is is not None and (existing is None or _phase(existing) == DONE or wanted is None):
        return Filling(as_it_is)
    if wanted is None:
        return Filling(None, "the claim does not say whose data it is to have")
    spec, problem = _from(wanted, observed, platform)
    return Filling(spec if spec is not None else as_it_is, problem)


def _from(wanted: Wanted, observed: Observed, platform: Platform) -> tuple[Object | None, str]:
    source, place = observed.one(_CLAIM), f"{wanted.namespace}/{wanted.name}"
    if source is None or objects.is_being_deleted(source):
        return None, f"waiting for the database {place}, whose data it is to have: there is no such claim"
    try:
        database, _ = database_of(source, platform)
    except Refused as refused:
        return None, f"the database {place} cannot be copied: {refused.message}"
    labels = names.claim_labels(source)
    made = observed.one(_BACKUP if wanted.backup else _DATABASE)
    if made is None or not objects.matches(labels, made):
        what = "has no backups" if wanted.backup else "is not there yet"
        return None, f"waiting for the database {place}: it {what}"
    if wanted.backup:
        known = {
            str(objects.mapping(each).get("name")) for each in objects.sequence(objects.at(made, "status", "dumps"))
        }
        if wanted.backup not in known:
            return None, f"the database {place} has no backup {wanted.backup}"
        return {"source": {"dump": {"backup": objects.name(made), "name": wanted.backup}}}, ""
    config = str(objects.at(made, "spec", "providerConfigRef", "name") or "")
    spec: Object = {"source": {"providerConfigRef": {"name": config}, "database": database}}
    if wanted.is_masked:
        spec["masking"] = _rules(source)
    return spec, ""


def _rules(source: Object) -> Object:
    """Of the claim whose data it is. Where there are none every column is refused, and named."""
    try:
        rules = MaskingRules.model_validate(objects.at(source, "spec", "parameters", "masking") or {})
    except pydantic.ValidationError:
        rules = MaskingRules()
    return rules.to_json()


def database_of(source: Object, platform: Platform) -> tuple[str, str]:
    """The name on the server of the database that a claim has in use, and the one that all its names begin with."""
    environment = platform.environment_name(str(objects.at(source, "spec", "parameters", "environment") or ""))
    if not environment:
        raise Refused("EnvironmentNotAvailable", "the platform file does not have its environment")
    revision = objects.at(source, "status", "compositionRevision")
    named = naming.of(source, platform, environment, has_generations=revision != _FIRST_REVISION)
    clone = objects.at(source, "status", "clone")
    active = generations.recorded(objects.mapping(clone)) if clone is not None else None
    if active is not None and not active.active:
        raise Refused("NotReady", "it is a copy that is not complete yet")
    return naming.clone(named, active.active if active is not None else 0), named.database


def _as_it_is(copy: Object | None) -> Object | None:
    if copy is None:
        return None
    spec = objects.mapping(copy.get("spec"))
    return {key: spec[key] for key in ("source", "masking", "keySecretRef") if key in spec}


def _phase(copy: Object) -> str:
    return str(objects.at(copy, "status", "phase") or "")


def _copy_of(generation: int) -> str:
    return f"copy-c{generation}"
