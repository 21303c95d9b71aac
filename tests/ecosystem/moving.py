"""`steelyard move` from the embedded platform to Kubernetes' own API server, and back: a living cluster of simulated
machines, whose provider runs for itself and is told which API to look at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Final

from steelyard.api import state
from steelyard.kube import objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from tests.conformance import keys, upstream
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, ROOT, PlatformProcess
from tests.inprocess import CLAIMS, claim
from tests.kubectl import Kubectl
from tests.moving import worlds

_NAME: Final = "steelyard move from the embedded platform to kube-apiserver and back"
_WITH: Final = "claims,lifecycle,simulated"
_COMMAND_SECONDS: Final = 300.0
_MADE: Final = ("workloadclusters", "clusters", "machines", "kubeadmconfigs", "simulatedmachines", "simulatedclusters")


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    (folder / "upstream").mkdir()
    keys.write(folder / "shared")
    done: list[str] = []
    platform = PlatformProcess(folder / "embedded")
    platform.arguments = ["--without", "simulated"]
    try:
        async with upstream.running(folder / "upstream", folder / "shared"):
            await asyncio.to_thread(platform.start)
            async for each in _story(folder, kubectl, platform):
                print(f"  {each}", flush=True)
                done.append(each)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return Outcome(_NAME, len(done), 1, "; ".join(done), f"{type(error).__name__}: {error}\n{logs(folder)}")
    finally:
        if platform.is_alive:
            platform.terminate()
    return Outcome(_NAME, len(done), 0, "; ".join(done))


def logs(folder: Path) -> str:
    return "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log")))


async def _story(folder: Path, kubectl: str, platform: PlatformProcess) -> AsyncIterator[str]:
    (folder / "platform.yaml").write_text(INSTANT)
    here, there = platform.data_dir.kubeconfig, _trusting(folder)
    await asyncio.to_thread(_install, folder, kubectl)
    yield "the definitions, policies and rights of steelyard manifests are on kube-apiserver"

    source, target = platform.client(), HttpClient.from_kubeconfig(there)
    try:
        with controllers(folder, there, "claims,lifecycle", "controllers"):
            with controllers(folder, here, "simulated", "machines"):
                await source.create(CLAIMS, claim(workerReplicas=2))
                await _ready(source, 2)
                before = await worlds.seen(source, "shop")
                listed = await asyncio.to_thread(_move, folder, here, there, "--dry-run")
                assert "WorkloadCluster" in listed, listed
                assert (await target.list(CLAIMS)).items == []
                yield f"--dry-run lists {len(listed.splitlines()) - 1} objects, and moves none"

                told = await asyncio.to_thread(_move, folder, here, there)
                await _nothing_left(kubectl, folder, here)
                yield f"{told.strip().rpartition(' to ')[0]} to kube-apiserver, and nothing is left"
            with controllers(folder, there, "simulated", "machines-there"):
                await _ready(target, 2)
                assert await seen(target) == before
                yield "machines, providerIDs, addresses, Nodes' UIDs and ages, and the cluster's keys are the same"

                await target.patch(CLAIMS, "shop", {"spec": {"parameters": {"workerReplicas": 3}}}, "default")
                await _ready(target, 3)
                grown = await seen(target)
                assert before["machines"].items() < grown["machines"].items()
                yield "there it grows by a worker, beside the machines that it had"

                told = await asyncio.to_thread(_move, folder, there, here)
                await _nothing_left(kubectl, folder, there)
                yield f"{told.strip().rpartition(' to ')[0]} back, and nothing is left on kube-apiserver"
        with controllers(folder, here, "simulated", "machines-back"):
            await _ready(source, 3)
            assert await seen(source) == grown
            await source.delete(CLAIMS, "shop", "default")
            await worlds.eventually(lambda: source.list(CLAIMS), lambda found: not found.items)
            await _nothing_left(kubectl, folder, here)
            yield "back home it is the same again, and deleting it leaves nothing"
    finally:
        await source.close()
        await target.close()


async def _ready(client: HttpClient, workers: int) -> None:
    def is_so(found: Object) -> bool:
        counted = objects.at(found, "status", "workers", "summary")
        return state.of(found).word == state.READY and counted == f"{workers}/{workers}"

    await worlds.eventually(lambda: client.get(CLAIMS, "shop", "default"), is_so)


async def seen(client: HttpClient) -> Object:
    found: Object = await worlds.eventually(lambda: worlds.seen(client, "shop"), bool)
    return found


async def _nothing_left(kubectl: str, folder: Path, kubeconfig: Path) -> None:
    kube = Kubectl(kubectl, kubeconfig, folder / "cache")
    for kind in _MADE:
        found = await asyncio.to_thread(kube.json, "get", kind)
        assert found["items"] == [], f"{kind}: {[objects.name(each) for each in found['items']]}"


def _install(folder: Path, kubectl: str) -> None:
    written = ["--with", _WITH, "--platform", str(folder / "platform.yaml"), "-o", str(folder / "manifests")]
    steelyard(folder, "manifests", *written)
    kube = Kubectl(kubectl, folder / "upstream" / "kubeconfig", folder / "cache", "steelyard-system")
    kube("apply", "--server-side", "-k", str(folder / "manifests"))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")


def _trusting(folder: Path) -> Path:
    """The administrator's kubeconfig of kube-apiserver, with its authority."""
    content = json.loads((folder / "upstream" / "kubeconfig").read_text())
    content["clusters"][0]["cluster"]["certificate-authority"] = str(folder / "upstream" / "ca.crt")
    made = folder / "there.kubeconfig"
    made.write_text(json.dumps(content))
    return made


def _move(folder: Path, source: Path, target: Path, *more: str) -> str:
    return steelyard(
        folder, "move", "--kubeconfig", str(source), "--to-kubeconfig", str(target), "-n", "default", *more
    )


def steelyard(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "steelyard", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def controllers(folder: Path, kubeconfig: Path, parts: str, name: str) -> Generator[None]:
    """They end when they are told to: who moves machines from one to the other must have them free."""
    arguments = ["--kubeconfig", str(kubeconfig), "--with", parts, "--platform", str(folder / "platform.yaml")]
    arguments += ["--data-dir", str(folder / "world"), "--health-address", "", "--no-leader-elect"]
    arguments += ["--namespace", "default"]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "steelyard", "controllers", *arguments],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield
            assert process.poll() is None, f"{name} has ended"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}
