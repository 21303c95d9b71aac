"""Cluster API's core manager, built from its module, with all its webhooks, against a bare API server of ours.

The manager's own definitions and webhook configurations are read from its module, and point at the manager's address
instead of a Service. The infrastructure provider is played here: its kinds are those of our simulated machines, and
this file marks what a provider would provision. Each check is what a user of Cluster API would see.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import yaml

from steelyard.compose import offering
from steelyard.kube import pki
from steelyard.kube.objects import Object
from tests.conformance import keys, ours, upstream
from tests.ecosystem.outcome import Outcome
from tests.harness import ROOT, built
from tests.kubectl import Kubectl

T = TypeVar("T")

VERSION: Final = "1.11.3"
_MODULE: Final = ROOT / "tools" / "upstream" / "cluster-api"
_CONTRACT: Final = {"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
_NAME: Final = f"Cluster API {VERSION}, its core manager with webhooks"
_READY_SECONDS: Final = 60.0
_STEP_SECONDS: Final = 60.0

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
    webhooks, health = upstream.free_ports(2)
    authority = _write_keys(folder)
    _install(kube, webhooks, authority)
    passed: list[str] = []
    with _manager(program, kubeconfig, folder, webhooks, health) as log:
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
    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    _until(ready, bool, _READY_SECONDS)
    return "it starts and is ready"


def _until(get: Callable[[], T], holds: Callable[[T], bool], seconds: float = _STEP_SECONDS) -> T:
    deadline = time.monotonic() + seconds
    while not holds(found := get()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s; last seen: {found}"
        time.sleep(0.2)
    return found


def _get(kube: Kubectl, kind: str, name: str) -> Object:
    return kube.json("get", kind, name)


def _items(kube: Kubectl, kind: str) -> list[Object]:
    return kube.json("get", kind)["items"]


def _provision(kube: Kubectl, kind: str, name: str) -> None:
    patch = json.dumps({"status": {"initialization": {"provisioned": True}}})
    kube("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)


@contextlib.contextmanager
def _manager(program: str, kubeconfig: Path, folder: Path, webhooks: int, health: int) -> Generator[Path]:
    flags = [
        f"--kubeconfig={kubeconfig}",
        f"--webhook-cert-dir={folder}",
        f"--webhook-port={webhooks}",
        f"--health-addr=127.0.0.1:{health}",
        "--diagnostics-address=0",
        "--feature-gates=MachineSetPreflightChecks=false",
    ]
    with upstream.started(folder, program, flags):
        yield folder / f"{Path(program).name}.log"


def _install(kube: Kubectl, webhooks: int, authority: bytes) -> None:
    module = _folder_of_module()
    definitions = [cast("Object", yaml.safe_load(path.read_text())) for path in module.glob("config/crd/bases/*.yaml")]
    assert definitions, module
    for definition in definitions:
        definition["metadata"]["labels"] = _CONTRACT
        hook = {"conversionReviewVersions": ["v1"], "clientConfig": _client(webhooks, "/convert", authority)}
        definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
    simulated = [
        each for each in offering.STANDARD.definitions("example.org") if "infrastructure" in each["spec"]["group"]
    ]
    configurations = cast(
        "list[Object]", list(yaml.safe_load_all((module / "config/webhook/manifests.yaml").read_text()))
    )
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"] = _client(webhooks, webhook["clientConfig"]["service"]["path"], authority)
    kube("create", "-f", "-", stdin=_documents([*definitions, *simulated]))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    kube("create", "-f", "-", stdin=_documents(configurations))


def _documents(items: Iterable[Object]) -> str:
    return "\n---\n".join(map(json.dumps, items))


def _client(port: int, path: str, authority: bytes) -> Object:
    return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": base64.b64encode(authority).decode()}


def _folder_of_module() -> Path:
    listing = [*built("go"), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api"]
    return Path(subprocess.run(listing, cwd=_MODULE, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


def _write_keys(folder: Path) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    authority = pki.new_authority("webhooks", now=now)
    serving = pki.issue_serving(authority, "cluster-api", ["127.0.0.1"], now=now)
    (folder / "tls.crt").write_bytes(serving.certificate)
    (folder / "tls.key").write_bytes(serving.key)
    return authority.certificate


def _kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "a", "user": {"token": token}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "default"}}],
    }
