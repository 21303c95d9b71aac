"""`steelyard controllers` on Kubernetes' own API server, as the account of its manifests and with no other rights.

kubectl applies what `steelyard manifests` wrote; the program runs beside the server instead of in a pod, with a token
of the account. A claim becomes a cluster of simulated machines, shrinks, and goes; rights that are missing are named.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from tests.conformance import keys, upstream
from tests.ecosystem import managers
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, ROOT, built
from tests.kubectl import Kubectl

_NAME: Final = "steelyard controllers on kube-apiserver, with the rights of its manifests"
_WITH: Final = "claims,lifecycle,simulated"
_NAMESPACE: Final = "steelyard-system"
_ACCOUNT: Final = "steelyard-controllers"
_STEP_SECONDS: Final = 240.0
_CLAIM: Final = """\
apiVersion: compute.steelyard.dev/v1alpha1
kind: WorkloadCluster
metadata: {name: shop}
spec: {parameters: {environment: dev, workerReplicas: 3}}
"""
_MADE: Final = ("workloadclusters", "clusters", "machines", "kubeadmconfigs", "simulatedmachines", "simulatedclusters")


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    (folder / "upstream").mkdir()
    keys.write(folder / "shared")
    async with upstream.running(folder / "upstream", folder / "shared"):
        kube = Kubectl(kubectl, folder / "upstream" / "kubeconfig", folder / "cache")
        return await asyncio.to_thread(_told, kube, folder)


def _told(kube: Kubectl, folder: Path) -> Outcome:
    done: list[str] = []
    try:
        done.extend(_story(kube, folder))
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        logs = "\n".join(path.read_text()[-4000:] for path in sorted(folder.glob("*.log")))
        return Outcome(_NAME, len(done), 1, "; ".join(done), f"{type(error).__name__}: {error}\n{logs}")
    return Outcome(_NAME, len(done), 0, "; ".join(done))


def _story(kube: Kubectl, folder: Path) -> Iterator[str]:
    (folder / "platform.yaml").write_text(INSTANT)
    written = ["--with", _WITH, "--platform", str(folder / "platform.yaml"), "-o", str(folder / "manifests")]
    subprocess.run(_steelyard("manifests", *written), cwd=folder, env=_environment(), check=True, capture_output=True)
    yield _helm(kube, folder)
    there = Kubectl(kube.command[0], folder / "upstream" / "kubeconfig", folder / "cache", _NAMESPACE)
    there("apply", "--server-side", "-k", str(folder / "manifests"))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    yield "kubectl applies the kustomize base: definitions, policies, rights, Deployment"

    kubeconfig = _kubeconfig(kube, folder)
    (health,) = upstream.free_ports(1)
    with _running(folder, kubeconfig, health) as process:
        managers.until(lambda: managers.is_ready(health), bool, _STEP_SECONDS)
        yield "it starts as the account of the manifests, and is ready"

        kube("create", "-f", "-", stdin=_CLAIM)
        _until(kube, lambda it: conditions.is_true(it, "Ready"))
        assert len(kube.json("get", "machines")["items"]) == 4
        yield "a claim becomes Ready, with four machines"

        _scale(kube, 1)
        _until(kube, lambda it: it["status"]["workers"]["summary"] == "1/1")
        managers.until(lambda: len(kube.json("get", "machines")["items"]), lambda count: count == 2, _STEP_SECONDS)
        yield "it shrinks to one worker"

        refused = kube.refused("create", "-f", "-", stdin=_CLAIM.replace("shop", "x").replace("dev,", "nowhere,"))
        assert "nowhere" in refused, refused
        yield "the policies refuse an environment that there is not"

        kube("delete", "workloadcluster", "shop", "--wait=false")
        for kind in _MADE:
            managers.until(lambda kind=kind: kube.json("get", kind)["items"], lambda left: not left, _STEP_SECONDS)
        told = kube.json("get", "events")["items"]
        assert not [each for each in told if "forbidden" in str(each.get("message")).lower()], told
        yield "deleting it leaves nothing, and nothing was forbidden"

        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        leases = kube.json("get", "leases", "-n", _NAMESPACE)["items"]
        held = {each["metadata"]["name"]: each["spec"].get("holderIdentity", "") for each in leases}
        assert held == dict.fromkeys(("steelyard-claims", "steelyard-lifecycle", "steelyard-provider-simulated"), "")
        yield "SIGTERM ends it and gives its Leases back"

    kube("delete", "clusterrolebinding", _ACCOUNT)
    with _running(folder, kubeconfig, health) as process:
        assert process.wait(120) == 1
    log = (folder / "controllers.log").read_text()
    assert "may not do what is needed" in log, log
    assert "  get, list, watch, patch, delete workloadclusters.compute.steelyard.dev\n" in log, log
    yield "without its rights it says which ones it lacks, and ends"


def _helm(kube: Kubectl, folder: Path) -> str:
    """Installs the chart, changes it, and takes it away again, but for the definitions, which Helm never removes."""
    (helm,) = built("helm")
    chart = str(folder / "manifests" / "chart")

    def run(*arguments: str) -> None:
        place = ["--kubeconfig", str(folder / "upstream" / "kubeconfig"), "--namespace", _NAMESPACE]
        done = subprocess.run(
            [helm, *arguments, *place], env=_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"

    run("install", "steelyard", chart, "--create-namespace")
    run("upgrade", "steelyard", chart, "--set", "replicas=0")
    deployment = kube.json("get", "deployment", _ACCOUNT, "-n", _NAMESPACE)
    assert deployment["spec"]["replicas"] == 0, deployment
    run("uninstall", "steelyard")
    return "helm installs, upgrades and uninstalls the chart"


def _until(kube: Kubectl, holds: Callable[[Object], bool]) -> Object:
    return managers.until(lambda: kube.json("get", "workloadcluster", "shop"), holds, _STEP_SECONDS)


def _scale(kube: Kubectl, workers: int) -> None:
    patch = json.dumps({"spec": {"parameters": {"workerReplicas": workers}}})
    kube("patch", "workloadcluster", "shop", "--type=merge", "-p", patch)


def _kubeconfig(kube: Kubectl, folder: Path) -> Path:
    """The administrator's, with the account's token in place of the administrator's."""
    token = kube("create", "token", _ACCOUNT, "-n", _NAMESPACE, "--duration=2h").strip()
    content = json.loads((folder / "upstream" / "kubeconfig").read_text())
    content["clusters"][0]["cluster"]["certificate-authority"] = str(folder / "upstream" / "ca.crt")
    content["users"][0]["user"] = {"token": token}
    made = folder / "account.kubeconfig"
    made.write_text(json.dumps(content))
    return made


@contextlib.contextmanager
def _running(folder: Path, kubeconfig: Path, health: int) -> Generator[subprocess.Popen[bytes]]:
    arguments = ["--kubeconfig", str(kubeconfig), "--with", _WITH, "--platform", str(folder / "platform.yaml")]
    arguments += ["--data-dir", str(folder / "world"), "--health-address", f"127.0.0.1:{health}"]
    with (folder / "controllers.log").open("wb") as log:
        process = subprocess.Popen(
            _steelyard("controllers", *arguments),
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def _steelyard(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "steelyard", *arguments]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}
