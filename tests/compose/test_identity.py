"""Whose composed objects are, for each of those who compose."""

from __future__ import annotations

from steelyard.compose import identity, names, offering
from steelyard.compose.composed import NOTHING, Composed, Observed
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.settings import Platform
from tests.compose import cases

KIND = offering.STANDARD.kinds[0]


def claim(**parameters: object) -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "WorkloadCluster",
        "metadata": {"name": "shop", "namespace": "team-a", "uid": "1"},
        "spec": {"parameters": {"environment": "dev", **parameters}},
    }


def composed(obj: Object, observed: Observed = NOTHING) -> Composed:
    return KIND.compose(obj, observed, Platform())


def test_composing_itself_says_nothing_of_whose_the_objects_are() -> None:
    for part in composed(claim()).desired.values():
        assert names.CLAIM_NAME not in objects.labels(part.object)
        assert "ownerReferences" not in part.object["metadata"]


def test_a_claim_owns_its_cluster_and_labels_everything() -> None:
    parts = identity.of_claim(claim(), composed(claim())).desired

    owned = [name for name, part in parts.items() if "ownerReferences" in part.object["metadata"]]
    assert owned == ["cluster"]
    assert all(objects.labels(part.object)[names.CLAIM_NAME] == "shop" for part in parts.values())
    assert all(objects.annotations(part.object)[names.RESOURCE_NAME] == name for name, part in parts.items())


def test_a_file_owns_nothing() -> None:
    parts = identity.of_file(claim(), composed(claim())).desired

    assert all("ownerReferences" not in part.object["metadata"] for part in parts.values())
    assert all(objects.labels(part.object)[names.CLAIM_NAME] == "shop" for part in parts.values())


def under_crossplane(obj: Object, found: Composed, observed: dict[str, Object]) -> dict[str, Object]:
    given = identity.of_composite(obj, found)
    return {
        **{name: part.object for name, part in given.items()},
        **identity.given_back(found, given, observed),
    }


def test_under_crossplane_a_changed_template_is_a_resource_of_its_own_and_the_old_one_stays_while_machines_roll() -> (
    None
):
    before = under_crossplane(claim(), composed(claim()), {})
    template = next(name for name in before if name.startswith("worker-machines-"))
    assert template.endswith(objects.name(before[template])[-8:])

    larger = claim(cpuCores=12)
    rolling = composed(larger)
    assert rolling.rolling
    after = under_crossplane(larger, rolling, {name: {**obj, "status": {}} for name, obj in before.items()})

    new = [name for name in after if name.startswith("worker-machines-")]
    assert len(new) == 2
    assert after[template] == before[template], "as it was, without what others added"
    assert [name for name in after if name == "cluster"], "what keeps its name keeps its resource name"


def test_under_crossplane_the_old_template_goes_when_all_machines_are_new() -> None:
    settled = cases.load("ready", "claim.yaml")
    metadata: Object = {
        "name": "dev-cluster-md-0-00000000",
        "annotations": {names.RESOURCE_NAME: "worker-machines"},
    }
    old: Object = {"apiVersion": "x/v1", "kind": "T", "metadata": metadata}

    found = composed(settled, cases.observed("ready"))

    assert not found.rolling
    assert "worker-machines-00000000" not in under_crossplane(settled, found, {"worker-machines-00000000": old})


def test_under_crossplane_what_cannot_be_composed_at_the_moment_stays() -> None:
    asking = claim()
    asking["spec"]["writeConnectionSecretToRef"] = {"name": "shop-connection"}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-connection"}, "data": {"a": ""}}

    found = composed(asking)

    assert "connection" in found.retained
    assert under_crossplane(asking, found, {"connection": secret})["connection"] == secret
