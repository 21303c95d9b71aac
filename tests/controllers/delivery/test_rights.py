"""A hostile tenant: may write claims in one namespace, and tries to deliver into clusters of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api import authors, policies, secretdelivery
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.call import AUTHENTICATED, User
from tests.controllers.delivery import world as worlds
from tests.controllers.delivery.parcel import PARCELS
from tests.controllers.delivery.world import OTHERS, TEAM, World, claim, secret, to

RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(RBAC, "v1", "roles", "Role")
BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")
MALLORY = User("mallory", (AUTHENTICATED, "team-a"))
ROBOT = User("system:serviceaccount:argocd:controller", ("system:masters",))
THEIRS = to(clusterNamespace=OTHERS)


async def allow(world: World, name: str, namespace: str, group: str, plural: str, **rule: Any) -> None:
    rules = [{"verbs": ["*"], "apiGroups": [group], "resources": [plural, f"{plural}/status"], **rule}]
    await world.client.create(ROLES, {"metadata": {"name": name, "namespace": namespace}, "rules": rules})
    binding: Object = {
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": "team-a"}],
    }
    await world.client.create(BINDINGS, binding)


async def let_in(world: World) -> None:
    """Mallory may read the kubeconfig of that one cluster, and no other Secret there."""
    rule = {"verbs": ["get"], "resourceNames": ["shop-kubeconfig"]}
    await allow(world, "kubeconfig", OTHERS, "", "secrets", **rule)


@pytest.fixture
async def mallory(world: World) -> Client:
    await allow(world, "claims", TEAM, PARCELS.group, PARCELS.plural)
    return world.as_(MALLORY)


async def test_clusters_of_another_namespace_are_for_those_who_may_read_their_kubeconfig(
    world: World, mallory: Client
) -> None:
    shop = await world.cluster(namespace=OTHERS)
    with pytest.raises(errors.Forbidden) as caught:
        await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": [THEIRS]}))
    assert caught.value.message.endswith(
        "denied request: nothing can be delivered into cluster shop of namespace team-b: mallory may not read Secret "
        "shop-kubeconfig there. Ask the platform's administrators to grant claims in team-a the clusters in that "
        "namespace (connectionSecrets.grants in the platform file), or deliver into a cluster of team-a."
    )
    await mallory.create(PARCELS, claim("box", {"text": "milk"}))
    for places in ([THEIRS], [to(), THEIRS], [*(to(f"d-{number}") for number in range(7)), THEIRS]):
        with pytest.raises(errors.Forbidden, match="may not read Secret shop-kubeconfig"):
            await mallory.patch(PARCELS, "box", {"spec": {"parameters": {"deliverTo": places}}}, TEAM)
    await let_in(world)
    await mallory.patch(PARCELS, "box", {"spec": {"parameters": {"deliverTo": [THEIRS]}}}, TEAM)
    await world.is_delivered()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    [delivery] = await world.deliveries()
    assert delivery["spec"]["onBehalfOf"] == {"user": "mallory", "groups": list(MALLORY.groups)}


async def test_each_of_eight_clusters_is_asked_about(world: World, mallory: Client) -> None:
    await let_in(world)
    places = [
        *(to(f"d-{number}", clusterNamespace=OTHERS) for number in range(7)),
        to("d", "mall", clusterNamespace=OTHERS),
    ]
    with pytest.raises(errors.Forbidden, match="may not read Secret mall-kubeconfig"):
        await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": places}))
    await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": places[:7]}))
    with pytest.raises(errors.Invalid, match="must have at most 8 items"):
        await mallory.create(PARCELS, claim("more", {"text": "milk", "deliverTo": [*places, to("nine")]}))


async def test_a_right_that_is_taken_away_is_gone_at_the_next_use(world: World, mallory: Client) -> None:
    shop = await world.cluster(namespace=OTHERS)
    await let_in(world)
    await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": [THEIRS]}))
    await world.is_delivered()
    await world.client.delete(BINDINGS, "kubeconfig", OTHERS)
    await world.change(text="honey")
    await world.says("mallory may not read Secret shop-kubeconfig in namespace team-b, and so not deliver into that")
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    await allow(world, "again", OTHERS, "", "secrets")
    await world.look_again()
    await world.is_delivered()
    assert await secret(shop) == {"text": "honey", "TEXT": "honey"}
    await world.client.delete(BINDINGS, "again", OTHERS)
    await world.delete()
    await world.is_gone()
    assert await secret(shop) is None, "what is ours is taken away, whoever may what"


async def test_nobody_writes_down_another_author(world: World, mallory: Client) -> None:
    forged = {authors.DELIVERY_AUTHOR: "root", authors.DELIVERY_GROUPS: "system:masters"}
    await world.cluster(namespace=OTHERS)
    with pytest.raises(errors.Forbidden):
        await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": [THEIRS]}, annotations=forged))
    await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": [to()]}, annotations=forged))
    assert authors.of_deliveries(await world.get()) is None, "it says nothing where nothing is asked of anybody"
    await let_in(world)
    await mallory.patch(PARCELS, "box", {"spec": {"parameters": {"deliverTo": [THEIRS]}}}, TEAM)
    await mallory.patch(PARCELS, "box", {"metadata": {"annotations": forged}}, TEAM)
    known = await world.get()
    await mallory.update(PARCELS, {**known, "metadata": {**known["metadata"], "annotations": forged}})
    await mallory.apply(PARCELS, claim("box", {"text": "milk"}, annotations=forged), field_manager="mallory")
    assert authors.of_deliveries(await world.get()) == authors.Author("mallory", MALLORY.groups)


async def test_who_changes_something_else_is_not_asked_and_who_changes_the_list_answers_for_all_of_it(
    world: World, mallory: Client
) -> None:
    await world.cluster(namespace=OTHERS)
    await world.parcel(THEIRS)
    await world.is_delivered()
    before = authors.of_deliveries(await world.get())
    assert before is not None
    await mallory.patch(PARCELS, "box", {"spec": {"parameters": {"text": "honey"}}}, TEAM)
    assert authors.of_deliveries(await world.get()) == before
    with pytest.raises(errors.Forbidden):
        await mallory.patch(PARCELS, "box", {"spec": {"parameters": {"deliverTo": [THEIRS, to("own")]}}}, TEAM)
    await mallory.patch(PARCELS, "box", {"spec": {"parameters": {"deliverTo": [to("own")]}}}, TEAM)
    assert authors.of_deliveries(await world.get()) is None


async def test_a_stored_claim_that_names_no_author_delivers_nothing_elsewhere(world: World) -> None:
    """As one that was restored, or written past admission."""
    shop = await world.cluster(namespace=OTHERS)
    await world.crash()
    await world.parcel(THEIRS)
    world.api.stamp({})
    for each in ("deliveries.compute.steelyard.dev",):
        await world.client.delete(policies.BINDINGS, each)
    bare: Object = {"metadata": {"annotations": {authors.DELIVERY_AUTHOR: None, authors.DELIVERY_GROUPS: None}}}
    await world.client.patch(PARCELS, "box", bare, TEAM)
    await world.start()
    await world.says("the claim does not say who asked for it. Write deliverTo anew, or grant claims in team-a the")
    assert await secret(shop) is None


async def test_no_tenant_writes_a_delivery(world: World, mallory: Client) -> None:
    await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    [delivery] = await world.deliveries()
    for attempt in (
        lambda: mallory.list(secretdelivery.RESOURCE),
        lambda: mallory.create(secretdelivery.RESOURCE, {**delivery, "metadata": {"name": "mine"}}),
        lambda: mallory.patch(secretdelivery.RESOURCE, objects.name(delivery), {"spec": {}}),
    ):
        with pytest.raises(errors.Forbidden):
            await attempt()


NOT_PLACES = [
    (to(namespace="kube-system"), "nothing is delivered into the namespaces of Kubernetes itself"),
    (to(namespace="kube-public"), "nothing is delivered into the namespaces of Kubernetes itself"),
    (to(namespace="kube-node-lease"), "nothing is delivered into the namespaces of Kubernetes itself"),
    (to(namespace="../kube-system"), "should match"),
    (to(cluster="a/b"), "should match"),
    (to("../x"), "should match"),
    (to("x" * 254), "may not be more than 253"),
    (to(clusterNamespace=""), "should be at least 1 chars long"),
    ({"cluster": "shop", "name": "db"}, "Required value"),
]


async def test_places_that_are_none_are_refused(mallory: Client) -> None:
    for place, words in NOT_PLACES:
        with pytest.raises(errors.Invalid, match=words):
            await mallory.create(PARCELS, claim("box", {"text": "milk", "deliverTo": [place]}))


PLATFORM = """
connectionSecrets:
  grants:
  - {claimsIn: [team-a], clustersIn: [team-b]}
  robots: [argocd/controller]
"""


async def test_grants_stand_in_for_rights_and_alone_count_for_robots(tmp_path: Path) -> None:
    async with worlds.opened(tmp_path, PLATFORM) as world:
        await allow(world, "claims", TEAM, PARCELS.group, PARCELS.plural)
        shop = await world.cluster(namespace=OTHERS)
        await world.parcel(THEIRS, by=MALLORY)
        await world.parcel(to("robots", clusterNamespace=OTHERS), name="robots", by=ROBOT)
        with pytest.raises(errors.Forbidden, match="acts for others, so its own rights do not count"):
            await world.parcel(to(clusterNamespace="default"), name="more", by=ROBOT)
        for name in ("box", "robots"):
            await world.is_delivered(name)
        await world.crash()
        without = world.platform.connection_secrets.model_copy(update={"grants": ()})
        world.platform = world.platform.model_copy(update={"connection_secrets": without})
        await world.start()
        await world.says("controller acts for others, so its own rights do not count. Grant claims in team-a", "robots")
        await world.says("mallory may not read Secret shop-kubeconfig in namespace team-b", "box")
        await world.change("robots", text="honey")
        await world.settle()
        assert await secret(shop, "robots") == {"text": "milk", "TEXT": "milk"}


def test_a_grant_of_nothing_is_refused() -> None:
    with pytest.raises(settings.SettingsError, match="must have secretsTo or clustersIn"):
        settings.parse("connectionSecrets: {grants: [{claimsIn: [team-a]}]}")
