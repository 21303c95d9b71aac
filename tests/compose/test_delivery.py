"""From a claim's `deliverTo` to SecretDeliveries: what is composed, whose right is asked for, and what is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from steelyard import settings
from steelyard.api import authors, crd, secretdelivery
from steelyard.api.secretdelivery import Delivery
from steelyard.compose import delivery, identity
from steelyard.compose.composed import NOTHING, Composed, Condition, Observed
from steelyard.compose.delivery import Deliveries, InVault
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.schema import parse, validate
from steelyard.settings import Platform

PLAIN = settings.parse("")
WITH_VAULT = settings.parse(
    "integrations: {vault: {enabled: true, address: 'https://vault:8200'}, externalSecrets: {enabled: true}}"
)
IN_VAULT = InVault("secret/apps/dev/orders", {"password": "password", "DATABASE_URL": "database-url"})
OWN = Delivery(cluster="shop", namespace="web", name="db")
THEIRS = Delivery(cluster="shop", cluster_namespace="team-b", namespace="web", name="db")
SCHEMA = parse.from_openapi(crd.object_schema(secretdelivery.SECRET_DELIVERY))
validate.prepare(SCHEMA)


def claim(**annotations: str) -> Object:
    metadata: Object = {"name": "orders", "namespace": "team-a", "annotations": annotations}
    return {"apiVersion": "database.steelyard.dev/v1alpha1", "kind": "PostgreSQLInstance", "metadata": metadata}


def composed(
    wanted: Sequence[Delivery] | None,
    observed: Observed = NOTHING,
    platform: Platform = PLAIN,
    data: dict[str, str] | None = None,
    of: Object | None = None,
) -> Deliveries:
    return delivery.compose(
        of or claim(),
        wanted,
        observed,
        platform,
        credentials_namespace="crossplane-system",
        data=data,
        in_vault=IN_VAULT,
    )


def specs(found: Deliveries) -> list[Object]:
    return [part.object["spec"] for part in found.desired.values() if part.resource == secretdelivery.RESOURCE]


def seen(found: Deliveries, status: str, message: str = "", *, of: Object | None = None) -> Observed:
    """The delivery as the API shows it, with conditions of this status."""
    signed = identity.of_file(of or claim(), Composed(desired=found.desired))
    resources: dict[str, Object] = {}
    for name, part in signed.desired.items():
        said = {"status": status, "reason": "x", "message": message, "observedGeneration": 1}
        conditions = [{"type": type_, **said} for type_ in ("Ready", "Synced")]
        obj = objects.copy(part.object)
        obj["metadata"]["generation"] = 1
        resources[name] = {**obj, "status": {"conditions": conditions}}
    return Observed(resources=resources)


def test_nothing_asked_for_is_nothing_composed_and_nothing_told() -> None:
    for wanted in (None, ()):
        found = composed(wanted, data={"a": "b"})
        assert found == delivery.NONE
        own = [Condition("Ready", "True", "Available")]
        assert found.conditions(own) == own


def test_a_secret_beside_the_credentials_is_what_is_delivered() -> None:
    found = composed([OWN], data={"password": "p"})
    source = found.desired[delivery.SOURCE].object
    assert objects.qualified_name(source) == "crossplane-system/delivery.postgresqlinstance.team-a.orders"
    assert source["data"] == {"password": "cA=="}
    assert specs(found) == [
        {
            "cluster": {"namespace": "team-a", "name": "shop"},
            "target": {"namespace": "web", "name": "db"},
            "deliveredFor": {"kind": "PostgreSQLInstance", "namespace": "team-a", "name": "orders"},
            "source": {"namespace": "crossplane-system", "name": "delivery.postgresqlinstance.team-a.orders"},
        }
    ]


@pytest.mark.parametrize("platform", [PLAIN, WITH_VAULT], ids=["plain", "vault"])
def test_what_is_composed_is_what_the_definition_accepts(platform: Platform) -> None:
    of = claim(**{authors.DELIVERY_AUTHOR: "eve", authors.DELIVERY_GROUPS: "a\nb"})
    found = composed([OWN, THEIRS], platform=platform, data={"password": "p"}, of=of)
    for part in found.desired.values():
        if part.resource == secretdelivery.RESOURCE:
            assert validate.validate(SCHEMA, part.object) == []


def test_it_goes_before_everything_else_and_what_it_copies_goes_last() -> None:
    found = composed([OWN], data={"a": "b"}).desired
    stages = {part.resource.kind: part.deletion_stage for part in found.values()}
    assert stages == {"SecretDelivery": 0, "Secret": 9}


def test_with_vault_the_cluster_fetches_it_and_nothing_is_copied() -> None:
    found = composed([OWN], platform=WITH_VAULT, data={"password": "p"})
    assert delivery.SOURCE not in found.desired
    [spec] = specs(found)
    assert "source" not in spec
    assert spec["manifest"]["spec"]["data"] == [
        {"secretKey": "password", "remoteRef": {"key": "apps/dev/orders", "property": "password"}},
        {"secretKey": "DATABASE_URL", "remoteRef": {"key": "apps/dev/orders", "property": "database-url"}},
    ]


def test_another_engine_than_the_clusters_stores_have_is_not_fetched_from() -> None:
    elsewhere = InVault("other/apps/dev/orders", {"password": "password"})
    found = delivery.compose(
        claim(), [OWN], NOTHING, WITH_VAULT, credentials_namespace="c", data={"a": "b"}, in_vault=elsewhere
    )
    assert "source" in specs(found)[0]


def test_data_that_is_not_known_keeps_what_is_there() -> None:
    found = composed([OWN], data=None)
    assert delivery.SOURCE not in found.desired
    assert found.retained == {delivery.SOURCE}


def test_elsewhere_the_author_of_the_list_is_asked_for_and_at_home_nobody() -> None:
    of = claim(**{authors.DELIVERY_AUTHOR: "eve", authors.DELIVERY_GROUPS: "a\nb", authors.AUTHOR: "root"})
    at_home, elsewhere = specs(composed([OWN, THEIRS], of=of))
    assert "onBehalfOf" not in at_home
    assert elsewhere["onBehalfOf"] == {"user": "eve", "groups": ["a", "b"]}


ROBOT = "system:serviceaccount:argocd:controller"


@pytest.mark.parametrize(
    ("file", "author", "words"),
    [
        ("{}", "", "the claim does not say who asked for it"),
        ("{robots: [argocd/controller]}", ROBOT, "acts for others, so its own rights do not count. Grant claims in"),
        ("{grants: [{claimsIn: [team-c], clustersIn: [team-b]}]}", "", "the claim does not say who asked for it"),
        ("{grants: [{claimsIn: ['*'], secretsTo: [team-b]}]}", "", "the claim does not say who asked for it"),
        ("{grants: [{claimsIn: [team-a], clustersIn: [team-b]}]}", ROBOT, ""),
        ("{grants: [{claimsIn: ['*'], clustersIn: [team-b]}], robots: [argocd/controller]}", ROBOT, ""),
    ],
)
def test_who_has_no_right_of_their_own_needs_a_grant(file: str, author: str, words: str) -> None:
    platform = settings.parse(f"connectionSecrets: {file}")
    of = claim(**{authors.DELIVERY_AUTHOR: author} if author else {})
    [spec] = specs(composed([THEIRS], platform=platform, of=of))
    assert ("suspended" in spec) == bool(words)
    assert words in str(spec.get("suspended", ""))
    assert "onBehalfOf" not in spec


def test_namespaces_of_kubernetes_are_held_back_even_in_a_claim_that_is_stored() -> None:
    [spec] = specs(composed([Delivery(cluster="shop", namespace="kube-system", name="db")]))
    assert "nothing is delivered into kube-system" in spec["suspended"]


def test_one_place_has_one_name_and_no_two_places_have_the_same() -> None:
    places = [
        ("a", "b", "c", "d"),
        ("b", "a", "c", "d"),
        ("a", "b", "d", "c"),
        ("a", "bc", "d", "d"),
        ("a", "b", "cd", "d"),
        ("a", "b", "c", "c.d"),
    ]
    assert len({secretdelivery.name_of(*each) for each in places}) == len(places)


def test_a_place_that_another_claim_has_is_told_and_left_to_it() -> None:
    name = secretdelivery.name_of("team-a", "shop", "web", "db")
    for namespace, words in (
        ("team-a", "is what RedisInstance cart delivers"),
        ("team-c", "a claim in another namesp"),
    ):
        whose = {"kind": "RedisInstance", "namespace": namespace, "name": "cart"}
        taken: Object = {"metadata": {"name": name}, "spec": {"deliveredFor": whose}}
        found = composed([OWN], Observed(required={f"delivery-{name}": [taken]}), data={"a": "b"})
        assert specs(found) == []
        assert words in found.waiting_for
        assert found.waits_untold


def test_the_claim_tells_how_far_it_is() -> None:
    found = composed([OWN], data={"a": "b"})
    assert found.waiting_for == "web/db in cluster shop: not begun yet"
    own = [Condition("Ready", "True", "Available"), Condition("UpToDate", "True", "AsAskedFor")]
    waiting = composed([OWN], seen(found, "False", "create namespace web"), data={"a": "b"})
    assert waiting.conditions(own) == [
        Condition("Ready", "True", "Available"),
        Condition("UpToDate", "False", "NotDelivered", "web/db in cluster shop: create namespace web"),
        Condition("Delivered", "False", "NotDelivered", "web/db in cluster shop: create namespace web"),
    ]
    done = composed([OWN], seen(found, "True"), data={"a": "b"})
    assert done.waiting_for == ""
    assert done.conditions(own) == [*own, Condition("Delivered", "True", "Delivered")]
    assert done.status["deliveries"][0]["ready"] is True


def test_what_is_said_of_an_older_state_does_not_count() -> None:
    found = composed([OWN], data={"a": "b"})
    observed = seen(found, "True")
    for obj in observed.resources.values():
        obj["metadata"]["generation"] = 2
    assert composed([OWN], observed, data={"a": "b"}).waiting_for


def test_while_it_is_deleted_the_claim_tells_what_the_delivery_says() -> None:
    going: Object = {
        "metadata": {"name": "x", "deletionTimestamp": "2025-01-01T00:00:00Z"},
        "status": {"conditions": [{"type": "Synced", "status": "False", "message": "the cluster is away"}]},
    }
    assert delivery.left({"delivery-x": [going], "other": [going]}) == "the cluster is away"
    assert delivery.left({"other": [going]}) == ""


def test_variables_are_further_names_of_the_same_data() -> None:
    assert delivery.environment(None, {"A": "a"}) is None
    assert delivery.environment({"a": "1"}, {"A": "a", "B": "b"}) == {"a": "1", "A": "1"}
