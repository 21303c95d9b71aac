"""With Vault and External Secrets enabled: an ExternalSecret goes into the cluster, and no password."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from steelyard import settings
from steelyard.api.externalsecrets import definitions
from steelyard.api.secretdelivery import EXTERNAL_SECRETS
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from tests.controllers.delivery import world as worlds
from tests.controllers.delivery.world import Wire, World, find, secret, to

PLATFORM = """
integrations:
  vault: {enabled: true, address: "https://vault:8200"}
  externalSecrets: {enabled: true}
"""


@pytest.fixture
async def vaulted(tmp_path: Path) -> AsyncGenerator[World]:
    async with worlds.opened(tmp_path, PLATFORM) as world:
        yield world


async def install(shop: Wire) -> None:
    """External Secrets' kinds in the cluster."""
    for each in definitions.crds():
        if objects.name(each) == EXTERNAL_SECRETS.group_resource:
            await shop.client.apply(CUSTOM_RESOURCE_DEFINITIONS, each, field_manager="test")


async def test_the_cluster_fetches_it_from_vault_by_itself(vaulted: World) -> None:
    shop = await vaulted.cluster()
    await install(shop)
    await vaulted.parcel(to())
    await vaulted.is_delivered()
    assert await secret(shop) is None
    assert await vaulted.sources() == []
    there = await find(shop.client, EXTERNAL_SECRETS, "db")
    assert there is not None
    spec = there["spec"]
    assert spec["refreshInterval"] == "5m"
    assert spec["secretStoreRef"] == {"name": "vault-backend", "kind": "ClusterSecretStore"}
    assert (spec["target"]["name"], spec["target"]["creationPolicy"]) == ("db", "Owner")
    assert [(each["secretKey"], each["remoteRef"]["key"], each["remoteRef"]["property"]) for each in spec["data"]] == [
        ("text", "apps/dev/box", "text"),
        ("TEXT", "apps/dev/box", "text"),
    ]
    shop.calls.clear()
    await vaulted.look_again()
    assert shop.writes == [], "what its definition fills in is no difference"
    await vaulted.delete()
    await vaulted.is_gone()
    assert await find(shop.client, EXTERNAL_SECRETS, "db") is None


async def test_a_cluster_without_external_secrets_is_told(vaulted: World) -> None:
    shop = await vaulted.cluster()
    await vaulted.parcel(to())
    await vaulted.says("install External Secrets in cluster shop of namespace team-a: it knows no ExternalSecret")
    await install(shop)
    await vaulted.look_again()
    await vaulted.is_delivered()


async def test_what_external_secrets_says_is_told(vaulted: World) -> None:
    shop = await vaulted.cluster()
    await install(shop)
    await vaulted.parcel(to())
    await vaulted.is_delivered()
    condition: Object = {
        "type": "Ready",
        "status": "False",
        "reason": "SecretSyncedError",
        "message": "could not get secret",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    status: Object = {"status": {"conditions": [condition]}}
    await shop.client.patch(EXTERNAL_SECRETS, "db", status, "web", subresource="status")
    await vaulted.look_again()
    await vaulted.says("External Secrets has not fetched it there: could not get secret")


async def test_external_secrets_is_not_made_to_overwrite_a_secret_of_somebody_else(vaulted: World) -> None:
    shop = await vaulted.cluster()
    await install(shop)
    before = await shop.client.create(SECRETS, {"metadata": {"name": "db", "namespace": "web"}, "data": {"a": "Yg=="}})
    await vaulted.parcel(to())
    await vaulted.says("Secret web/db in cluster shop of namespace team-a is somebody else's")
    assert await find(shop.client, EXTERNAL_SECRETS, "db") is None
    assert await find(shop.client, SECRETS, "db") == before


async def test_a_platform_that_gets_vault_changes_over_and_back(world: World) -> None:
    shop = await world.cluster()
    await install(shop)
    await world.parcel(to())
    await world.is_delivered()
    plain = world.platform
    for platform, kept, gone in (
        (settings.parse(PLATFORM), EXTERNAL_SECRETS, SECRETS),
        (plain, SECRETS, EXTERNAL_SECRETS),
    ):
        await world.crash()
        world.platform = platform
        await world.start()
        await world.settle()
        await world.is_delivered()
        assert await find(shop.client, kept, "db") is not None
        assert await find(shop.client, gone, "db") is None
    assert await secret(shop) == {"text": "milk", "TEXT": "milk"}
