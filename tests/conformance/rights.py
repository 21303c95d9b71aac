"""The subject `rights`: what a claim may point at, by the policies that ship, on kube-apiserver as on our own server.

The table is that of `tests/api/references.py`. Each reference is tried by a tenant with rights in one namespace, and by
a service account that may do everything and is declared to act for others: with a new claim, and with a change of one
that was accepted. All must be refused for the reason that the table gives, and answered alike.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import aiohttp

from steelyard import settings
from steelyard.api import authors
from steelyard.compose import offering, shipped
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.api import references
from tests.api.references import ROBOT, TENANT, Attempt
from tests.conformance import compare, replay
from tests.conformance.compare import Outcome
from tests.conformance.corpus import Sequence
from tests.conformance.replay import Exchange, Server

BULLET: Final = "rights"
DOMAIN: Final = "rights.example.com"
"""Claims of its own, so that no other subject's policies are asked."""
_AT_ONCE: Final = 6
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_GROUP: Final = "rbac.authorization.k8s.io"
_ACCOUNT: Final = "/api/v1/namespaces/argocd/serviceaccounts"
_GROUPS: Final[Mapping[str, str]] = {
    TENANT: "system:authenticated",
    ROBOT: "system:serviceaccounts\nsystem:serviceaccounts:argocd\nsystem:authenticated",
}
_IS_THERE: Final = (201, 409)


def install() -> Sequence:
    """The definitions and policies that ship, and who may do what everywhere."""
    platform = settings.parse(f"domain: {DOMAIN}\n{references.PLATFORM}")
    groups = sorted({kind.resource(DOMAIN).group for kind in offering.STANDARD.kinds})
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    role: Object = {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": DOMAIN}, "rules": rules}
    robot = {"kind": "ServiceAccount", "namespace": "argocd", "name": "controller"}
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "controller"}}
    steps: list[dict[str, Any]] = [
        {"do": f"POST {_CRDS}", "body": each} for each in shipped.definitions(platform, offering.STANDARD)
    ]
    for policy, binding in shipped.guards(platform, offering.STANDARD):
        steps.append({"do": f"POST {_ADMISSION}/validatingadmissionpolicies", "body": policy})
        steps.append({"do": f"POST {_ADMISSION}/validatingadmissionpolicybindings", "body": binding})
    steps += [
        {"do": "POST $NSS", "body": {"$": "ns", "metadata": {"name": "argocd"}}},
        {"do": f"POST {_ACCOUNT}", "body": account},
        {"do": f"POST {_RBAC}/clusterroles", "body": role},
        {"do": f"POST {_RBAC}/clusterrolebindings", "body": _binding("cluster-admin", robot)},
    ]
    return _sequence("install", tuple(steps))


def sequence_of(attempt: Attempt, user: str) -> Sequence:
    """The steps that matter are the last four: the tenant's own, and three ways to reach for somebody else's."""
    resource, asked = attempt.kind.resource(DOMAIN), attempt.reference
    path = resource.path("$NS")
    tenant = {"apiGroup": _GROUP, "kind": "User", "name": TENANT}
    signed = _signed(user, asked.foreign)
    # Who is honest says who they are, as the policy asks on kube-apiserver: then it is their rights that are missing.
    foreign = {**signed, **asked.foreign}
    theirs = attempt.claim("foreign", foreign, DOMAIN)
    change = references.with_values({}, foreign)
    caller: dict[str, Any] = {"headers": {"Authorization": "Bearer $TOKEN"}} if user == ROBOT else {"by": TENANT}
    requested: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    steps: tuple[dict[str, Any], ...] = (
        {"do": "POST $NSS", "body": {"$": "ns", "metadata": {"name": "$OTHER"}}, "pick": ["kind"]},
        *(
            {"do": f"POST {_RBAC}/namespaces/$NS/rolebindings", "body": _binding(name, tenant), "pick": ["kind"]}
            for name in (DOMAIN, "edit")
        ),
        {"do": f"POST {_ACCOUNT}/controller/token", "body": requested, "save": {"TOKEN": "status.token"}}
        | {"pick": ["kind"]},
        {"do": f"GET {path}", **caller, "until": {"code": 200}, "pick": ["kind"]},
        {"do": f"POST {path}?dryRun=All", **caller, "body": theirs, "pick": ["kind"]}
        | {"until": {"has": attempt.said_to(user)}},
        {"do": f"POST {path}", **caller, "body": attempt.claim("own", asked.own, DOMAIN)},
        {"do": f"POST {path}", **caller, "body": theirs},
        {"do": f"PATCH {path}/foreign?fieldManager=test", "as": "apply", **caller, "body": theirs},
        {"do": f"PATCH {path}/own", "as": "merge", **caller, "body": change},
    )
    return _sequence(f"{attempt.title}, by {'a robot' if user == ROBOT else 'a tenant'}", steps)


_SIGNED: Final[Mapping[str, tuple[str, str]]] = {
    "spec.writeConnectionSecretToRef.namespace": (authors.AUTHOR, authors.GROUPS),
    "spec.parameters.cloneFrom.namespace": (authors.CLONE_AUTHOR, authors.CLONE_GROUPS),
    "spec.parameters.deliverTo[].clusterNamespace": (authors.DELIVERY_AUTHOR, authors.DELIVERY_GROUPS),
}
"""Fields that point out of the namespace, and the annotations that say who wrote each."""


def _signed(user: str, values: Mapping[str, str]) -> dict[str, str]:
    return {
        f"metadata.annotations.{key}": said
        for field, (author, groups) in _SIGNED.items()
        if field in values
        for key, said in ((author, user), (groups, _GROUPS[user]))
    }


def _binding(role: str, subject: Object) -> Object:
    is_everywhere = subject["kind"] == "ServiceAccount"
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding" if is_everywhere else "RoleBinding",
        "metadata": {"name": f"{DOMAIN}-{role}"},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def _sequence(title: str, steps: tuple[dict[str, Any], ...]) -> Sequence:
    digest = hashlib.sha256(title.encode()).hexdigest()[:12]
    variables = {"NS": f"rights-{digest}", "OTHER": f"rights-{digest}-b"}
    return Sequence(BULLET, title, steps, invalid=bool(steps), source="tests/api/references.py", variables=variables)


def problems(attempt: Attempt, user: str, server: str, answers: list[Exchange]) -> list[str]:
    """What was accepted that must not be, or refused for another reason; and the other way around."""
    own, *foreign = answers[-4:]
    found = [] if own.code == 201 else [f"{server}: {own.step}: the tenant's own: {own.code} {_message(own)}"]
    for answer in foreign:
        said = attempt.said_to(user, later=answer is foreign[-1])
        if answer.code not in (403, 422) or said not in _message(answer):
            found.append(f"{server}: {answer.step}: {answer.code} {_message(answer)}, not {said}")
    return found


def _message(answer: Exchange) -> str:
    return str(objects.at(answer.body, "message") or "")


async def outcomes(
    http: aiohttp.ClientSession, upstream: Server, ours: Server, attempts: Iterable[Attempt]
) -> list[Outcome]:
    """One for each reference of each kind, and for each of the two who try it."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def both(sequence: Sequence) -> tuple[list[Exchange], list[Exchange]]:
        async with limit:
            theirs, mine = await asyncio.gather(
                replay.play(http, upstream, sequence), replay.play(http, ours, sequence)
            )
        return theirs, mine

    async def one(attempt: Attempt, user: str) -> Outcome:
        sequence = sequence_of(attempt, user)
        try:
            theirs, mine = await both(sequence)
        except replay.DidNotHappen as error:
            return Outcome(sequence, (str(error),))
        found = (
            *problems(attempt, user, upstream.name, theirs),
            *problems(attempt, user, ours.name, mine),
        )
        compared = compare.compare(sequence, theirs, mine)
        return replace(compared, differences=(*found, *compared.differences))

    installed = await both(install())
    refused = [
        f"{answer.step}: {answer.code} {_message(answer)}"
        for answers in installed
        for answer in answers
        if answer.code not in _IS_THERE
    ]
    if refused:
        return [Outcome(_sequence("install", ()), tuple(refused))]
    return await asyncio.gather(*(one(attempt, user) for attempt in attempts for user in (TENANT, ROBOT)))


def summary(found: Iterable[Outcome]) -> str:
    listed = list(found)
    accepted = sum(not each.passed for each in listed)
    told = "all refused" if not accepted else f"{accepted} not refused, or not alike"
    return f"{len(listed)} attempts, three ways each: {told}"
