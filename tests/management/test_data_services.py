"""Databases, caches and secrets on a management cluster, brought about with the rights of the manifests alone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard import settings
from steelyard.api import postgresql, redis, state
from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, EXTERNAL_SECRETS, PUSH_SECRETS
from steelyard.installation.datadir import DataDir
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.management import running
from tests import scratch
from tests.harness import INSTANT
from tests.management import clusters
from tests.management.clusters import NAMESPACE
from tests.management.test_controllers import needed
from tests.providers.vault.test_platform import HOME, push
from tests.vault import faulty

DATABASES = postgresql.resource("steelyard.dev")
CACHES = redis.resource("steelyard.dev")


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the users of servers can enter."""
    made = scratch.folder("management")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def claim(resource: Resource, **parameters: Any) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "parameters": {"environment": "dev", **parameters},
            "writeConnectionSecretToRef": {"name": "shop-connection"},
        },
    }


@pytest.mark.parametrize(
    ("provider", "made"),
    [("redis", claim(CACHES, memoryGB=1)), ("postgres", claim(DATABASES))],
    ids=["redis", "postgres"],
)
async def test_a_claim_lives_and_goes_with_these_rights(
    folder: Path, caplog: pytest.LogCaptureFixture, provider: str, made: Object
) -> None:
    resource = CACHES if provider == "redis" else DATABASES
    async with clusters.management(folder) as (client, administrator):
        await clusters.install(client, clusters.rights(needed("claims", provider)))
        options = running.Options(
            ("claims", provider),
            await clusters.account(administrator),
            NAMESPACE,
            platform=settings.parse(INSTANT),
            data_dir=DataDir(folder / "world"),
        )
        async with running.started(options):
            await client.create(resource, made)
            await clusters.until(client, resource, "shop", state.is_ready)
            assert (await client.get(SECRETS, "shop-connection", "default"))["data"]["password"]
            await client.delete(resource, "shop", "default")
            await clusters.gone(client, resource)
            told = [str(each.get("message")) for each in (await client.list(EVENTS)).items]
            assert not [each for each in told if "forbidden" in each.lower()]
            left = [objects.name(each) for each in (await client.list(SECRETS, "default")).items]
            assert "shop-connection" not in left
    assert not [each for each in caplog.records if "forbidden" in str(vars(each)).lower()]


async def test_what_is_pushed_to_vault_and_pulled_from_it_is_with_these_rights(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = folder / "token"
    token.write_text("t")
    store = {"name": "vault-backend", "kind": CLUSTER_SECRET_STORES.kind}
    with faulty.serving() as vault:
        file = (
            f"integrations: {{vault: {{enabled: true, address: '{vault.address}', configure: false, "
            f"auth: {{token: {{file: {token}}}}}}}}}\n"
        )
        async with clusters.management(folder, platform=INSTANT + file) as (client, administrator):
            await clusters.install(client, clusters.rights(needed("vault")))
            options = running.Options(
                ("vault",),
                await clusters.account(administrator),
                NAMESPACE,
                platform=settings.parse(INSTANT + file),
                data_dir=DataDir(folder / "world"),
            )
            async with running.started(options) as here:
                async with asyncio.timeout(clusters.DEADLINE):
                    await here.leading.wait()
                secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop", "namespace": HOME}}
                await client.create(SECRETS, {**secret, "stringData": {"password": "p"}})
                pushed = push()
                await client.create(PUSH_SECRETS, pushed)
                await _until_ready(client, PUSH_SECRETS, objects.name(pushed))
                assert vault.data == {"apps/dev/shop": {"password": "p"}}
                remote = {"key": "apps/dev/shop", "property": "password"}
                pulled: Object = {
                    "apiVersion": EXTERNAL_SECRETS.api_version,
                    "kind": EXTERNAL_SECRETS.kind,
                    "metadata": {"name": "copy", "namespace": HOME},
                    "spec": {
                        "secretStoreRef": store,
                        "target": {"name": "copy"},
                        "data": [{"secretKey": "word", "remoteRef": remote}],
                    },
                }
                await client.create(EXTERNAL_SECRETS, pulled)
                await _until_ready(client, EXTERNAL_SECRETS, "copy")
                assert (await client.get(SECRETS, "copy", HOME))["data"] == {"word": "cA=="}
    assert not [each for each in caplog.records if "forbidden" in str(vars(each)).lower()]


async def _until_ready(client: Client, resource: Resource, name: str) -> None:
    async with asyncio.timeout(clusters.DEADLINE):
        while not conditions.is_true(await client.get(resource, name, HOME), "Ready"):  # noqa: ASYNC110 (seen from outside)
            await asyncio.sleep(0.05)
