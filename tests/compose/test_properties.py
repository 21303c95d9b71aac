"""What holds for every valid claim, of every kind, on every infrastructure, with and without integrations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.compose.composed import NOTHING, Composed, Desired, Observed, Requirement
from steelyard.kube import namerules, objectmeta, objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases, drawn, observing, upstream
from tests.soak import properties

FEW = settings(max_examples=properties.examples(6, cases=len(drawn.PLACES)))
everywhere = pytest.mark.parametrize(("kind", "infrastructure"), drawn.PLACES, ids=lambda each: each or "no-machines")
platforms = st.sampled_from(drawn.PLATFORMS)
NAME_RULES = {
    "Namespace": namerules.dns_label,
    "Service": namerules.dns1035_label,
    "Role": namerules.path_segment,
    "RoleBinding": namerules.path_segment,
}
"""Of kinds whose names are no subdomains of DNS."""


def in_full(claim: Object, platform: Platform, others: Sequence[Desired] = ()) -> tuple[Composed, Observed]:
    """With everything there that others bring about, and with what was made for other claims."""
    first = cases.compose(claim, NOTHING, platform)
    observed = observing.finished(claim, first)
    found = {name: found for name, each in first.requirements.items() if (found := matching(each, others))}
    observed = Observed(observed.resources, {**observed.required, **found})
    return cases.compose(claim, observed, platform), observed


def matching(requirement: Requirement, parts: Sequence[Desired]) -> list[Object]:
    def is_meant(obj: Object) -> bool:
        if requirement.name:
            return (objects.namespace(obj), objects.name(obj)) == (requirement.namespace, requirement.name)
        key, value = requirement.label
        is_there = requirement.namespace in ("", objects.namespace(obj))
        return is_there and objects.labels(obj).get(key) == value

    return [part.object for part in parts if part.resource == requirement.resource and is_meant(part.object)]


def valid(claim: Object, infrastructure: str, integrations: str) -> Platform:
    """The platform on which it is."""
    assert drawn.check(str(claim["kind"]), infrastructure, integrations)(claim) == []
    return drawn.platform(infrastructure, integrations)


def made(composed: Composed) -> dict[str, Object]:
    assert composed.refusal is None
    return {name: part.object for name, part in composed.desired.items()}


@everywhere
@FEW
@given(data=st.data(), integrations=platforms)
def test_composing_again_with_the_output_observed_changes_nothing(
    kind: str, infrastructure: str, data: st.DataObject, integrations: str
) -> None:
    claim = data.draw(drawn.claims(kind, infrastructure))
    platform = valid(claim, infrastructure, integrations)
    first, observed = in_full(claim, platform)
    assert cases.compose(objects.copy(claim), observed, platform) == first, "the same again"

    stored = {name: merged(obj, observed.resources.get(name, {})) for name, obj in made(first).items()}
    running = {**claim, "status": first.status}
    second = cases.compose(running, Observed({**observed.resources, **stored}, observed.required), platform)

    assert made(second) == made(first)
    assert second.status["parameters"] == first.status["parameters"]
    assert second.requirements.keys() <= first.requirements.keys()


def merged(one: Any, other: Any) -> Any:
    """What was applied, and what others have added."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    both = dict(cast(Object, one))
    for key, value in cast(Object, other).items():
        both[key] = merged(both[key], value) if key in both else value
    return both


@everywhere
@FEW
@given(data=st.data(), integrations=platforms)
def test_all_names_and_labels_are_valid(kind: str, infrastructure: str, data: st.DataObject, integrations: str) -> None:
    claim = data.draw(drawn.claims(kind, infrastructure))
    composed, _ = in_full(claim, valid(claim, infrastructure, integrations))

    assert made(composed)
    for part in composed.desired.values():
        rule = NAME_RULES.get(part.resource.kind, namerules.dns_subdomain)
        metadata, namespaced = objects.metadata(part.object), part.resource.namespaced
        assert objectmeta.validate_new(metadata, namespaced=namespaced, rule=rule) == []
        for found in labels_within(part.object):
            assert objectmeta.validate_labels(found, part.resource.kind) == []


def labels_within(value: Any) -> Iterator[Object]:
    """Of templates and selectors, too."""
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from labels_within(each)
    if isinstance(value, dict):
        for key, each in cast(Object, value).items():
            if key in ("labels", "matchLabels"):
                yield objects.mapping(each)
            else:
                yield from labels_within(each)


@everywhere
@FEW
@given(data=st.data(), integrations=platforms)
def test_the_status_is_one_that_the_definition_of_the_claim_has(
    kind: str, infrastructure: str, data: st.DataObject, integrations: str
) -> None:
    claim = data.draw(drawn.claims(kind, infrastructure))
    composed, _ = in_full(claim, valid(claim, infrastructure, integrations))

    resource = drawn.KINDS[kind].resource("pnats.cloud")
    schema = upstream.schema_of(resource.group_resource, resource.version)
    assert upstream.problems(schema, {**claim, "status": composed.status}) == []


@upstream.needed
@everywhere
@FEW
@given(data=st.data(), integrations=platforms)
def test_all_objects_are_valid_by_the_definitions_of_their_kinds(
    kind: str, infrastructure: str, data: st.DataObject, integrations: str
) -> None:
    claim = data.draw(drawn.claims(kind, infrastructure))
    composed, _ = in_full(claim, valid(claim, infrastructure, integrations))

    for part in composed.desired.values():
        if part.resource.group not in upstream.BUILT_IN:
            schema = upstream.schema_of(part.resource.group_resource, part.resource.version)
            assert upstream.problems(schema, part.object) == []


Place = tuple[str, str]
WORDS = st.lists(st.sampled_from(["a", "b", "c", "md", "dev", "kubeconfig"]), min_size=2, max_size=5)
LONG = ["a" * 12, "b" * 12, "c" * 12, "d" * 12]


@st.composite
def places(draw: drawn.Draw) -> tuple[Place, Place]:
    """Namespaces and names of two claims that are easily taken for each other: the same words, cut elsewhere."""
    words = draw(WORDS) + draw(st.sampled_from([[], LONG]))
    return draw(_cut(words)), draw(_cut(words if draw(st.booleans()) else draw(WORDS)))


def _cut(words: list[str]) -> st.SearchStrategy[Place]:
    fitting = [at for at in range(1, len(words)) if len("-".join(words[at:])) <= 49 and len("-".join(words[:at])) <= 63]
    return st.sampled_from(fitting).map(lambda at: ("-".join(words[:at]), "-".join(words[at:])))


@settings(max_examples=properties.examples(80))
@given(places(), st.tuples(*[st.sampled_from(drawn.PLACES)] * 2), platforms, st.data())
def test_two_claims_share_no_object(
    where: tuple[Place, Place], what: tuple[tuple[str, str], tuple[str, str]], integrations: str, data: st.DataObject
) -> None:
    """What claims call by names of their own is not looked at here: such a name is another's who has it first."""
    one, other = (
        data.draw(drawn.claims(kind, infrastructure, place=place, names_things=False))
        for place, (kind, infrastructure) in zip(where, what, strict=True)
    )
    if (where[0], what[0][0]) == (where[1], what[1][0]):
        return
    first, _ = in_full(one, drawn.platform(what[0][1], integrations))
    second, _ = in_full(other, drawn.platform(what[1][1], integrations), list(first.desired.values()))

    shared = identities(first) & identities(second)
    assert not shared, (one, other)


def identities(composed: Composed) -> set[tuple[str, str, str]]:
    return {
        (part.resource.group_resource, objects.namespace(part.object), objects.name(part.object))
        for part in composed.desired.values()
        if not part.is_shared
    }


DEV = "team-a", "shop"


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        pytest.param(
            ("WorkloadCluster", "simulated", DEV), ("KubernetesCluster", "simulated", DEV), "NameTaken", id="kind"
        ),
        pytest.param(
            ("KubernetesCluster", "kubevirt", DEV), ("WorkloadCluster", "kubevirt", DEV), "NameTaken", id="vms"
        ),
        pytest.param(("WorkloadCluster", "kubevirt", DEV), ("VirtualCluster", "kubevirt", DEV), "NameTaken", id="k3s"),
        pytest.param(
            ("VirtualCluster", "kubevirt", DEV), ("WorkloadCluster", "kubevirt", DEV), "NameTaken", id="after-k3s"
        ),
        pytest.param(("VirtualCluster", "kubevirt", DEV), ("WorkloadCluster", "kvm", DEV), "NameTaken", id="elsewhere"),
        pytest.param(
            ("WorkloadCluster", "kvm", DEV), ("VirtualCluster", "kubevirt", DEV), "NameTaken", id="from-elsewhere"
        ),
        pytest.param(
            ("WorkloadCluster", "simulated", ("dev", "team-a")),
            ("WorkloadCluster", "simulated", ("team-a", "kubeconfig")),
            "NameNotUsable",
            id="below-anothers-path-in-vault",
        ),
        pytest.param(("RedisInstance", "", DEV), ("PostgreSQLInstance", "", DEV), None, id="no-clusters"),
        pytest.param(("RedisInstance", "", DEV), ("WorkloadCluster", "simulated", DEV), None, id="cache-and-cluster"),
    ],
)
def test_a_cluster_whose_name_is_taken_is_refused(
    one: tuple[str, str, Place], other: tuple[str, str, Place], reason: str | None
) -> None:
    first, _ = in_full(plain(*one), drawn.platform(one[1], drawn.PLATFORMS[1]))
    second, _ = in_full(plain(*other), drawn.platform(other[1], drawn.PLATFORMS[1]), list(first.desired.values()))

    assert made(first)
    assert (second.refusal.reason if second.refusal else None) == reason
    assert not identities(first) & identities(second)


def plain(kind: str, infrastructure: str, place: Place, **parameters: Any) -> Object:
    own = {"infrastructure": infrastructure} if infrastructure else {}
    return {
        "apiVersion": drawn.KINDS[kind].resource("pnats.cloud").api_version,
        "kind": kind,
        "metadata": {"namespace": place[0], "name": place[1]},
        "spec": {"parameters": {"environment": "dev", **own, **parameters}},
    }


@pytest.mark.parametrize(
    ("pool", "cluster"), [("b", "shop-b"), ("b", "shop-md-b"), ("b-c", "shop-b"), ("c-control", "shop-md-c")]
)
def test_a_pool_is_never_taken_for_one_of_another_cluster(pool: str, cluster: str) -> None:
    platform = drawn.platform("simulated", drawn.PLATFORMS[0])
    one = plain("WorkloadCluster", "simulated", DEV, nodePools=[{"name": pool}])
    other = plain("WorkloadCluster", "simulated", ("team-a", cluster), nodePools=[{"name": "c"}])

    assert not identities(in_full(one, platform)[0]) & identities(in_full(other, platform)[0])


@pytest.mark.parametrize("name", ["md-0", "b-md-0", "md-b", "control-plane", "b-control-plane"])
def test_pools_are_not_called_as_what_clusters_have(name: str) -> None:
    claim = plain("WorkloadCluster", "simulated", DEV, nodePools=[{"name": name}])

    problem, *_ = drawn.check("WorkloadCluster", "simulated", drawn.PLATFORMS[0])(claim)
    assert "nodePools[0].name" in problem
    assert "choose another name" in problem


@pytest.mark.parametrize("kind", ["WorkloadCluster", "KubernetesCluster", "VirtualCluster"])
def test_where_a_service_is_called_after_the_cluster_its_name_begins_with_a_letter(kind: str) -> None:
    [problem] = drawn.check(kind, "kubevirt", drawn.PLATFORMS[0])(plain(kind, "kubevirt", ("team-a", "1shop")))

    assert "begins with a letter" in problem
