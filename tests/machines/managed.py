"""The provider beside Cluster API's own managers on a real kube-apiserver: no controller of ours but the provider.

What is applied is the template that `steelyard provider kvm manifests` writes, filled in by clusterctl. That there is a
Node needs no network for pods, so none is installed: the control plane is up when Cluster API says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.http import HttpClient
from tests.conformance import keys, upstream
from tests.ecosystem import managers
from tests.harness import ROOT
from tests.kubectl import Kubectl
from tests.machines import leftovers
from tests.machines.barehost import virsh
from tests.machines.story import Memory, Stage, tell, until

PROGRAMS: Final = (*managers.CORE, "clusterctl", *upstream.PROGRAMS)
_NAME: Final = "first"
_NAMESPACE: Final = "steelyard-kvm-system"
"""Of the provider, in its manifests."""


class Managed:
    def __init__(self, folder: Path, kubectl: str, images: Path, machines: Path, version: str, patience: float) -> None:
        self._folder = folder
        self._images = images
        self._machines = machines
        self._version = version
        self._patience = patience
        self._program = kubectl
        self._kube = Kubectl(kubectl, folder / "kubeconfig", folder / "kubectl-cache")
        self._before: dict[str, list[str]] = {}

    def run(self, programs: dict[str, str], memory: Memory) -> tuple[int, int]:
        return asyncio.run(self._run(programs, memory))

    async def _run(self, programs: dict[str, str], memory: Memory) -> tuple[int, int]:
        shared = self._folder / "shared"
        await asyncio.to_thread(keys.write, shared)
        async with upstream.running(self._folder, shared), contextlib.AsyncExitStack() as stack:
            connection = (await asyncio.to_thread(kubeconfigs.load, self._folder / "kubeconfig")).resolve()
            client = HttpClient(connection)
            stack.push_async_callback(client.close)
            managing = await asyncio.to_thread(managers.core, [programs[name] for name in managers.CORE])
            await managers.manage(stack, client, managing, self._folder / "kubeconfig", self._folder)
            stages = [
                Stage(
                    "1", "clusterctl reads the provider's manifests", lambda: self._manifests(programs["clusterctl"])
                ),
                Stage("2", "the provider runs alone, and its host is ready", lambda: self._provider(stack)),
                Stage("3", "a machine boots and reports providerID and addresses", self._boots),
                Stage("4", "Cluster API finds its Node and calls the control plane initialized", self._initialized),
                Stage("5", "deleted: nothing left", self._delete),
            ]
            return await asyncio.to_thread(tell, stages, memory)

    def _manifests(self, clusterctl: str) -> str:
        written = self._folder / "manifests"
        command = [sys.executable, "-m", "steelyard", "provider", "kvm", "manifests", "-o", str(written)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        template = next(written.rglob("cluster-template.yaml"))
        components = next(written.rglob("infrastructure-components.yaml"))
        environment = {
            **os.environ,
            "CONTROL_PLANE_MACHINE_CPUS": "2",
            "CONTROL_PLANE_MACHINE_MEMORY": "2Gi",
            "CONTROL_PLANE_VOLUME_SIZE_GB": "20",
        }
        made = subprocess.run(
            [
                clusterctl, "generate", "cluster", _NAME, f"--from={template}", f"--kubernetes-version={self._version}",
                "--control-plane-machine-count=1", "--worker-machine-count=0", "--target-namespace=default",
                f"--kubeconfig={self._folder / 'kubeconfig'}",
            ],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        (self._folder / "cluster.yaml").write_text(made.stdout)
        kinds = [line.split()[1] for line in made.stdout.splitlines() if line.startswith("kind: ")]
        inside = Kubectl(self._program, self._folder / "kubeconfig", self._folder / "kubectl-cache", _NAMESPACE)
        inside("apply", "--server-side", "-f", str(components))
        self._kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        return f"{len(kinds)} objects: {', '.join(sorted(set(kinds)))}"

    def _provider(self, stack: contextlib.AsyncExitStack) -> str:
        host = {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha4",
            "kind": "KVMHost",
            "metadata": {"name": "local"},
            "spec": {
                "uri": "qemu:///system",
                "storageRoots": [str(self._machines)],
                "imageRoots": [str(self._images)],
                "networks": {"ranges": ["10.200.0.0/16"]},
                "overcommit": {"cpu": 16},
            },
        }
        stack.enter_context(self._running())
        self._kube("apply", "-f", "-", stdin=json.dumps(host))
        self._before = leftovers.listing([self._machines])
        found = self._await("kvmhost", "local", lambda it: _condition(it, "Ready") == "True", 60)
        return f"virtualization: {found['status'].get('virtualization')}"

    @contextlib.contextmanager
    def _running(self) -> Generator[None]:
        command = [
            sys.executable,
            "-m",
            "steelyard",
            "provider",
            "kvm",
            "--kubeconfig",
            str(self._folder / "kubeconfig"),
        ]
        with (self._folder / "provider.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)

    def _boots(self) -> str:
        self._kube("apply", "-f", str(self._folder / "cluster.yaml"))
        machines = until(lambda: self._kube.names("kvmmachines"), "a KVMMachine", seconds=120)
        machine = self._await("kvmmachine", machines[0], lambda it: bool(it.get("status", {}).get("addresses")), 120)
        provider_id = str(machine["spec"]["providerID"])
        assert virsh("domstate", provider_id.removeprefix("kvm://")) == "running"
        addresses = {each["type"]: each["address"] for each in machine["status"]["addresses"]}
        assert addresses.get("InternalIP"), machine["status"]
        return f"{provider_id}, {addresses}"

    def _initialized(self) -> str:
        (name,) = self._kube.names("machines")
        machine = self._await("machine", name, lambda it: bool(it["status"].get("nodeRef")), 300)
        planes = self._kube.names("kubeadmcontrolplanes")
        self._await("kubeadmcontrolplane", planes[0], lambda it: _condition(it, "Initialized") == "True", 120)
        own = {each["type"]: each["address"] for each in machine["status"]["addresses"]}
        return f"Node {machine['status']['nodeRef']['name']}, Machine {machine['status'].get('phase')}, {own}"

    def _delete(self) -> str:
        self._kube("delete", "cluster", _NAME, "--wait=false")

        def is_gone() -> bool:
            left = self._kube("get", "clusters,machines,kvmmachines,kvmclusters", "-A", "-o", "name").strip()
            assert not left, left
            return True

        until(is_gone, "every object is gone", seconds=300 * self._patience)
        after = leftovers.listing([self._machines])
        assert not leftovers.differences(self._before, after), leftovers.differences(self._before, after)
        return f"before: {leftovers.counts(self._before)}; after: {leftovers.counts(after)}"

    def _await(self, kind: str, name: str, holds: Callable[[Any], bool], seconds: float) -> Any:
        def look() -> Any:
            found = self._kube.json("get", kind, name)
            assert holds(found), f"{kind} {name}: {found.get('status')}"
            return found

        return until(look, f"{kind} {name}", seconds=seconds * self._patience)


def _condition(found: Any, type_: str) -> str:
    listed = found.get("status", {}).get("conditions", [])
    return next((str(each["status"]) for each in listed if each["type"] == type_), "")
