"""Brings up many simulated clusters at once, from claims, and tells how long it took until all were Ready."""

from __future__ import annotations

import asyncio
import time

from steelyard.api import resources
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object

CLAIMS = resources.workload_clusters("steelyard.dev")
_DEADLINE = 900.0


async def bring_up(client: Client, count: int, *, control_plane: int, workers: int) -> float:
    started = time.perf_counter()
    for first in range(0, count, 16):
        await asyncio.gather(
            *(
                client.create(CLAIMS, _claim(number, control_plane, workers))
                for number in range(first, min(first + 16, count))
            )
        )
    async with asyncio.timeout(_DEADLINE):
        await _all_ready(client, count)
    return time.perf_counter() - started


async def _all_ready(client: Client, count: int) -> None:
    while True:
        listed = await client.list(CLAIMS)
        ready = {objects.name(claim) for claim in listed.items if _is_ready(claim)}
        if len(ready) == count:
            return
        try:
            async for event in client.watch(CLAIMS, resource_version=listed.resource_version):
                if event.type == "MODIFIED" and _is_ready(event.object):
                    ready.add(objects.name(event.object))
                    if len(ready) == count:
                        return
        except errors.Expired:
            continue


def _is_ready(claim: Object) -> bool:
    conditions = map(objects.mapping, objects.sequence(objects.at(claim, "status", "conditions")))
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _claim(number: int, control_plane: int, workers: int) -> Object:
    parameters = {"environment": "dev", "controlPlaneReplicas": control_plane, "workerReplicas": workers}
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": f"bench-{number:04d}", "namespace": "default"},
        "spec": {"parameters": parameters},
    }
