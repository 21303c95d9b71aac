"""Every claim for a database or a cache that the mission's documents print validates, composes, and becomes objects
that the programs for them accept: Crossplane's provider-sql and provider-helm, and External Secrets."""

from __future__ import annotations

import pytest

from steelyard.compose import checking, offering
from steelyard.compose.composed import Composed, Desired
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.compose import printed, rendered, upstream

every_printed = pytest.mark.parametrize("claim", printed.CLAIMS.values(), ids=printed.CLAIMS)


def whole(claim: Object) -> Composed:
    return rendered.in_full(claim, rendered.platform_of(claim))


@every_printed
def test_a_printed_claim_has_nothing_wrong_with_it_and_composes(claim: Object) -> None:
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    assert checking.of(kind, rendered.platform_of(claim))(claim) == []

    composed = whole(claim)
    assert composed.refusal is None
    assert "vault" in composed.desired
    assert ("connection" in composed.desired) is ("writeConnectionSecretToRef" in claim["spec"])


@upstream.needed
@every_printed
def test_what_becomes_of_a_printed_claim_passes_upstreams_schemas(claim: Object) -> None:
    foreign = [part for part in whole(claim).desired.values() if part.resource.group]

    assert foreign
    for part in foreign:
        assert problems(part) == []


@upstream.needed
@pytest.mark.parametrize(
    ("claim", "part", "path", "value"),
    [
        ("001 microservice", "database", ("spec", "forProvider", "conectionLimit"), 5),
        ("001 microservice", "access", ("spec", "forProvider", "privileges"), ["ALL PRIVILEGES!"]),
        ("003 dev cache", "release", ("spec", "forProvider", "wait"), "yes"),
        ("003 dev cache", "vault", ("spec", "deletionPolicy"), "Perhaps"),
    ],
    ids=["unknown field", "privilege", "type", "policy"],
)
def test_what_a_provider_would_refuse_is_noticed(claim: str, part: str, path: tuple[str, ...], value: object) -> None:
    found = whole(printed.CLAIMS[claim]).desired[part]
    spoilt = objects.copy(found.object)
    place = spoilt
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value

    assert problems(Desired(found.resource, spoilt))


def problems(part: Desired) -> list[str]:
    schema = upstream.schema_of(part.resource.group_resource, part.resource.version)
    return upstream.problems(schema, part.object)
