"""Plays the definitions and their objects against both servers.

Definitions are installed first, all of them: upstream answers the first creates of a new kind two seconds late. Then
each kind is a sequence like those of the corpus. Two orders are not compared, because upstream gives another one each
time: that of the causes of one refusal, since it goes through a schema in the random order of Go's maps, and that of
the conditions of a definition, which controllers write that do not wait for each other.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import aiohttp

from steelyard.kube import objects
from tests.conformance import compare, replay
from tests.conformance.compare import Outcome
from tests.conformance.corpus import Sequence
from tests.conformance.replay import Exchange, Server
from tests.conformance.sharedcrds import breaking, generate
from tests.conformance.sharedcrds.breaking import Broken
from tests.conformance.sharedcrds.definitions import Definition

BULLET: Final = "shared-crds"
_AT_ONCE: Final = 8
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Case:
    """A definition, a valid object of its kind and three broken ones."""

    definition: Definition
    valid: objects.Object
    broken: tuple[Broken, ...]


def case(definition: Definition, seed: int) -> Case:
    """The same for the same seed. Raises CannotGenerate."""
    random = Random(f"{seed}/{definition.name}")
    valid = generate.valid(definition, random)
    return Case(definition, valid, tuple(breaking.broken(definition, valid, random)))


def install(definitions: Many[Definition]) -> Sequence:
    """One after the other; several of these are played at once."""
    steps = tuple({"do": f"POST {_CRDS}", "body": each.object} for each in definitions)
    return _sequence(definitions[0], "definition", steps)


def objects_of(case: Case) -> Sequence:
    definition = case.definition
    path = definition.path("$NS")
    steps: list[dict[str, Any]] = [
        {"do": f"GET {_CRDS}/{definition.name}", "until": {"at": "status.conditions.Established.status", "is": "True"}},
        {"do": f"GET {path}", "until": {"code": 200}},
        {"do": f"POST {path}", "body": case.valid},
        *({"do": f"POST {path}", "body": each.object} for each in case.broken),
    ]
    return _sequence(definition, "objects", tuple(steps))


def _sequence(definition: Definition, part: str, steps: tuple[dict[str, Any], ...]) -> Sequence:
    """In a namespace of its own; the names of some definitions are too long to be part of its name."""
    digest = hashlib.sha256(f"{definition.name} {part}".encode()).hexdigest()[:12]
    variables = {"NS": f"{part}-{digest}"}
    return Sequence(BULLET, definition.name, steps, source=definition.file.parent.name, variables=variables)


async def outcomes(
    http: aiohttp.ClientSession, upstream: Server, ours: Server, definitions: Iterable[Definition], seed: int
) -> list[Outcome]:
    """One per definition: of its own answer, and of those about its objects where it was accepted."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def both(sequence: Sequence) -> tuple[list[Exchange], list[Exchange]]:
        async with limit:
            theirs, mine = await asyncio.gather(
                replay.play(http, upstream, sequence), replay.play(http, ours, sequence)
            )
        return theirs, mine

    chosen = list(definitions)
    groups = [group for group in (chosen[start::_AT_ONCE] for start in range(_AT_ONCE)) if group]
    played = await asyncio.gather(*(both(install(group)) for group in groups))
    installed = [
        (definition, theirs, mine)
        for group, answers in zip(groups, played, strict=True)
        for definition, theirs, mine in zip(group, *answers, strict=True)
    ]

    async def one(definition: Definition, theirs: Exchange, mine: Exchange) -> Outcome:
        refused = compare.compare(install([definition]), *_judged([theirs], [mine]))
        if refused.differences or theirs.code != 201:
            return replace(refused, sequence=replace(refused.sequence, invalid=True))
        try:
            made = await asyncio.to_thread(case, definition, seed)
            sequence = objects_of(made)
            return compare.compare(sequence, *_judged(*await both(sequence)))
        except (generate.CannotGenerate, replay.DidNotHappen) as error:
            return Outcome(Sequence(BULLET, definition.name, ()), (f"{type(error).__name__}: {error}",))

    return await asyncio.gather(*(one(*each) for each in installed))


def summary(outcomes: Iterable[Outcome]) -> str:
    """What was compared, in numbers."""
    listed = list(outcomes)
    served = sum(not each.sequence.invalid for each in listed)
    differing = sum(not each.passed for each in listed)
    told = "all the same" if not differing else f"{differing} differ"
    refused = len(listed) - served
    return (
        f"{len(listed)} definitions, {refused} refused; {served} kinds, {served} valid and {3 * served} broken: {told}"
    )


def _judged(theirs: list[Exchange], mine: list[Exchange]) -> tuple[list[Exchange], list[Exchange]]:
    pairs = [_without_equal_spec(_in_order(left), _in_order(right)) for left, right in zip(theirs, mine, strict=True)]
    return [left for left, _ in pairs], [right for _, right in pairs]


def _without_equal_spec(left: Exchange, right: Exchange) -> tuple[Exchange, Exchange]:
    """Definitions are large; what is the same to the letter need not be looked at word by word."""
    specs = [objects.at(each.body, "spec") for each in (left, right)]
    if objects.at(left.body, "kind") != "CustomResourceDefinition" or specs[0] != specs[1]:
        return left, right
    return replace(left, body={**left.body, "spec": None}), replace(right, body={**right.body, "spec": None})


def _in_order(answer: Exchange) -> Exchange:
    """Causes sorted, and the message that repeats them cut off before them; conditions sorted."""
    body = objects.mapping(answer.body)
    causes = objects.sequence(objects.at(body, "details", "causes"))
    if body.get("kind") == "CustomResourceDefinition":
        conditions = objects.sequence(objects.at(body, "status", "conditions"))
        ordered = sorted(conditions, key=lambda condition: str(condition["type"])) or None
        return replace(answer, body={**body, "status": {**body["status"], "conditions": ordered}})
    if len(causes) < 2:
        return answer
    ordered = sorted(causes, key=lambda cause: sorted(cause.items()))
    message = str(body.get("message")).partition(" is invalid: ")[0]
    return replace(answer, body={**body, "message": message, "details": {**body["details"], "causes": ordered}})
