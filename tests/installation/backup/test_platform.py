"""Backup and restore as an operator does it: commands against a platform, and what the clusters live through."""

from __future__ import annotations

import asyncio
import base64
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

from steelyard.api import resources
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.installation.backup.restoring import HOOKS
from steelyard.kube import objects
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, SECRETS
from tests import forked
from tests.harness import PlatformProcess

CLAIMS = resources.workload_clusters("steelyard.dev")


def steelyard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments)


async def test_a_platform_comes_back_and_deletes_no_machine_unasked(tmp_path: Path) -> None:
    """Backed up while a scale-down to one worker is wanted, scaled to three since: nothing that runs goes away."""
    backup = tmp_path / "backup.tar"
    with PlatformProcess(tmp_path) as platform:
        where = ["--data-dir", str(platform.data_dir.root)]
        platform.start()
        client = platform.client()
        await client.create(CLAIMS, claim(workers=2))
        await until(client, lambda found: ready(found, workers=2))
        before = kubeconfig.load(platform.data_dir.kubeconfig).resolve()
        done = steelyard("backup", str(backup), *where)
        assert done.returncode == 0, done.stderr
        assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        assert "exists already" in steelyard("backup", str(backup), *where).stderr
        newest = int((await client.list(CLAIMS)).resource_version)
        await client.patch(CLAIMS, "shop", {"spec": {"parameters": {"workerReplicas": 4}}}, "default")
        await until(client, lambda found: ready(found, workers=4))
        running = await node_names(client)
        assert len(running) == 5
        refused = steelyard("restore", str(backup), "--force", *where)
        assert refused.returncode == 1
        assert "steelyard down" in refused.stderr
        await client.close()
        assert platform.terminate() == 0

        assert "--force" in steelyard("restore", str(backup), *where).stderr
        done = steelyard("restore", str(backup), "--force", *where)
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("    shop/shop-md-0-") == 2
        platform.start()
        after = kubeconfig.load(platform.data_dir.kubeconfig).resolve()
        assert (after.token, after.certificate_authority) == (before.token, before.certificate_authority)
        client = platform.client()
        assert int((await client.list(CLAIMS)).resource_version) > newest
        await until(client, lambda found: ready(found, workers=2))
        await client.patch(CLAIMS, "shop", {"spec": {"parameters": {"workerReplicas": 0}}}, "default")
        await until_held(client, 2)
        assert await node_names(client) == running

        for machine in (await client.list(MACHINES)).items:
            consent = {"metadata": {"annotations": dict.fromkeys(HOOKS)}}
            await client.patch(MACHINES, objects.name(machine), consent, "default")
        await until_machines(client, 1)
        assert len(await node_names(client)) == 3
        await client.close()


def test_an_offline_backup_needs_no_platform_and_a_half_restored_one_does_not_start(tmp_path: Path) -> None:
    with PlatformProcess(tmp_path) as platform:
        where = ["--data-dir", str(platform.data_dir.root)]
        nothing = steelyard("backup", str(tmp_path / "none.tar"), *where)
        assert nothing.returncode == 1
        assert "nothing to back up" in nothing.stderr
        assert not (tmp_path / "none.tar").exists()
        platform.start()
        platform.kill()
        assert steelyard("backup", str(tmp_path / "backup.tar"), *where).returncode == 0
        platform.data_dir.restoring.touch()
        kept = platform.data_dir.root / "replaced-then"
        kept.mkdir()
        refused = steelyard("up", "--port", "0", *where)
        assert refused.returncode == 1
        assert "restore was interrupted" in refused.stderr
        assert str(kept) in refused.stderr
        assert steelyard("restore", str(tmp_path / "backup.tar"), "--force", *where).returncode == 0
        platform.start()


def claim(*, workers: int) -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"parameters": {"environment": "dev", "workerReplicas": workers}},
    }


def ready(found: Object, *, workers: int) -> bool:
    conditions = objects.sequence(objects.at(found, "status", "conditions"))
    is_ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return is_ready and objects.at(found, "status", "workers", "summary") == f"{workers}/{workers}"


async def until(client: HttpClient, done: Callable[[Object], bool]) -> None:
    for _ in range(600):
        if done(await client.get(CLAIMS, "shop", "default")):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(await client.get(CLAIMS, "shop", "default"))


async def until_machines(client: HttpClient, number: int) -> None:
    for _ in range(600):
        if len((await client.list(MACHINES)).items) == number:
            return
        await asyncio.sleep(0.05)
    raise AssertionError((await client.list(MACHINES)).items)


async def until_held(client: HttpClient, number: int) -> None:
    """That many machines are to be deleted, and say what they wait for."""
    for _ in range(600):
        machines = (await client.list(MACHINES)).items
        messages = [
            str(condition.get("message"))
            for machine in machines
            for condition in objects.sequence(objects.at(machine, "status", "conditions"))
            if condition["type"] == "Deleting" and condition["status"] == "True"
        ]
        if sum("restored" in message for message in messages) == number:
            return
        await asyncio.sleep(0.05)
    raise AssertionError((await client.list(MACHINES)).items)


async def node_names(client: HttpClient) -> set[str]:
    secret = await client.get(SECRETS, "shop-kubeconfig", "default")
    workload = HttpClient.from_kubeconfig(base64.b64decode(secret["data"]["value"]))
    try:
        return {objects.name(node) for node in (await workload.list(NODES)).items}
    finally:
        await workload.close()
