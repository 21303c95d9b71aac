"""The subject `composed`: what becomes of every claim, handed to servers with the definitions of those who read it.

Each object of every golden case, of every claim that the documents print and of the examples is applied by a dry run
that takes no unknown field; and each claim itself, where the definitions and policies that ship are in force. Both
servers must accept all of it, and answer the same.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import replace
from typing import Any, Final

import aiohttp

from steelyard import settings
from steelyard.compose import offering, shipped
from steelyard.compose.offering import STANDARD
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from tests.compose import printed
from tests.compose import upstream as definitions
from tests.compose.rendered import Rendered
from tests.conformance import compare, replay
from tests.conformance.compare import Outcome
from tests.conformance.corpus import Sequence
from tests.conformance.replay import Exchange, Server
from tests.conformance.sharedcrds import definitions as shared

BULLET: Final = "composed"
_AT_ONCE: Final = 4
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_DRY_RUN: Final = "dryRun=All&force=true&fieldManager=steelyard&fieldValidation=Strict"
_PLATFORM: Final = """
connectionSecrets: {grants: [{claimsIn: ["*"], secretsTo: [argocd, vault]}]}
networks: {apiEndpoints: [{claimsIn: ["*"], hosts: ["*.example.org"]}]}
postgresql: {clones: [{claimsIn: ["*"], of: [production]}]}
"""
"""What the claims need of a platform file: Secrets are written where others look for them, one says where it is, and
one is a copy of what is elsewhere."""
_IS_THERE: Final = (201, 409)
_GIVEN_OUT: Final = ["spec.clusterIP", "spec.clusterIPs", "spec.ports"]
"""Of a Service: what each server takes from pools of its own, and the ports with it."""


def install(everything: Many[Rendered]) -> Sequence:
    """Namespaces, and the definitions of every kind that is composed; another subject may have installed some."""
    foreign = {part.resource for each in everything for part in each.parts}
    files = {each.name: each for each in shared.load()}
    steps: list[dict[str, Any]] = [{"do": "POST $NSS", "body": _namespace(name)} for name in _namespaces(everything)]
    steps += ({"do": f"POST {_CRDS}", "body": files[name].object} for name in _names(foreign) if name in files)
    steps += ({"do": f"POST {_CRDS}", "body": each} for each in definitions.of_providers())
    for domain in _domains(everything):
        platform = settings.parse(f"domain: {domain}\n{_PLATFORM}")
        steps += ({"do": f"POST {_CRDS}", "body": each} for each in shipped.definitions(platform, STANDARD))
        for policy, binding in shipped.guards(platform, offering.STANDARD):
            steps.append({"do": f"POST {_ADMISSION}/validatingadmissionpolicies", "body": policy})
            steps.append({"do": f"POST {_ADMISSION}/validatingadmissionpolicybindings", "body": binding})
    return _sequence("install", tuple(steps))


def served(everything: Many[Rendered]) -> Sequence:
    """Until the definitions are in effect: upstream needs a moment."""
    composed = {part.resource for each in everything for part in each.parts}
    claims = {_claims(each.claim) for each in everything}
    paths = sorted(each.path("default") for each in composed | claims)
    return _sequence("served", tuple({"do": f"GET {path}", "until": {"code": 200}, "pick": ["kind"]} for path in paths))


def sequence_of(each: Rendered) -> Sequence:
    """The claim, as it is printed, and what becomes of it."""
    steps = [_applied(_claims(each.claim), _as_written(each.claim))]
    steps += (_applied(part.resource, part.object) for part in each.parts)
    return _sequence(each.title, tuple(steps))


def _claims(claim: Object) -> Resource:
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    return kind.resource(printed.domain_of(claim))


def _applied(resource: Resource, obj: Object) -> dict[str, Any]:
    path = resource.path(objects.namespace(obj), objects.name(obj))
    step = {"do": f"PATCH {path}?{_DRY_RUN}", "as": "apply", "body": obj}
    return {**step, "drop": _GIVEN_OUT} if resource.kind == "Service" else step


def _as_written(claim: Object) -> Object:
    """Without what only a stored claim has."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: value for key, value in objects.metadata(claim).items() if key in kept}
    return {**{key: value for key, value in claim.items() if key != "status"}, "metadata": metadata}


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _namespaces(everything: Iterable[Rendered]) -> list[str]:
    found = {objects.namespace(part.object) for each in everything for part in each.parts}
    return sorted((found | {objects.namespace(each.claim) for each in everything}) - {""})


def _names(resources: Iterable[Resource]) -> list[str]:
    return sorted({each.group_resource for each in resources})


def _domains(everything: Iterable[Rendered]) -> list[str]:
    return sorted({printed.domain_of(each.claim) for each in everything})


def _sequence(title: str, steps: tuple[dict[str, Any], ...]) -> Sequence:
    digest = hashlib.sha256(title.encode()).hexdigest()[:12]
    return Sequence(BULLET, title, steps, source="what is composed", variables={"NS": f"composed-{digest}"})


async def outcomes(
    http: aiohttp.ClientSession, upstream: Server, ours: Server, everything: Many[Rendered]
) -> list[Outcome]:
    """One for each claim."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def both(sequence: Sequence) -> tuple[list[Exchange], list[Exchange]]:
        async with limit:
            theirs, mine = await asyncio.gather(
                replay.play(http, upstream, sequence), replay.play(http, ours, sequence)
            )
        return theirs, mine

    installed = await both(install(everything))
    problems = [
        _told(server.name, answer)
        for server, answers in zip((upstream, ours), installed, strict=True)
        for answer in answers
        if answer.code not in _IS_THERE
    ]
    if problems:
        return [Outcome(_sequence("install", ()), tuple(problems))]
    await both(served(everything))

    async def one(each: Rendered) -> Outcome:
        sequence = sequence_of(each)
        theirs, mine = await both(sequence)
        refused = (
            *(_told(upstream.name, answer) for answer in theirs if answer.code not in (200, 201)),
            *(_told(ours.name, answer) for answer in mine if answer.code not in (200, 201)),
        )
        compared = compare.compare(sequence, theirs, mine)
        return replace(compared, differences=(*refused, *compared.differences))

    return await asyncio.gather(*map(one, everything))


def _told(server: str, answer: Exchange) -> str:
    return f"{server}: {answer.step.partition('?')[0]}: {answer.code}: {objects.at(answer.body, 'message')}"


def summary(found: Iterable[Outcome], everything: Iterable[Rendered]) -> str:
    """What was accepted, in numbers."""
    listed = list(everything)
    parts = [part for each in listed for part in each.parts]
    refused = sum(not each.passed for each in found)
    told = "all accepted" if not refused else f"{refused} not accepted, or not alike"
    return f"{len(listed)} claims, {len(parts)} objects of {len({each.resource for each in parts})} kinds: {told}"
