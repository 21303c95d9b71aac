"""Brings up many simulated clusters at once, from claims: how long until all are Ready, what that takes of processor
and memory, whether each takes more where there are more, and what they cost when idle.

Nothing stands beside it that was not measured in the same run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench import servers
from bench.servers import Ours
from steelyard.api import resources
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS
from tests.ecosystem.capi import stages
from tests.harness import built

CLAIMS = resources.workload_clusters("steelyard.dev")
_DEADLINE = 1800.0
_IDLE_AT: Final = 100
_AIMS: Final = {100: (10.0, 300.0), 1000: (60.0, 1000.0)}
"""Seconds and megabytes, for so many clusters."""


async def measure(folder: Path, counts: Sequence[int], idle_seconds: float, by_theirs: int = 0) -> None:
    """Prints as it goes. Each count has a platform of its own; of those the one with a hundred, or else the last, is
    watched while it has nothing to do. `by_theirs` clusters are brought up by Cluster API's managers too."""
    watched = _IDLE_AT if _IDLE_AT in counts else counts[-1]
    each: dict[int, float] = {}
    for count in counts:
        server = Ours(folder / f"clusters-{count}")
        try:
            server.start()
            client = server.client()
            each[count] = await _bring_up(server, client, count)
            if count == watched and idle_seconds:
                await _idle(server, client, count, idle_seconds)
            await client.close()
        finally:
            server.stop()
    fewest, most = min(counts), max(counts)
    if fewest < most:
        what = f"processor time of a cluster, of {most} to of {fewest}"
        _report(what, each[most] / each[fewest], "x")
    if by_theirs:
        await measure_theirs(folder / "theirs", by_theirs, each.get(by_theirs))


async def measure_theirs(folder: Path, count: int, ours: float | None) -> None:
    """The same claims where Cluster API's own managers do the work, on kube-apiserver, with our claims and machines:
    the processor time and the memory of all these programs together. `ours` is what a cluster takes with ours."""
    (kubectl,) = built("kubectl")
    await asyncio.to_thread(folder.mkdir)
    async with stages.on_kubernetes(folder, kubectl) as stage:
        client = HttpClient.from_kubeconfig(stage.kubeconfig)
        used = servers.processor_seconds(servers.descendants())
        took = await bring_up(client, count, control_plane=1, workers=3)
        used = (servers.processor_seconds(servers.descendants()) - used) / count
        _report(f"{count} clusters by Cluster API's managers to Ready", took, "s")
        _report("  processor time for each, of all programs", used, "s")
        _report("  resident, all programs", servers.resident(servers.descendants()) / 1e6, "MB")
        if ours is not None:
            _report("  processor time of a cluster, ours to theirs", ours / used, "x")
        await client.close()


async def _bring_up(server: Ours, client: Client, count: int) -> float:
    """Seconds of processor for each cluster."""
    used, written = server.processor_seconds(), await _revision(client)
    took = await bring_up(client, count, control_plane=1, workers=3)
    used = server.processor_seconds() - used
    seconds, megabytes = _AIMS.get(count, (None, None))
    _report(f"{count} clusters of 1 + 3 to Ready", took, "s", seconds)
    _report("  processor time for each", used / count, "s")
    _report("  resident", server.resident() / 1e6, "MB", megabytes)
    _report("  writes for each", (await _revision(client) - written) / count, "")
    return used / count


async def _idle(server: Ours, client: Client, count: int, seconds: float) -> None:
    await asyncio.sleep(5)
    first, used = await _revision(client), server.processor_seconds()
    await asyncio.sleep(seconds)
    _report(f"writes in {seconds:g} idle seconds with {count} clusters", await _revision(client) - first, "")
    used = server.processor_seconds() - used
    _report("  processor used meanwhile", used / seconds * 100, "% of a core")


def _report(what: str, value: float, unit: str, aim: float | None = None) -> None:
    beside = f"   aim {aim:g} {unit}: {'met' if value <= aim else 'not met'}" if aim is not None else ""
    print(f"{what:<52} {value:10.3f} {unit}{beside}", flush=True)


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
