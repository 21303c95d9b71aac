"""The first hour of a user with the real kubectl: a claim, a cluster, scaling both ways, deletion without leftovers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.harness import PlatformProcess

pytestmark = pytest.mark.kubectl

DOMAIN = "domain: pnats.cloud\n"
CLAIM = """\
apiVersion: compute.pnats.cloud/v1alpha1
kind: WorkloadCluster
metadata:
  name: dev-cluster
  namespace: crossplane-system
spec:
  parameters:
    environment: dev
    controlPlaneReplicas: 1
    workerReplicas: 2
    cpuCores: 8
    memoryGi: 32
    diskGb: 100
    kubernetesVersion: "v1.32.1"

  writeConnectionSecretToRef:
    name: dev-cluster-kubeconfig
    namespace: argocd
"""


class Shell:
    """A user's terminal: kubectl and steelyard against one platform."""

    def __init__(self, platform: PlatformProcess, kubectl: str, directory: Path) -> None:
        self.platform = platform
        self.directory = directory
        self.program = kubectl

    def kubectl(self, *arguments: str, kubeconfig: Path | None = None, stdin: str = "") -> str:
        config = kubeconfig or self.platform.data_dir.kubeconfig
        return self._run(
            [self.program, "--kubeconfig", str(config), "--cache-dir", str(self.directory), *arguments], stdin
        )

    def steelyard(self, *arguments: str) -> str:
        data_dir = ["--data-dir", str(self.platform.data_dir.root)]
        return self._run([sys.executable, "-m", "steelyard", *arguments, *data_dir], "")

    def json(self, *arguments: str, kubeconfig: Path | None = None) -> Object:
        return objects.mapping(json.loads(self.kubectl(*arguments, "-o", "json", kubeconfig=kubeconfig)))

    @staticmethod
    def _run(command: list[str], stdin: str) -> str:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path, kubectl: str) -> Iterator[Shell]:
    with PlatformProcess(tmp_path, platform=DOMAIN, is_fresh=True) as platform:
        platform.start()
        shell = Shell(platform, kubectl, tmp_path / "kubectl-cache")
        shell.kubectl("create", "namespace", "argocd")
        yield shell


def test_the_claim_of_the_documents_becomes_a_cluster_that_scales_and_goes(shell: Shell) -> None:
    before = _everything(shell)
    used = shell.platform.processor_seconds
    shell.kubectl("apply", "-f", "-", stdin=CLAIM)
    shell.kubectl(
        "wait", "workloadcluster/dev-cluster", "-n", "crossplane-system", "--for=condition=Ready", "--timeout=90s"
    )
    took = shell.platform.processor_seconds - used
    assert took < 5, f"Ready after {took:.1f} s of processor time"

    shown = shell.kubectl("get", "workloadclusters,clusters,machines", "-n", "crossplane-system")
    assert "workloadcluster.compute.pnats.cloud/dev-cluster" in shown
    assert "cluster.cluster.x-k8s.io/dev-cluster" in shown
    assert shown.count("machine.cluster.x-k8s.io/") == 3

    described = shell.steelyard("describe", "dev-cluster")
    assert "WorkloadCluster crossplane-system/dev-cluster: Ready" in described
    assert "control plane: 1 of 1 ready" in described
    assert "workers: 2 of 2 ready" in described

    kubeconfig = shell.directory.parent / "dev.kubeconfig"
    kubeconfig.write_text(shell.steelyard("kubeconfig", "dev-cluster"))
    assert _ready_nodes(shell, kubeconfig) == (1, 2)
    connection = shell.json("get", "secret", "dev-cluster-kubeconfig", "-n", "argocd")
    assert "kubeconfig" in connection["data"]

    _scale(shell, control_plane=3, workers=4)
    assert _ready_nodes(shell, kubeconfig) == (3, 4)
    _scale(shell, control_plane=1, workers=2)
    assert _ready_nodes(shell, kubeconfig) == (1, 2)

    shell.kubectl("delete", "workloadcluster", "dev-cluster", "-n", "crossplane-system", "--timeout=90s")
    left_over = _settled_difference(shell, before)
    assert left_over == set()
    answer = subprocess.run(
        [shell.program, "--kubeconfig", str(kubeconfig), "get", "nodes", "--request-timeout=2s"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "refused" in answer.stderr


async def test_nothing_of_a_deleted_cluster_is_left_on_disk(tmp_path: Path, kubectl: str) -> None:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        shell = Shell(platform, kubectl, tmp_path / "cache")
        files = _files(platform)
        shell.steelyard("create", "cluster", "gone", "--environment", "dev", "--wait")
        shell.steelyard("delete", "gone", "--yes")
        assert _files(platform) == files
        assert platform.terminate() == 0
        assert await platform.left_in_clusters() == []


def _files(platform: PlatformProcess) -> set[str]:
    """What is in the data directory, but for the logs, which begin with the first line, and the space that is set aside
    in the background."""
    return {path.name for path in platform.data_dir.root.rglob("*")} - {"audit.log", "steelyard.log", "reserve"}


def _scale(shell: Shell, *, control_plane: int, workers: int) -> None:
    patch = {"spec": {"parameters": {"controlPlaneReplicas": control_plane, "workerReplicas": workers}}}
    shell.kubectl(
        "patch", "workloadcluster", "dev-cluster", "-n", "crossplane-system", "--type", "merge", "-p", json.dumps(patch)
    )
    deadline = time.monotonic() + 60
    while True:
        claim = shell.json("get", "workloadcluster", "dev-cluster", "-n", "crossplane-system")
        machines = shell.json("get", "machines", "-n", "crossplane-system")["items"]
        counts = (_ready(claim, "controlPlane"), _ready(claim, "workers"), len(machines))
        if counts == (control_plane, workers, control_plane + workers):
            return
        assert time.monotonic() < deadline, f"{counts}: {objects.at(claim, 'status', 'message')}"


def _ready(claim: Object, part: str) -> Any:
    return objects.at(claim, "status", part, "ready")


def _ready_nodes(shell: Shell, kubeconfig: Path) -> tuple[int, int]:
    """Ready control-plane nodes and workers, as the cluster's own API has them."""
    nodes = shell.json("get", "nodes", kubeconfig=kubeconfig)["items"]
    ready = [
        node
        for node in nodes
        if any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"]["conditions"])
    ]
    control_plane = [node for node in ready if "node-role.kubernetes.io/control-plane" in objects.labels(node)]
    return len(control_plane), len(ready) - len(control_plane)


def _everything(shell: Shell) -> set[str]:
    kinds = shell.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    listed = shell.kubectl("get", ",".join(kind for kind in kinds if not kind.startswith("events")), "-A", "-o", "name")
    return set(listed.split())


def _settled_difference(shell: Shell, before: set[str]) -> set[str]:
    """What is left beside `before`, once garbage collection has had a moment."""
    deadline = time.monotonic() + 60
    while (difference := _everything(shell) - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return difference
