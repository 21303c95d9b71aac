"""Connection data in clusters: delivered, rotated, put back, removed; and never over somebody else's."""

from __future__ import annotations

from steelyard.api import secretdelivery
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from tests.controllers.delivery.world import World, find, make_namespace, secret, to

_MANY = 5 * secretdelivery.MOST


async def test_a_claims_data_is_in_the_cluster_and_the_claim_says_so(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    there = await find(shop.client, SECRETS, "db")
    assert there is not None
    assert objects.annotations(there)[secretdelivery.DELIVERED_FOR] == "Parcel/team-a/box"
    assert there["type"] == "Opaque"
    [report] = (await world.get())["status"]["deliveries"]
    [delivery] = await world.deliveries()
    assert report == {
        "cluster": "shop",
        "clusterNamespace": "team-a",
        "namespace": "web",
        "name": "db",
        "delivery": objects.name(delivery),
        "ready": True,
    }
    assert (await world.told("UpToDate"))[0] == "True"
    assert await world.told("Ready") == ("True", "")


async def test_a_change_is_there_at_once(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await world.change(text="honey")
    await world.settle()
    assert await secret(shop) == {"text": "honey", "TEXT": "honey"}


async def test_data_that_is_not_known_for_a_while_stays_as_it_was(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to(), text=None)
    await world.says("waiting for the connection data")
    await world.change(text="milk")
    await world.is_delivered()
    await world.change(text=None)
    await world.settle()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    assert (await world.told())[0] == "True"


async def test_nothing_is_left_of_a_deleted_claim(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to(), to("second"))
    await world.is_delivered()
    assert await secret(shop, "second")
    await world.delete()
    await world.is_gone()
    assert await secret(shop) is None
    assert await secret(shop, "second") is None
    assert await world.deliveries() == []
    assert await world.sources() == []


async def test_what_is_taken_out_of_the_list_goes_and_the_rest_stays(world: World) -> None:
    shop, mall = await world.cluster(), await world.cluster("mall")
    await world.parcel(to(), to(cluster="mall"))
    await world.is_delivered()
    before = await find(mall.client, SECRETS, "db")
    await world.change(deliverTo=[to(cluster="mall")])
    await world.settle()
    assert await secret(shop) is None
    assert await find(mall.client, SECRETS, "db") == before
    assert len(await world.deliveries()) == 1


async def test_a_secret_of_somebody_else_is_neither_overwritten_nor_deleted(world: World) -> None:
    shop = await world.cluster()
    before = await shop.client.create(SECRETS, {"metadata": {"name": "db", "namespace": "web"}, "data": {"a": "Yg=="}})
    await world.parcel(to())
    await world.says("Secret web/db in cluster shop of namespace team-a is somebody else's and stays as it is")
    assert await find(shop.client, SECRETS, "db") == before
    assert (await world.told("Ready"))[0] == "True", "the thing itself can be used"
    assert (await world.told("UpToDate"))[0] == "False"
    await world.delete()
    await world.is_gone()
    assert await find(shop.client, SECRETS, "db") == before


async def test_it_comes_once_the_place_is_free(world: World) -> None:
    shop = await world.cluster()
    await shop.client.create(SECRETS, {"metadata": {"name": "db", "namespace": "web"}, "data": {"a": "Yg=="}})
    await world.parcel(to())
    await world.says("somebody else's")
    await shop.client.delete(SECRETS, "db", "web")
    await world.look_again()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}


async def test_a_secret_that_came_while_it_was_looked_for_is_not_overwritten(world: World) -> None:
    shop = await world.cluster()
    taken: Object = {"metadata": {"name": "db", "namespace": "web"}, "data": {"a": "Yg=="}}

    async def just_before(what: str) -> None:
        if what == "apply Secret":
            shop.before = None
            await shop.client.create(SECRETS, taken)

    shop.before = just_before
    await world.parcel(to())
    await world.says("somebody else's")
    assert await secret(shop) == {"a": "b"}


async def test_what_somebody_did_to_it_there_is_put_back_and_what_they_added_stays(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await shop.client.patch(SECRETS, "db", {"data": {"text": "Yg==", "TEXT": None, "own": "Yg=="}}, "web")
    await world.look_again()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk", "own": "b"}
    await shop.client.delete(SECRETS, "db", "web")
    await world.look_again()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}


async def test_who_takes_the_annotation_off_keeps_it(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    patch: Object = {"metadata": {"annotations": {secretdelivery.DELIVERED_FOR: None}}}
    await shop.client.patch(SECRETS, "db", patch, "web")
    await world.change(text="honey")
    await world.says("somebody else's")
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    await world.delete()
    await world.is_gone()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}


async def test_the_namespace_is_not_made_but_waited_for(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to(namespace="later"))
    await world.says("create namespace later in cluster shop of namespace team-a")
    await make_namespace(shop.client, "later")
    await world.look_again()
    assert await secret(shop, namespace="later") == {"text": "milk", "TEXT": "milk"}


async def test_of_two_claims_for_one_place_the_second_is_told_and_comes_when_the_first_goes(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    await world.parcel(to(), name="other", text="honey")
    await world.says("web/db in cluster shop is what Parcel box delivers; choose another name", "other")
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    await world.delete()
    await world.is_gone()
    await world.look_again()
    await world.is_delivered("other")
    assert await secret(shop) == {"text": "honey", "TEXT": "honey"}


async def test_one_place_named_twice_is_one_delivery(world: World) -> None:
    await world.cluster()
    await world.parcel(to(), to(clusterNamespace="team-a"))
    await world.is_delivered()
    assert len(await world.deliveries()) == 1


async def test_deliveries_at_rest_cost_one_request_each_at_a_look_and_no_write(world: World) -> None:
    shop = await world.cluster()
    places = [to(f"db-{number}") for number in range(_MANY)]
    for number in range(0, _MANY, secretdelivery.MOST):
        await world.parcel(*places[number : number + secretdelivery.MOST], name=f"box-{number}")
    for number in range(0, _MANY, secretdelivery.MOST):
        await world.is_delivered(f"box-{number}")
    shop.calls.clear()
    world.wire.calls.clear()
    await world.look_again()
    assert shop.calls == ["get Secret"] * _MANY
    assert world.wire.writes == []


async def test_paused_it_is_left_alone(world: World) -> None:
    shop = await world.cluster()
    await world.parcel(to())
    await world.is_delivered()
    [delivery] = await world.deliveries()
    patch: Object = {"metadata": {"annotations": {secretdelivery.PAUSED: "true"}}}
    await world.client.patch(secretdelivery.RESOURCE, objects.name(delivery), patch)
    await world.change(text="honey")
    await world.settle()
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
    patch = {"metadata": {"annotations": {secretdelivery.PAUSED: None}}}
    await world.client.patch(secretdelivery.RESOURCE, objects.name(delivery), patch)
    await world.is_delivered()
    assert await secret(shop) == {"text": "honey", "TEXT": "honey"}
