"""A claim for a cluster with External Secrets, on the platform as it runs: the store of secrets is brought into the
cluster, and the claim is Ready. Vault is played: what is pushed to it counts as pushed."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from steelyard import app, settings
from steelyard.api import state
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS, CLUSTER_RESOURCE_SETS
from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, PUSH_SECRETS
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, SERVICE_ACCOUNTS
from steelyard.kube.runtime import conditions
from tests import inprocess
from tests.controllers.delivery.test_whole_platform import until
from tests.harness import INSTANT

FILE = """
integrations:
  vault: {enabled: true, address: "https://vault.example.org:8200", configure: false}
  externalSecrets: {enabled: true}
"""


@contextlib.asynccontextmanager
async def platform(folder: Path) -> AsyncGenerator[Client]:
    parsed = settings.parse(INSTANT + FILE)
    options = app.Options(DataDir(folder / "data"), "127.0.0.1", 0, parsed, without=frozenset({"vault"}))
    async with app.started(options) as running:
        yield running.client


async def pushed(client: Client) -> None:
    """As External Secrets says it."""
    done: Object = {"type": "Ready", "status": "True", "reason": "Synced", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    async def are_there() -> bool:
        return len((await client.list(PUSH_SECRETS)).items) == 2

    await until(are_there, "what is pushed to Vault")
    for each in (await client.list(PUSH_SECRETS)).items:
        where = (objects.name(each), {"status": {"conditions": [done]}}, objects.namespace(each))
        await client.patch(PUSH_SECRETS, *where, subresource="status")


async def inside(client: Client) -> tuple[Object, Object]:
    """The store in the cluster, and the account that it logs in with."""
    secret = await client.get(SECRETS, "shop-kubeconfig", "default")
    cluster = HttpClient.from_kubeconfig(base64.b64decode(secret["data"]["value"]).decode())
    try:
        store = await cluster.get(CLUSTER_SECRET_STORES, "vault-backend")
        return store, await cluster.get(SERVICE_ACCOUNTS, "external-secrets-sa", "external-secrets")
    finally:
        await cluster.close()


async def test_the_store_is_brought_into_the_cluster_and_the_claim_becomes_ready(tmp_path: Path) -> None:
    async with platform(tmp_path) as client:
        await inprocess.namespace(client, "crossplane-system")
        made = await client.create(inprocess.CLAIMS, inprocess.claim("shop", workerReplicas=1))
        await pushed(client)
        await inprocess.until(client, made, lambda obj: state.of(obj).word == state.READY)
        before = await inside(client)
        provider = objects.at(before[0], "spec", "provider", "vault")
        assert provider["server"] == "https://vault.example.org:8200"
    async with platform(tmp_path) as client:
        assert conditions.is_true(
            await client.get(CLUSTER_RESOURCE_SETS, "shop-secret-store", "default"), "ResourcesApplied"
        )

        async def is_as_before() -> bool:
            with contextlib.suppress(errors.ServiceUnavailable):
                return await inside(client) == before
            return False

        await until(is_as_before, "a restart changes nothing")
        await client.delete(inprocess.CLAIMS, "shop", "default")

        async def is_gone() -> bool:
            kinds = (inprocess.CLAIMS, CLUSTER_RESOURCE_SETS, CLUSTER_RESOURCE_SET_BINDINGS)
            return not any([(await client.list(kind)).items for kind in kinds])

        await until(is_gone, "nothing left")
