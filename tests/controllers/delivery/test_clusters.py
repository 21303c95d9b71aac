"""Clusters that are not there yet, away, silent, replaced or gone: words that say so, and nothing that hangs."""

from __future__ import annotations

import base64
import contextlib
import datetime

import pytest
import yaml

from steelyard.api import secretdelivery
from steelyard.api.clusterapi import resources as capi
from steelyard.compose import names
from steelyard.controllers.delivery import place, reconcile
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, SECRETS
from tests.controllers.delivery.world import TEAM, Wire, World, find, make_namespace, secret, to


async def delete_cluster(world: World, name: str = "shop") -> None:
    """As the lifecycle leaves it: nothing of it is there."""
    await world.client.delete(capi.CLUSTERS, name, TEAM)
    for each in (f"{name}-ca", f"{name}-kubeconfig"):
        with contextlib.suppress(errors.NotFound):
            await world.client.delete(SECRETS, each, TEAM)


async def test_a_cluster_that_is_not_there_is_named_and_waited_for(world: World) -> None:
    await world.parcel(to())
    await world.says("web/db in cluster shop: there is no cluster shop of namespace team-a; make it, or take this out")
    shop = await world.cluster(ready=False)
    await world.says("waiting for cluster shop of namespace team-a to be there")
    assert shop.writes == []
    await world.cluster_is_ready()
    await world.is_delivered()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}


async def test_a_cluster_in_a_namespace_of_its_own_is_found_by_its_claim(world: World) -> None:
    own = names.external(TEAM, "shop")
    await make_namespace(world.client, own)
    shop = await world.cluster(namespace=own)
    await world.parcel(to())
    await world.says("there is no cluster shop of namespace team-a")
    await world.client.patch(capi.CLUSTERS, "shop", {"metadata": {"labels": {names.CLAIM_NAMESPACE: TEAM}}}, own)
    await world.look_again()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}


async def test_while_a_cluster_is_away_it_is_told_and_afterwards_it_has_the_newest(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    shop.is_away = True
    await world.change(text="honey")
    await world.says("cluster shop of namespace team-a cannot be reached: cannot connect to https://shop:6443: refused")
    world.wire.calls.clear()
    await world.look_again()
    assert world.wire.writes == [], "what is known is not told again"
    shop.is_away = False
    await world.look_again()
    await world.is_delivered()
    assert await secret(shop) == {"text": "honey", "TEXT": "honey"}


async def test_a_cluster_that_never_answers_holds_nobody_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "_DEADLINE", 0.1)
    shop, mall = await world.cluster(), await world.cluster("mall")
    await world.parcel(to(), to(cluster="mall"))
    await world.is_delivered()
    shop.hangs = True
    await world.change(text="honey")
    await world.says("cluster shop of namespace team-a cannot be reached: it did not answer in time")
    await world.settle()
    assert await secret(mall) == {"text": "honey", "TEXT": "honey"}


async def test_a_cluster_that_is_deleted_first_takes_it_along(world: World) -> None:
    await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await delete_cluster(world)
    await world.says("there is no cluster shop of namespace team-a")
    await world.delete()
    await world.is_gone()
    assert await world.deliveries() == []


async def test_a_cluster_that_is_being_deleted_gets_nothing_more_and_holds_nothing(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await world.client.patch(capi.CLUSTERS, "shop", {"metadata": {"finalizers": ["x.org/y"]}}, TEAM)
    await world.client.delete(capi.CLUSTERS, "shop", TEAM)
    await world.change(text="honey")
    await world.says("is being deleted; take this out of deliverTo")
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    shop.is_away = True
    await world.delete()
    await world.is_gone()


async def test_a_claim_whose_cluster_is_away_says_what_it_waits_for_and_goes_when_that_is_back(world: World) -> None:
    shop = await _away_while_deleted(world)
    shop.is_away = False
    await world.look_again()
    await world.is_gone()
    assert await secret(shop) is None


async def test_an_administrator_can_let_go(world: World) -> None:
    shop = await _away_while_deleted(world)
    [delivery] = await world.deliveries()
    patch: Object = {"metadata": {"annotations": {secretdelivery.LET_GO: "true"}}}
    await world.client.patch(secretdelivery.RESOURCE, objects.name(delivery), patch)
    await world.is_gone()
    assert await secret(shop), "it is left there"
    found = [each["message"] for each in (await world.client.list(EVENTS)).items if each["reason"] == "LetGo"]
    assert found == ["left in cluster shop of namespace team-a, as data.steelyard.dev/let-go says"]


async def test_after_a_day_it_is_left_where_it_cannot_be_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await _away_while_deleted(world)
    monkeypatch.setattr(reconcile, "GIVE_UP", datetime.timedelta(0))
    await world.look_again()
    await world.is_gone()
    assert await world.deliveries() == []


async def _away_while_deleted(world: World) -> Wire:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    shop.is_away = True
    await world.delete()

    async def said() -> bool:
        return "cannot be reached" in str((await world.get())["status"]["message"])

    await world.until(said, "the claim says why", world.get)
    message = str((await world.get())["status"]["message"])
    [delivery] = await world.deliveries()
    name = objects.name(delivery)
    assert f"waiting for the deletion of SecretDelivery {name}; cluster shop of namespace team-a cannot" in message
    assert f"To leave it there now: kubectl annotate secretdelivery {name} data.steelyard.dev/let-go=true" in message
    return shop


async def test_what_was_never_written_needs_no_removal(world: World) -> None:
    shop = await world.cluster()
    shop.is_away = True
    await world.parcel(to())
    await world.says("connecting to cluster shop of namespace team-a")
    await world.delete()
    await world.is_gone()


async def test_a_new_cluster_of_the_same_name_gets_it_too(world: World) -> None:
    await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await delete_cluster(world)
    await world.says("there is no cluster")
    world.clusters["before"] = world.clusters.pop("shop")
    again = await world.cluster(file="again")
    await world.is_delivered()
    assert await secret(again) == {"text": "milk", "TEXT": "milk"}


@pytest.mark.parametrize("user", [{"exec": {"command": "id"}}, {"tokenFile": "/etc/passwd"}])
async def test_a_forged_kubeconfig_is_not_used(world: World, user: Object) -> None:
    shop = await world.cluster()
    await _forge(world, {"user": user})
    await world.parcel(to())
    await world.says("cannot be reached: Secret team-a/shop-kubeconfig cannot be used")
    assert shop.calls == []


async def test_a_kubeconfig_that_leads_elsewhere_is_not_followed(world: World) -> None:
    await world.cluster()
    mall = await world.cluster("mall")
    await _forge(world, {"server": "https://127.0.0.1:40001"})
    await world.parcel(to())
    await world.says("its server is https://127.0.0.1:40001, but the cluster is at https://127.0.0.1:40000")
    assert await secret(mall) is None


async def _forge(world: World, change: Object) -> None:
    found = await find(world.client, SECRETS, "shop-kubeconfig", TEAM)
    assert found is not None
    told = yaml.safe_load(base64.b64decode(found["data"]["value"]))
    if "server" in change:
        told["clusters"][0]["cluster"]["server"] = change["server"]
    else:
        told["users"][0]["user"] = change["user"]
    value = base64.b64encode(yaml.safe_dump(told).encode()).decode()
    await world.client.patch(SECRETS, "shop-kubeconfig", {"data": {"value": value}}, TEAM)


async def test_what_a_cluster_says_is_told_in_few_words(world: World) -> None:
    shop = await world.cluster()

    async def rant(what: str) -> None:
        if what == "apply Secret":
            raise errors.Forbidden("no\n" * 100_000)

    shop.before = rant
    await world.parcel(to())
    await world.says("cluster shop of namespace team-a refuses it: no no no")
    assert len((await world.told())[1]) < 700
