"""`clusterctl move` between two embedded platforms: a living cluster of simulated machines that nobody claimed, made of
manifests of Cluster API. A cluster that is a claim's stays where it is: clusterctl knows no claims."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINE_DEPLOYMENTS, MACHINES
from steelyard.kube import objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from tests.ecosystem import moving
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, PlatformProcess, built
from tests.inprocess import CLAIMS, claim
from tests.kubectl import Kubectl
from tests.moving import worlds

_NAME: Final = "clusterctl 1.11.3 move between two embedded platforms"
_COMMAND_SECONDS: Final = 300.0


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    done: list[str] = []
    (program,) = built("clusterctl")
    platforms = [PlatformProcess(folder / name) for name in ("here", "there")]
    try:
        for each in platforms:
            each.arguments = ["--without", "simulated"]
            await asyncio.to_thread(each.start)
        async for told in _story(folder, kubectl, program, *platforms):
            print(f"  {told}", flush=True)
            done.append(told)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return Outcome(_NAME, len(done), 1, "; ".join(done), f"{type(error).__name__}: {error}\n{moving.logs(folder)}")
    finally:
        for each in platforms:
            if each.is_alive:
                each.terminate()
    return Outcome(_NAME, len(done), 0, "; ".join(done))


async def _story(
    folder: Path, kubectl: str, program: str, here: PlatformProcess, there: PlatformProcess
) -> AsyncIterator[str]:
    (folder / "platform.yaml").write_text(INSTANT)
    (folder / "claim.yaml").write_text(json.dumps(claim(workerReplicas=2)))
    rendered = moving.steelyard(folder, "render", "-f", "claim.yaml", "--platform", "platform.yaml")
    source, target = here.client(), there.client()
    paths = here.data_dir.kubeconfig, there.data_dir.kubeconfig
    try:
        with moving.controllers(folder, paths[0], "simulated", "machines"):
            kube = Kubectl(kubectl, paths[0], folder / "cache")
            await asyncio.to_thread(kube, "create", "-f", "-", stdin=rendered)
            await _running(source, 3)
            before = await worlds.seen(source, "shop")
            yield "manifests of Cluster API become a cluster that nobody claimed"

            await asyncio.to_thread(_clusterctl, program, folder, *_move(*paths))
            for kind in (CLUSTERS, MACHINES):
                assert not (await source.list(kind)).items
            yield "clusterctl move brings it to the other platform, and leaves nothing"
        with moving.controllers(folder, paths[1], "simulated", "machines-there"):
            await _running(target, 3)
            assert await moving.seen(target) == before
            yield "machines, providerIDs, addresses, Nodes' UIDs and ages, and the cluster's keys are the same"

            await target.patch(MACHINE_DEPLOYMENTS, "shop-md-0", {"spec": {"replicas": 3}}, "default")
            await _running(target, 4)
            grown = await moving.seen(target)
            assert before["machines"].items() < grown["machines"].items()
            yield "there it grows by a worker, beside the machines that it had"

            await target.create(CLAIMS, claim("claimed", workerReplicas=1))
            await worlds.eventually(
                lambda: target.get(CLAIMS, "claimed", "default"), lambda it: conditions.is_true(it, "Ready")
            )
            own = await _machines_of(target, "claimed")
            assert len(own) == 2
            told = await asyncio.to_thread(_refused, program, folder, *_move(*reversed(paths)))
            assert 'Cluster default/claimed: clusters.cluster.x-k8s.io "claimed" not found' in told, told
            assert await _machines_of(target, "claimed") == own
            await target.patch(CLUSTERS, "claimed", {"spec": {"paused": None}}, "default")
            await target.patch(CLAIMS, "claimed", {"spec": {"parameters": {"workerReplicas": 2}}}, "default")
            grown = await worlds.eventually(
                lambda: _machines_of(target, "claimed"), lambda found: len(found) == 3 and all(found.values())
            )
            assert own.items() < grown.items()
            yield "a claimed cluster it leaves where it is, paused, and says so at the end; unpaused, it goes on"
    finally:
        for each in (source, target):
            with contextlib.suppress(OSError):
                await each.close()


async def _machines_of(client: HttpClient, cluster: str) -> dict[str, str]:
    found = await client.list(MACHINES, label_selector=f"{wellknown.CLUSTER_NAME_LABEL}={cluster}")
    return {objects.name(each): str(objects.at(each, "spec", "providerID") or "") for each in found.items}


async def _running(client: HttpClient, count: int) -> None:
    async def machines() -> list[Object]:
        return list((await client.list(MACHINES)).items)

    def are_so(found: Any) -> bool:
        phases = [objects.at(each, "status", "phase") for each in found]
        return phases == ["Running"] * count and all(conditions.is_true(each, "Ready") for each in found)

    await worlds.eventually(machines, are_so)
    await worlds.eventually(
        lambda: client.get(CLUSTERS, "shop", "default"), lambda it: conditions.is_true(it, "ControlPlaneInitialized")
    )


def _move(source: Path, target: Path) -> tuple[str, ...]:
    return ("move", "--kubeconfig", str(source), "--to-kubeconfig", str(target), "-n", "default")


def _clusterctl(program: str, folder: Path, *words: str) -> str:
    done = _done(program, folder, *words)
    assert done.returncode == 0, f"clusterctl {' '.join(words)}: {done.stderr}"
    return done.stdout


def _refused(program: str, folder: Path, *words: str) -> str:
    done = _done(program, folder, *words)
    assert done.returncode != 0, f"clusterctl {' '.join(words)} was not refused: {done.stderr}"
    return done.stderr


def _done(program: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "clusterctl.yaml").write_text("providers: []\n")
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    # Nothing is asked of the outside, nor of a cluster that somebody works with.
    environment |= {"CLUSTERCTL_DISABLE_VERSIONCHECK": "true", "KUBECONFIG": str(folder / "none")}
    return subprocess.run(
        [program, *words, "--config", str(folder / "clusterctl.yaml")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
