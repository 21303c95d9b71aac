"""Where Cluster API's own managers work with our simulated machines: on the embedded API, and on Kubernetes' own.

On both the managers are upstream's core, kubeadm bootstrap and kubeadm control plane, with their definitions,
conversions and webhooks; claims and machines are ours. Everything is ended, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from tests.conformance import keys, upstream
from tests.ecosystem import managers
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, ROOT, PlatformProcess, built
from tests.kubectl import Kubectl

T = TypeVar("T")

STEP_SECONDS: Final = 240.0
_WITH: Final = "claims,simulated"


@dataclass(frozen=True, slots=True)
class Stage:
    kube: Kubectl
    kubeconfig: Path
    folder: Path

    def until(self, look: Callable[[], T], holds: Callable[[T], bool], seconds: float = STEP_SECONDS) -> T:
        return managers.until(look, holds, seconds)

    def claim(self, name: str) -> Object:
        return self.kube.json("get", "workloadcluster", name)

    def items(self, kind: str) -> list[Object]:
        return self.kube.json("get", kind)["items"]

    def ready(self, name: str, holds: Callable[[Object], bool] = lambda _: True) -> Object:
        return self.until(lambda: self.claim(name), lambda it: conditions.is_true(it, "Ready") and holds(it))

    def apply(self, claim: str) -> None:
        self.kube("apply", "-f", "-", stdin=claim)


@contextlib.contextmanager
def platform(folder: Path, *, lifecycle: bool) -> Generator[PlatformProcess]:
    """`steelyard up`, with its own controllers for Cluster API's kinds or without."""
    process = PlatformProcess(folder / "platform", environment={"PYTHONPATH": str(ROOT / "src")})
    process.arguments = [] if lifecycle else ["--without", "lifecycle"]
    with process:
        process.start()
        yield process


@contextlib.asynccontextmanager
async def theirs(kubeconfig: Path, folder: Path) -> AsyncGenerator[None]:
    """Cluster API's managers beside an API, with their definitions in place of those that are there."""
    programs = await asyncio.to_thread(built, *managers.CORE)
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    async with contextlib.AsyncExitStack() as stack:
        client = HttpClient.from_kubeconfig(kubeconfig)
        stack.push_async_callback(client.close)
        await managers.manage(stack, client, managers.core(programs), kubeconfig, folder)
        yield


@contextlib.asynccontextmanager
async def embedded(folder: Path, kubectl: str) -> AsyncGenerator[Stage]:
    with platform(folder, lifecycle=False) as process:
        kubeconfig = process.data_dir.kubeconfig
        async with theirs(kubeconfig, folder / "managers"):
            yield Stage(Kubectl(kubectl, kubeconfig, folder / "cache"), kubeconfig, folder)


@contextlib.asynccontextmanager
async def on_kubernetes(folder: Path, kubectl: str) -> AsyncGenerator[Stage]:
    """etcd, kube-apiserver, kube-controller-manager, and `steelyard controllers` beside them."""
    (folder / "upstream").mkdir()
    await asyncio.to_thread(keys.write, folder / "shared")
    async with upstream.running(folder / "upstream", folder / "shared"):
        kubeconfig = folder / "upstream" / "kubeconfig"
        kube = Kubectl(kubectl, kubeconfig, folder / "cache")
        async with theirs(kubeconfig, folder / "managers"):
            await asyncio.to_thread(_install, kube, folder)
            with _controllers(folder, kubeconfig) as health:
                await managers.ready(health)
                yield Stage(kube, kubeconfig, folder)


def _install(kube: Kubectl, folder: Path) -> None:
    (folder / "platform.yaml").write_text(INSTANT)
    written = ["--with", _WITH, "--platform", str(folder / "platform.yaml"), "-o", str(folder / "manifests")]
    command = [sys.executable, "-m", "steelyard", "manifests", *written]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    kube("create", "namespace", "steelyard-system")
    there = Kubectl(kube.command[0], Path(kube.command[2]), folder / "cache", "steelyard-system")
    there("apply", "--server-side", "-k", str(folder / "manifests"))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")


@contextlib.contextmanager
def _controllers(folder: Path, kubeconfig: Path) -> Generator[int]:
    """Gives the port at which it says how it is."""
    (health,) = upstream.free_ports(1)
    flags = ["--kubeconfig", str(kubeconfig), "--with", _WITH, "--platform", str(folder / "platform.yaml")]
    flags += ["--data-dir", str(folder / "world"), "--health-address", f"127.0.0.1:{health}"]
    with (folder / "controllers.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "steelyard", "controllers", *flags],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield health
        finally:
            process.kill()
            process.wait()


def told(name: str, folder: Path, steps: Iterable[str]) -> Outcome:
    """How far the steps came, and what the programs said where one failed."""
    done: list[str] = []
    try:
        done.extend(steps)
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        story = f"after: {'; '.join(done)}\n{type(error).__name__}: {error}\n{complaints(folder)}"
        return Outcome(name, len(done), 1, story=story)
    return Outcome(name, len(done), 0, "; ".join(done))


def logs(folder: Path) -> Iterator[Path]:
    yield from sorted([*folder.glob("**/*.log"), *folder.glob("platform/log")])


def complaints(folder: Path) -> str:
    """The last errors of each program that wrote its log there."""
    found: list[str] = []
    for path in logs(folder):
        lines = path.read_text(errors="replace").splitlines()
        errors = [line[:600] for line in lines if line[:1] in "EF" or "ERROR" in line or "WARN" in line]
        found.append(f"--- {path.name}\n" + "\n".join(errors[-6:]))
    return "\n".join(found)
