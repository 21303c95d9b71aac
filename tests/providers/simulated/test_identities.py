"""Whose a simulated cluster is: it outlives the object that stands for it where that was moved, and nobody gets
another's by naming it."""

from __future__ import annotations

from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.api.resources import SIMULATED_CLUSTERS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from steelyard.kube.store.store import Store
from steelyard.providers.simulated import identity
from tests.moving import worlds
from tests.providers.simulated.test_ports import client, create, running, store

__all__ = ["client", "store"]


async def infrastructure(client: Client, name: str) -> Object:
    return await client.get(SIMULATED_CLUSTERS, name, "default")


async def provisioned(client: Client, name: str) -> Object:
    found: Object = await worlds.eventually(
        lambda: infrastructure(client, name),
        lambda it: bool(objects.at(it, "status", "initialization", "provisioned")),
    )
    return found


async def torn_off(client: Client, name: str) -> None:
    """Removed by force: what its finalizer is for does not happen."""
    await client.patch(SIMULATED_CLUSTERS, name, {"metadata": {"finalizers": None}}, "default")
    try:
        await client.delete(SIMULATED_CLUSTERS, name, "default")
    except errors.NotFound:
        return


async def test_a_cluster_that_vanishes_while_it_is_paused_goes_on(store: Store, client: Client) -> None:
    async with running(store, client) as hosting:
        await create(client, "shop")
        found = await provisioned(client, "shop")
        port = int(found["spec"]["controlPlaneEndpoint"]["port"])
        recorded = objects.annotations(found)[identity.ANNOTATION]
        assert recorded == objects.uid(found)
        await client.patch(CLUSTERS, "shop", {"spec": {"paused": True}}, "default")
        await torn_off(client, "shop")
        # As it comes back from another API: another object, which names what it was.
        kept = ("name", "namespace", "ownerReferences", "labels")
        metadata: Object = {key: value for key, value in objects.metadata(found).items() if key in kept}
        metadata["annotations"] = {identity.ANNOTATION: recorded}
        await client.create(
            SIMULATED_CLUSTERS,
            {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata, "spec": found["spec"]},
        )
        await client.patch(CLUSTERS, "shop", {"spec": {"paused": None}}, "default")
        again = await provisioned(client, "shop")
        assert objects.uid(again) != recorded
        assert identity.of_cluster(again) == recorded
        assert again["spec"]["controlPlaneEndpoint"]["port"] == port
        assert await hosting.reserve(recorded) == port


async def test_a_cluster_that_vanishes_unpaused_is_erased(store: Store, client: Client) -> None:
    async with running(store, client) as hosting:
        await create(client, "shop")
        found = await provisioned(client, "shop")
        port = int(found["spec"]["controlPlaneEndpoint"]["port"])
        await torn_off(client, "shop")

        async def is_free() -> bool:
            return hosting.promise("somebody else", port)

        await worlds.eventually(is_free, bool)


async def test_nobody_gets_anothers_cluster_by_naming_it_nor_erases_it(store: Store, client: Client) -> None:
    async with running(store, client) as hosting:
        await create(client, "shop")
        victim = await provisioned(client, "shop")
        port = int(victim["spec"]["controlPlaneEndpoint"]["port"])
        await create(client, "thief")
        await provisioned(client, "thief")
        stolen = {"metadata": {"annotations": {identity.ANNOTATION: objects.uid(victim)}}}
        await client.patch(SIMULATED_CLUSTERS, "thief", stolen, "default")
        await worlds.eventually(
            lambda: infrastructure(client, "thief"),
            lambda it: (conditions.find(it, "Ready") or {}).get("reason") == "IdentityTaken",
        )
        await client.delete(SIMULATED_CLUSTERS, "thief", "default")

        async def left() -> int:
            return len((await client.list(SIMULATED_CLUSTERS)).items)

        await worlds.eventually(left, lambda count: count == 1)
        assert hosting.promise("somebody else", port) is False
        assert await hosting.reserve(objects.uid(victim)) == port
