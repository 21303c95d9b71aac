"""Cluster API's core manager, built from its module, with all its webhooks, against a bare API server of ours.

The infrastructure provider is played here: its kinds are those of our simulated machines, and this file marks what a
provider would provision. Each check is what a user of Cluster API would see.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from steelyard.compose import offering
from steelyard.kube.objects import Object
from tests.conformance import keys, ours, upstream
from tests.ecosystem import managers
from tests.ecosystem.managers import Hooks
from tests.ecosystem.outcome import Outcome
from tests.harness import built
from tests.kubectl import Kubectl

T = TypeVar("T")

VERSION: Final = "1.11.3"
_NAME: Final = f"Cluster API {VERSION}, its core manager with webhooks"
_STEP_SECONDS: Final = 60.0
_FLAGS: Final = ("--diagnostics-address=0", "--feature-gates=MachineSetPreflightChecks=false")

CLUSTER: Final = """\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: SimulatedCluster
metadata: {name: first}
spec: {controlPlaneEndpoint: {host: 127.0.0.1, port: 1}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: first}
spec:
  clusterNetwork: {pods: {cidrBlocks: [10.0.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: SimulatedCluster, name: first}
"""
WORKERS: Final = """\
apiVersion: v1
kind: Secret
metadata: {name: bootstrap}
stringData: {value: nothing}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: SimulatedMachineTemplate
metadata: {name: workers}
spec: {template: {spec: {cpuCores: 1, memoryGi: 2, diskGb: 10}}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: workers}
spec:
  clusterName: first
  replicas: 2
  template:
    spec:
      clusterName: first
      version: v1.34.4
      bootstrap: {dataSecretName: bootstrap}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: SimulatedMachineTemplate, name: workers}
"""


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    program = built("cluster-api")[0]
    shared = folder / "shared"
    keys.write(shared)
    async with ours.running(folder, shared) as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(server.url, server.tokens["admin"])))
        kube = Kubectl(kubectl, kubeconfig, folder / "cache")
        return await asyncio.to_thread(_against, kube, program, kubeconfig, folder)


def _against(kube: Kubectl, program: str, kubeconfig: Path, folder: Path) -> Outcome:
    port, health = upstream.free_ports(2)
    hooks = Hooks(port, managers.write_keys(folder))
    _install(kube, hooks)
    passed: list[str] = []
    with managers.running(program, kubeconfig, folder, folder, hooks, health, _FLAGS) as log:
        try:
            passed.append(_starts(health))
            passed.extend(_life(kube))
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            done = ", ".join(passed)
            story = f"after: {done}\n{error}\nthe end of the manager's log:\n{log.read_text()[-4000:]}"
            return Outcome(_NAME, len(passed), 1, story=story)
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


def _life(kube: Kubectl) -> Iterator[str]:
    """Yields what has been seen, step by step."""
    refused = kube.refused("create", "-f", "-", stdin=WORKERS.replace("v1.34.4", "not-a-version"))
    assert "spec.template.spec.version" in refused, refused
    yield "a wrong version is refused by its validating webhook"

    kube("apply", "-f", "-", stdin=CLUSTER)
    cluster = _until(lambda: _get(kube, "cluster", "first"), lambda it: bool(it["metadata"].get("finalizers")))
    assert cluster["metadata"]["finalizers"] == ["cluster.cluster.x-k8s.io"], cluster
    owned = _until(lambda: _get(kube, "simulatedcluster", "first"), lambda it: "ownerReferences" in it["metadata"])
    assert owned["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] == "first", owned
    yield "a Cluster gets its finalizer and adopts its infrastructure"

    _provision(kube, "simulatedcluster", "first")
    cluster = _until(lambda: _get(kube, "cluster", "first"), lambda it: it["status"].get("phase") == "Provisioned")
    assert cluster["spec"]["controlPlaneEndpoint"] == {"host": "127.0.0.1", "port": 1}, cluster
    conditions = {each["type"]: each["status"] for each in cluster["status"]["conditions"]}
    assert conditions["InfrastructureReady"] == "True", conditions
    yield "it is Provisioned once its infrastructure is"

    old = _get(kube, "clusters.v1beta1.cluster.x-k8s.io", "first")
    assert old["apiVersion"] == "cluster.x-k8s.io/v1beta1", old
    assert old["status"]["infrastructureReady"] is True, old
    yield "it reads as v1beta1 through the conversion webhook"

    kube("apply", "--server-side", "-f", "-", stdin=WORKERS)
    machines = _until(lambda: _items(kube, "machines"), lambda them: len(them) == 2)
    assert {each["spec"]["version"] for each in machines} == {"v1.34.4"}, machines
    clones = _until(lambda: _items(kube, "simulatedmachines"), lambda them: len(them) == 2)
    assert {each["spec"]["cpuCores"] for each in clones} == {1}, clones
    yield "a MachineDeployment makes its MachineSet, two Machines and their infrastructure"

    kube("scale", "machinedeployment", "workers", "--replicas=1")
    _until(lambda: _items(kube, "machines"), lambda them: len(them) == 1)
    yield "kubectl scale takes one away"

    kube("delete", "cluster", "first", "--wait=true", f"--timeout={_STEP_SECONDS:.0f}s")
    for kind in ("machinedeployments", "machinesets", "machines", "simulatedmachines", "simulatedclusters"):
        _until(lambda kind=kind: _items(kube, kind), lambda them: not them)
    yield "deleting the Cluster deletes all of it"


def _starts(port: int) -> str:
    managers.until(lambda: managers.is_ready(port), bool, managers.READY_SECONDS)
    return "it starts and is ready"


def _until(get: Callable[[], T], holds: Callable[[T], bool]) -> T:
    return managers.until(get, holds, _STEP_SECONDS)


def _get(kube: Kubectl, kind: str, name: str) -> Object:
    return kube.json("get", kind, name)


def _items(kube: Kubectl, kind: str) -> list[Object]:
    return kube.json("get", kind)["items"]


def _provision(kube: Kubectl, kind: str, name: str) -> None:
    patch = json.dumps({"status": {"initialization": {"provisioned": True}}})
    kube("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)


def _install(kube: Kubectl, hooks: Hooks) -> None:
    module = managers.folder_of(managers.CLUSTER_API, "cluster-api")
    definitions = managers.definitions(module, managers.CONTRACT, hooks)
    simulated = [
        each for each in offering.STANDARD.definitions("example.org") if "infrastructure" in each["spec"]["group"]
    ]
    kube("create", "-f", "-", stdin=_documents([*definitions, *simulated]))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    kube("create", "-f", "-", stdin=_documents(managers.webhooks(module, "capi", hooks)))


def _documents(items: Iterable[Object]) -> str:
    return "\n---\n".join(map(json.dumps, items))


def _kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "a", "user": {"token": token}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "default"}}],
    }
