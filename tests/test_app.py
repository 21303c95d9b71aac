"""The platform as a whole: health, restart, a damaged database."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import aiohttp

from steelyard.api import resources
from steelyard.kube import objects
from steelyard.kube.client import kubeconfig, tls
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS
from tests import forked
from tests.harness import PlatformProcess

CLAIMS = resources.workload_clusters("steelyard.dev")


async def test_readiness_names_the_store_and_the_controllers(platform: PlatformProcess) -> None:
    connection = kubeconfig.load(platform.data_dir.kubeconfig).resolve()
    url = f"{connection.server}/readyz?verbose"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls.context_of(connection)) as response:
        text = await response.text()
    assert response.status == 200
    assert "[+]store ok" in text
    assert "[+]controllers ok" in text


async def test_a_restart_keeps_objects_token_and_certificate(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        before = kubeconfig.load(platform.data_dir.kubeconfig).resolve()
        client = platform.client()
        await client.create(CONFIG_MAPS, _config_map())
        await client.close()
        assert platform.terminate() == 0
        platform.start()
        after = kubeconfig.load(platform.data_dir.kubeconfig).resolve()
        assert (after.token, after.certificate_authority) == (before.token, before.certificate_authority)
        client = platform.client()
        assert (await client.get(CONFIG_MAPS, "kept", "default"))["data"] == {"a": "b"}
        await client.close()


async def test_an_idle_platform_writes_nothing_also_after_a_restart(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        client = platform.client()
        await client.create(CLAIMS, _claim())
        await _until_ready(client)
        await client.close()
        assert platform.terminate() == 0
        settled = _revision_in(platform.data_dir.database)
        platform.start()
        client = platform.client()
        await _until_ready(client)
        await client.close()
        assert platform.terminate() == 0
        assert _revision_in(platform.data_dir.database) == settled


def test_a_damaged_database_is_told_and_not_served(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        platform.terminate()
        database = sqlite3.connect(platform.data_dir.database)
        database.execute("UPDATE log SET value = replace(value, 'Active', 'Akkive') WHERE key LIKE '%kube-public'")
        database.commit()
        database.close()
        answer = forked.run(["up", "--port", "0", "--data-dir", str(platform.data_dir.root)])
    assert answer.returncode == 1
    assert "kube-public" in answer.stderr
    assert "backup" in answer.stderr
    assert "Traceback" not in answer.stderr


def _claim() -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": "idle", "namespace": "default"},
        "spec": {"parameters": {"environment": "dev"}},
    }


def _config_map() -> Object:
    metadata = {"name": "kept", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}


async def _until_ready(client: Client) -> None:
    """Ready, and no change for as long as a burst of reconciles could pause."""
    async for event in client.watch(CLAIMS, "default", resource_version="0"):
        conditions = objects.sequence(objects.at(event.object, "status", "conditions"))
        if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions):
            break
    await _quiet(client)


async def _quiet(client: Client) -> None:
    before = ""
    while (now := (await client.list(CONFIG_MAPS, limit=1)).resource_version) != before:
        before = now
        await asyncio.sleep(0.7)


def _revision_in(database: Path) -> int:
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute("SELECT max(revision) FROM log").fetchone()[0])
    finally:
        connection.close()
