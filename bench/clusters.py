"""Brings up many simulated clusters at once, from claims: how long until all are Ready, and what they cost when idle.

Upstream's figures are recorded, not measured again: 100 clusters take Cluster API's managers eight minutes. They are
kube-apiserver, etcd, Cluster API v1.11.3 and its in-memory provider with zero delays on 2 cores.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from bench.servers import Ours
from steelyard.api import resources
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS

CLAIMS = resources.workload_clusters("steelyard.dev")
_DEADLINE = 900.0
_UPSTREAM_SECONDS: Final = 4.74
_UPSTREAM_PROCESSOR_SECONDS: Final = 9.17
_UPSTREAM_MB: Final = 40.0
"""Of 100 clusters, divided by 100."""


async def measure(folder: Path, count: int, idle_seconds: float) -> None:
    """Prints as it goes."""
    server = Ours(folder / "clusters")
    try:
        server.start()
        client = server.client()
        before = server.processor_seconds()
        took = await bring_up(client, count, control_plane=1, workers=3)
        _report(f"{count} clusters of 1 + 3 to Ready", took, "s", _UPSTREAM_SECONDS * count)
        _report("  processor time", server.processor_seconds() - before, "s", _UPSTREAM_PROCESSOR_SECONDS * count)
        _report("  resident", server.resident() / 1e6, "MB", _UPSTREAM_MB * count)
        _report("  writes", await _revision(client), "")
        if idle_seconds:
            await asyncio.sleep(5)
            first, used = await _revision(client), server.processor_seconds()
            await asyncio.sleep(idle_seconds)
            written = await _revision(client) - first
            _report(f"writes in {idle_seconds:g} idle seconds with {count} clusters", written, "")
            used = server.processor_seconds() - used
            _report("  processor used meanwhile", used / idle_seconds * 100, "% of a core")
        await client.close()
    finally:
        server.stop()


def _report(what: str, value: float, unit: str, upstream: float | None = None) -> None:
    ratio = f"   upstream {upstream:g} {unit}, ours/upstream {value / upstream:.2f}" if upstream else ""
    print(f"{what:<52} {value:10.2f} {unit}{ratio}", flush=True)


async def _revision(client: Client) -> int:
    return int((await client.list(CONFIG_MAPS, limit=1)).resource_version)


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
