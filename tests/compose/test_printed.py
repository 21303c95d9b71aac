"""Every claim that the documents print, and every example, has nothing wrong with it, composes on each infrastructure,
and becomes objects that those who read them accept."""

from __future__ import annotations

import pytest

from steelyard.compose import checking, offering
from steelyard.compose.composed import Desired
from steelyard.kube.objects import Object
from tests.compose import documents, printed, rendered, upstream
from tests.compose.rendered import Subject
from tests.compose.test_data_schemas import problems

CLAIMS = rendered.claims()
OF_OURS = {"PostgreSQLAccess"}
"""Kinds that the documents do not have: they leave logins for a while to Vault."""
ON = [
    pytest.param(claim, infrastructure, id=f"{title} {infrastructure}".strip())
    for title, claim in CLAIMS.items()
    for infrastructure in rendered.infrastructures_of(title, claim)
]


@pytest.mark.parametrize(("claim", "infrastructure"), ON)
def test_a_printed_claim_has_nothing_wrong_with_it_and_composes(claim: Object, infrastructure: str) -> None:
    platform = rendered.platform_of(claim, infrastructure)
    kind = offering.STANDARD.kind_of(claim)
    assert kind is not None
    assert checking.of(kind, platform, offering.STANDARD)(claim) == []

    composed = rendered.in_full(claim, platform)
    assert composed.refusal is None
    assert composed.desired
    waits_for_another = claim["kind"] in OF_OURS or "cloneFrom" in claim["spec"]["parameters"]
    has_connection = "writeConnectionSecretToRef" in claim["spec"] and not waits_for_another
    assert ("connection" in composed.desired) is has_connection


@upstream.needed
@pytest.mark.parametrize("subject", list(rendered.everything()), ids=lambda subject: subject.title)
def test_what_becomes_of_it_passes_upstreams_schemas(subject: Subject) -> None:
    """What is brought into the cluster by it as well."""
    parts = [Desired(part.resource, part.object) for part in subject.render().parts]
    foreign = [
        part for part in parts if part.resource.group not in upstream.BUILT_IN and not upstream.is_ours(part.resource)
    ]

    assert foreign or all(upstream.is_ours(part.resource) for part in parts if part.resource.group)
    assert {part.object["metadata"]["name"]: found for part in foreign if (found := problems(part))} == {}


@documents.needed
def test_every_kind_of_claim_is_printed_somewhere_and_every_printed_claim_is_of_a_known_kind() -> None:
    offered = {kind.resource("").kind for kind in offering.STANDARD.kinds}
    unknown = {
        manifest.kind
        for manifest in documents.manifests()
        if str(manifest.object.get("apiVersion")).startswith(("compute.", "database.", "cache."))
        and offering.STANDARD.kind_of(manifest.object) is None
    }
    assert {str(claim["kind"]) for claim in documents.claims().values()} == offered - OF_OURS
    assert unknown == set()


@documents.needed
def test_the_claims_that_are_kept_for_want_of_the_documents_are_those_of_the_documents() -> None:
    kept = [(claim["apiVersion"], claim["metadata"], claim["spec"]) for claim in printed.EVERYTHING.values()]
    found = [(claim["apiVersion"], claim["metadata"], claim["spec"]) for claim in documents.claims().values()]
    assert [each for each in kept if each not in found] == []
    assert [each for each in found if each not in kept] == []
