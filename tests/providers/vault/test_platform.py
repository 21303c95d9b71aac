"""Platforms with and without Vault: what is there, what is loaded, and what is left when it is turned off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from steelyard.api.externalsecrets.kinds import PUSH_SECRETS
from steelyard.compose import managed
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from steelyard.kube.runtime import conditions
from tests import inprocess
from tests.vault import faulty

HOME = "crossplane-system"


class Pushing:
    credentials_namespace = HOME
    secret_store = "vault-backend"


def push() -> Object:
    return managed.push(Pushing(), "shop", "secret/apps/dev/shop", {"password": "{{ .password }}"}).object


async def until_ready(client: Client, name: str) -> None:
    async with asyncio.timeout(60):
        while not conditions.is_true(await client.get(PUSH_SECRETS, name, HOME), "Ready"):  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.05)


async def test_without_vault_its_kinds_are_not_defined(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        defined = {objects.name(each) for each in (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items}

    assert not [each for each in defined if "external-secrets" in each or "vault" in each]


def test_a_platform_does_not_load_vaults_library_before_it_is_needed() -> None:
    code = "import sys, steelyard.app, steelyard.cli.main; print([m for m in ('hvac', 'requests') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


async def test_when_vault_is_turned_off_objects_can_go_and_what_is_in_vault_stays(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    name = objects.name(push())
    with faulty.serving() as vault:
        file = (
            f"integrations: {{vault: {{enabled: true, address: '{vault.address}', configure: false, "
            f"auth: {{token: {{file: {token}}}}}}}}}\n"
        )
        async with inprocess.platform(tmp_path, file) as client:
            secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop", "namespace": HOME}}
            await client.create(SECRETS, {**secret, "stringData": {"password": "p"}})
            await client.create(PUSH_SECRETS, push())
            await until_ready(client, name)
            assert vault.data == {"apps/dev/shop": {"password": "p"}}

        async with inprocess.platform(tmp_path) as client:
            await client.delete(PUSH_SECRETS, name, HOME)
            async with asyncio.timeout(60):
                while True:
                    try:
                        await client.get(PUSH_SECRETS, name, HOME)
                    except errors.NotFound:
                        break
                    await asyncio.sleep(0.05)
        assert vault.data == {"apps/dev/shop": {"password": "p"}}
