"""Other controllers for the same objects, in place: ours, then Cluster API's own, then ours again. No machine notices.

The embedded platform is started with and without its lifecycle; in between Cluster API's managers are installed, with
their definitions and webhooks, and taken away again, but for the definitions.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from steelyard.kube import objects
from tests.ecosystem.capi import life, stages
from tests.ecosystem.capi.stages import Stage
from tests.ecosystem.outcome import Outcome
from tests.harness import PlatformProcess
from tests.kubectl import Kubectl

SETTLE: Final = "STEELYARD_SETTLE_SECONDS"
"""For how long each side is watched before its first order: ten minutes are what is promised, and long."""
_BRIEFLY: Final = 60.0
_LOOK_SECONDS: Final = 5.0
_NAME: Final = f"ours, Cluster API {life.VERSION}'s managers and ours again, over the same machines"


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    done: list[str] = []
    try:
        async for step in _story(folder, kubectl, float(os.environ.get(SETTLE) or _BRIEFLY)):
            done.append(step)  # noqa: PERF401 (what was done before a failure counts)
    except (AssertionError, OSError) as error:
        story = f"after: {'; '.join(done)}\n{type(error).__name__}: {error}\n{stages.complaints(folder)}"
        return Outcome(_NAME, len(done), 1, story=story)
    return Outcome(_NAME, len(done), 0, "; ".join(done))


async def _story(folder: Path, kubectl: str, settle: float) -> AsyncIterator[str]:
    with stages.platform(folder, lifecycle=True) as platform:
        kubeconfig = platform.data_dir.kubeconfig
        stage = Stage(Kubectl(kubectl, kubeconfig, folder / "cache"), kubeconfig, folder)
        await asyncio.to_thread(stage.apply, life.CLAIM)
        await asyncio.to_thread(stage.ready, "shop")
        machines = await asyncio.to_thread(_machines, stage)
        assert len(machines) == 4, machines
        yield "ours made 1 + 3 machines"

        await asyncio.to_thread(_restart, platform, "--without", "lifecycle")
        async with stages.theirs(kubeconfig, folder / "managers"):
            await asyncio.to_thread(_stays, stage, machines, settle)
            yield f"after {settle:.0f} s of theirs each is the same"
            machines = await asyncio.to_thread(_grows, stage, machines, 4)
            yield "theirs add a worker"
        await asyncio.to_thread(_uninstall, stage)

        await asyncio.to_thread(_restart, platform)
        await asyncio.to_thread(_stays, stage, machines, settle)
        yield f"after {settle:.0f} s of ours again each is the same"
        await asyncio.to_thread(_grows, stage, machines, 5)
        yield "ours add a worker"


def _restart(platform: PlatformProcess, *arguments: str) -> None:
    assert platform.terminate() == 0
    platform.arguments = list(arguments)
    platform.start()


def _uninstall(stage: Stage) -> None:
    """What would refuse every write once the managers are gone. Definitions stay: objects go with them."""
    for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        names = [objects.name(each) for each in stage.items(kind)]
        stage.kube("delete", kind, *names)


def _machines(stage: Stage) -> Mapping[str, str]:
    return {objects.name(each): objects.uid(each) for each in stage.items("machines")}


def _stays(stage: Stage, machines: Mapping[str, str], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert _machines(stage) == machines
        time.sleep(_LOOK_SECONDS)
    stage.ready("shop")
    for each in stage.items("machines"):
        assert objects.at(each, "status", "phase") == "Running", each


def _grows(stage: Stage, machines: Mapping[str, str], workers: int) -> Mapping[str, str]:
    life.change(stage, workerReplicas=workers)
    stage.ready("shop", lambda it: life.summaries(it) == ("1/1", f"{workers}/{workers}"))
    found = _machines(stage)
    assert len(found) == len(machines) + 1, found
    assert machines.items() <= found.items(), (machines, found)
    return found
