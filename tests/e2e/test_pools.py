"""Pools of workers on simulated machines: their Nodes are as asked for, and each pool rolls by itself."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

from steelyard.api import troubles
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.kube import objects
from steelyard.kube.client import kubeconfig
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, SECRETS
from tests import inprocess

POOL: Object = {
    "name": "gpu",
    "replicas": 2,
    "cpuCores": 16,
    "labels": {"example.com/gpu": "true"},
    "taints": [{"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"}],
}


def claim() -> Object:
    return {
        "apiVersion": "compute.steelyard.dev/v1alpha1",
        "kind": "KubernetesCluster",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "parameters": {"environment": "dev", "workerNodes": 1, "workerMemory": "4Gi", "nodePools": [POOL]},
        },
    }


async def machines(client: Client) -> dict[str, set[str]]:
    """UIDs by MachineDeployment, those of the control plane under nothing."""
    found: dict[str, set[str]] = {}
    for machine in (await client.list(MACHINES, "default")).items:
        pool = objects.labels(machine).get("cluster.x-k8s.io/deployment-name", "")
        found.setdefault(pool, set()).add(objects.uid(machine))
    return found


async def nodes(client: Client, folder: Path) -> list[Object]:
    secret = await client.get(SECRETS, "shop-kubeconfig", "default")
    path = folder / "shop.kubeconfig"
    path.write_bytes(base64.b64decode(secret["data"]["value"]))
    path.chmod(0o600)
    cluster = HttpClient(kubeconfig.load(path).resolve())
    try:
        return list((await cluster.list(NODES)).items)
    finally:
        await cluster.close()


def is_as_asked_for(obj: Object) -> bool:
    found = troubles.condition(obj, "UpToDate")
    return found.get("status") == "True" and found.get("observedGeneration") == objects.generation(obj)


async def change(client: Client, pools: list[Object]) -> Object:
    kind = inprocess.resource_of(claim())
    changed = await client.patch(kind, "shop", {"spec": {"parameters": {"nodePools": pools}}}, "default")
    return (await inprocess.until(client, changed, is_as_asked_for))[-1]


async def test_a_pool_comes_rolls_and_goes_without_the_others(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        ready = await inprocess.becomes_ready(client, claim())
        assert ready["status"]["workers"]["summary"] == "3/3"
        assert ready["status"]["clusterReady"] is True
        assert ready["status"]["kubeconfig"] == "default/shop-kubeconfig"
        of_pool = [
            each for each in await nodes(client, tmp_path) if objects.labels(each).get("example.com/gpu") == "true"
        ]
        assert [each["status"]["capacity"]["cpu"] for each in of_pool] == ["16", "16"]
        assert all(
            {"key": "example.com/gpu", "value": "yes", "effect": "NoSchedule"} in each["spec"]["taints"]
            for each in of_pool
        )
        before = await machines(client)

        await change(client, [{**POOL, "cpuCores": 32}])
        after = await machines(client)
        assert after["shop-md-0"] == before["shop-md-0"]
        assert after[""] == before[""]
        assert len(after["shop-md-gpu"]) == 2
        assert not after["shop-md-gpu"] & before["shop-md-gpu"]

        await change(client, [])
        assert await _until_gone(client, "shop-md-gpu")
        left = await machines(client)
        assert left["shop-md-0"] == before["shop-md-0"]


async def _until_gone(client: Client, pool: str) -> bool:
    for _ in range(400):
        if pool not in await machines(client):
            return True
        await asyncio.sleep(0.05)
    return False
