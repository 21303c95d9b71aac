"""`kubectl drain` against a simulated cluster, and a machine that waits for its Node to be empty."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.kube import objects
from tests.e2e.test_first_cluster import Shell
from tests.harness import PlatformProcess

pytestmark = pytest.mark.kubectl


@pytest.fixture
def shell(tmp_path: Path, kubectl: str) -> Iterator[Shell]:
    with PlatformProcess(tmp_path) as platform:
        platform.start()
        yield Shell(platform, kubectl, tmp_path / "kubectl-cache")


def test_a_drained_node_is_empty_and_a_budget_is_respected(shell: Shell, tmp_path: Path) -> None:
    shell.steelyard("create", "cluster", "shop", "--environment", "dev", "--wait")
    inside = tmp_path / "shop.kubeconfig"
    inside.write_text(shell.steelyard("kubeconfig", "shop"))
    nodes = shell.json("get", "nodes", "-l", "!node-role.kubernetes.io/control-plane", kubeconfig=inside)["items"]
    node, other = map(objects.name, nodes)
    for name, place in (("free", node), ("guarded", node), ("last", other)):
        overrides = json.dumps({"spec": {"nodeName": place}})
        arguments = ["run", name, "--image=i", "--overrides", overrides, "--labels", f"app={name}"]
        shell.kubectl(*arguments, kubeconfig=inside)
        running = json.dumps({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
        shell.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", running, kubeconfig=inside)
    shell.kubectl("create", "pdb", "guard", "--selector=app=guarded", "--min-available=1", kubeconfig=inside)
    allow(shell, inside, 0)

    drain = [shell.program, "--kubeconfig", str(inside), "drain", node, "--force", "--timeout=3s"]
    held = subprocess.run(drain, capture_output=True, text=True, timeout=120, check=False)
    assert held.returncode != 0
    assert "Cannot evict pod as it would violate the pod's disruption budget" in held.stderr
    assert shell.kubectl("get", "pods", "-o", "name", kubeconfig=inside).split() == ["pod/guarded", "pod/last"]

    allow(shell, inside, 1)
    told = shell.kubectl("drain", node, "--force", "--timeout=90s", kubeconfig=inside)
    assert "pod/guarded evicted" in told
    assert f"node/{node} drained" in told

    machines = shell.json("get", "machines")["items"]
    [machine] = [each for each in machines if objects.at(each, "status", "nodeRef", "name") == other]
    shell.kubectl("delete", "machine", objects.name(machine), "--timeout=90s")
    assert shell.kubectl("get", "pods", "-o", "name", kubeconfig=inside) == ""


def allow(shell: Shell, inside: Path, disruptions: int) -> None:
    status = {"observedGeneration": 1, "disruptionsAllowed": disruptions, "desiredHealthy": 1, "currentHealthy": 1}
    patch = json.dumps({"status": status})
    shell.kubectl("patch", "pdb", "guard", "--subresource=status", "--type=merge", "-p", patch, kubeconfig=inside)
