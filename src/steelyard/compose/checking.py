"""What is wrong with a claim that no API server has seen: what one would refuse, judged by the same schema and rules.

The definition of the kind is what decides here as there, so that a claim in Git gets the same answers as one that is
applied; and the shipped policies are asked as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from steelyard.api import crd
from steelyard.compose import guarding, shipped
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import NOTHING
from steelyard.compose.offering import STANDARD, Offering
from steelyard.kube import objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, parse, prune, validate
from steelyard.kube.schema.model import Schema
from steelyard.settings import Platform
from steelyard.settings.problems import nearest

Check: TypeAlias = Callable[[Object], list[str]]


def of(kind: ClaimKind, platform: Platform, offered: Offering = STANDARD) -> Check:
    """A function from a claim of the kind, as a new one, to everything that is wrong with it, each with its field.
    Made once and used for many: it compiles the definition and the policies.
    """
    definition = kind.definition(platform.domain)
    served, document = definition.resource.api_version, crd.object_schema(definition)
    schema = parse.from_openapi(document)
    validate.prepare(schema)
    refused = guarding.judge(shipped.guards(platform, offered), definition.resource)

    def problems(claim: Object) -> list[str]:
        checked = objects.copy({key: value for key, value in claim.items() if key != "status"})
        found: list[str] = []
        if claim.get("apiVersion") != served:
            found.append(
                f"apiVersion: {claim.get('apiVersion')} is not this platform's; write {served}, or set the domain in "
                "the platform file"
            )
        found += [_unknown(field, _beside(document, field)) for field in prune.prune(schema, checked)]
        default.apply_defaults(schema, checked)
        causes, sound = _judged(schema, checked)
        found += [_told(cause.field, cause.message) for cause in causes]
        found += refused(sound)
        return found or _not_composed(kind, checked, platform)

    return problems


def _judged(schema: Schema, claim: Object) -> tuple[list[Cause], Object]:
    """What is wrong, and the claim without it. A server asks rules and policies only about what fits the definition
    otherwise; here they are asked about the rest of it, so that everything is told at once."""
    first = validate.validate(schema, claim)
    sound = objects.copy(claim)
    dropped = {cause.field for cause in first if _dropped(sound, cause.field)}
    if not dropped:
        return first, claim
    again = [cause for cause in validate.validate(schema, sound) if cause.field not in dropped]
    known = {(cause.field, cause.message) for cause in again}
    told = [cause for cause in first if cause.field in dropped or (cause.field, cause.message) in known]
    return [*told, *(cause for cause in again if cause not in told)], sound


def _dropped(claim: Object, field: str) -> bool:
    """Takes a field out, in place; a list as a whole, if an item of it is wrong as such."""
    place: Any = claim
    steps = re.findall(r"[^.\[\]]+", re.sub(r"\[\d+\]$", "", field))
    for step in steps[:-1]:
        place = _within(place, step)
    if not isinstance(place, dict) or not steps or steps[-1] not in place:
        return False
    del place[steps[-1]]
    return True


def _within(place: Any, step: str) -> Any:
    if isinstance(place, list):
        items = cast("list[Any]", place)
        return items[int(step)] if step.isdecimal() and int(step) < len(items) else None
    return cast("dict[str, Any]", place).get(step) if isinstance(place, dict) else None


def _not_composed(kind: ClaimKind, claim: Object, platform: Platform) -> list[str]:
    """What composition would say of it: it knows what no rule can ask for, such as the environment's own sizes."""
    refusal = kind.compose(claim, NOTHING, platform).refusal
    return [refusal.message] if refusal is not None else []


def _told(field: str, message: str) -> str:
    where = field.removeprefix(".").removeprefix("<nil>")
    return f"{where}: {message}" if where else message


def _unknown(field: str, known: list[str]) -> str:
    meant = nearest(field.rpartition(".")[2], known)
    return f"{field}: unknown field" + (f"; did you mean {meant}?" if meant else "")


def _beside(schema: Object, field: str) -> list[str]:
    """The fields that there are where the unknown one stands."""
    for step in field.split(".")[:-1]:
        schema = objects.mapping(objects.mapping(schema.get("properties")).get(step.partition("[")[0]))
        schema = objects.mapping(schema.get("items")) if "[" in step else schema
    return list(objects.mapping(schema.get("properties")))
