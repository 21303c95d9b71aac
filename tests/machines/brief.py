"""Two machines that boot to the end of cloud-init, for every change: the half of the provider that runs in the guest.

Cluster API's objects are made as somebody makes them who has bootstrap data of their own: Machines with a Secret each.
One's bootstrap succeeds and the other's fails. Both boot at once, each on a processor, from an image that has no
Kubernetes in it. Where it is asked for, a claim has a third machine made, whose bootstrap fails for that reason.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from steelyard.api import resources
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.providers.kvm import bootstraps
from tests.harness import ROOT, PlatformProcess
from tests.machines import bootdata, leftovers, smallimage
from tests.machines.barehost import virsh
from tests.machines.cluster import NAMESPACE
from tests.machines.story import Memory, Stage, tell, until

_CLUSTER: Final = "brief"
_GOOD: Final = "good"
_BAD: Final = "bad"
_SIZES: Final = {"cpu": 1, "memory": "1Gi", "disk": "5Gi"}
_VERSION: Final = "v1.34.4"
_CLAIM: Final = "claimed"
_CLAIMS: Final = resources.workload_clusters("steelyard.dev")
_CLAIMED: Final = {
    "environment": "dev",
    "controlPlaneReplicas": 1,
    "workerReplicas": 0,
    "cpuCores": 2,
    "memoryGi": 2,
    "diskGb": 20,
    "kubernetesVersion": _VERSION,
}
_FINISHED: Final = " finished at "
"""In cloud-init's last line."""
_KINDS: Final = (_CLAIMS, MACHINES, KVM_MACHINES, CLUSTERS, KVM_CLUSTERS)


class Brief:
    def __init__(self, platform: PlatformProcess, machines: Path, patience: float, *, with_claim: bool) -> None:
        self._platform = platform
        self._machines = machines
        self._patience = patience
        self._with_claim = with_claim
        self._runner = asyncio.Runner()
        self._client: HttpClient = platform.client()
        self._before: dict[str, list[str]] = {}
        self._began = 0.0
        self._is_emulated = False

    def run(self, memory: Memory) -> tuple[int, int]:
        stages = [
            Stage("1", "the host is ready", self._host),
            Stage("2", "two machines run, with providerID and address", self._running),
            Stage("3", "cloud-init of one runs its bootstrap data to the end", self._succeeds),
            Stage("4", "the other, whose bootstrap fails, says why and keeps its secrets", self._fails),
            Stage("5", "a claim whose machine has no kubeadm says so", self._claim_says_why),
            Stage("6", "deleted: nothing left", self._delete),
        ]
        stages = [each for each in stages if self._with_claim or each.run != self._claim_says_why]
        with self._runner:
            try:
                return tell(stages, memory)
            finally:
                self._runner.run(self._client.close())

    def _host(self) -> str:
        found = self._await(KVM_HOSTS, "local", lambda it: conditions.is_true(it, "Ready"), 60)
        self._before = leftovers.listing([self._machines])
        virtualization = objects.at(found, "status", "virtualization")
        self._is_emulated = virtualization == "emulated"
        return f"virtualization: {virtualization}"

    def _running(self) -> str:
        self._make(NAMESPACES, NAMESPACE, {})
        self._make(CLUSTERS, _CLUSTER, {"infrastructureRef": _reference(KVM_CLUSTERS, _CLUSTER)})
        self._make(KVM_CLUSTERS, _CLUSTER, {})
        self._began = time.monotonic()
        for name, data in ((_GOOD, bootdata.succeeding()), (_BAD, bootdata.failing())):
            self._make_machine(name, data)
        if self._with_claim:
            self._make(_CLAIMS, _CLAIM, {"parameters": _CLAIMED})
        told: list[str] = []
        for name in (_GOOD, _BAD):
            machine = self._await(KVM_MACHINES, name, lambda it: bool(_address(it)), 120)
            provider_id = str(objects.at(machine, "spec", "providerID"))
            assert virsh("domstate", provider_id.removeprefix("kvm://")) == "running"
            self._await(MACHINES, name, lambda it, own=provider_id: objects.at(it, "spec", "providerID") == own, 30)
            told.append(f"{name} is {provider_id} at {_address(machine)}")
        return "; ".join(told)

    def _succeeds(self) -> str:
        file = self._machines / self._uuid(_GOOD) / "console.log"

        def is_over() -> bool:
            written = file.read_text(errors="replace")
            assert _FINISHED in written, f"the end of its console:\n{written[-2000:]}"
            return True

        until(is_over, "the end of cloud-init", seconds=300 * self._patience)
        console = self._console(_GOOD)
        lines = console.splitlines()
        for wanted in (bootdata.SAID, bootdata.ENDED, "Cloud-init v."):
            assert any(wanted in line for line in lines), f"{wanted} is not on the console:\n{console[-4000:]}"
        assert "[WARNING]" not in console, "\n".join(line for line in lines if "[WARNING]" in line)
        said = next(line for line in lines if bootdata.SAID in line)
        assert said.endswith(f"on {_GOOD}, told to be {_GOOD}"), said
        command = next(line for line in lines if "Command line: " in line)
        assert ("highres=off" in command.split()) == self._is_emulated, command
        machine = self._read(KVM_MACHINES, _GOOD)
        assert conditions.is_true(machine, "Ready"), machine["status"]
        return next(line for line in reversed(lines) if _FINISHED in line).strip()

    def _fails(self) -> str:
        def has_failed(found: Object) -> bool:
            return conditions.reason_of(found, "Ready") == bootstraps.FAILED

        machine = self._await(KVM_MACHINES, _BAD, has_failed, 300)
        message = conditions.message_of(machine, "Ready")
        took = time.monotonic() - self._began
        for wanted in (bootdata.FAILED, bootdata.CAUSE, f"steelyard logs machine {_BAD}"):
            assert wanted in message, message
        for secret in (bootdata.TOKEN, bootdata.PASSWORD, bootdata.TOKEN[:6]):
            assert secret not in message, message
        assert message.isprintable(), message
        words = message.partition("by itself: ")[2].partition(". Its console has the rest")[0]
        assert bootstraps.LONGEST - 60 < len(words) <= bootstraps.LONGEST, f"{len(words)} characters: {words}"
        assert conditions.is_false(machine, "Ready")
        assert conditions.is_true(self._read(KVM_MACHINES, _GOOD), "Ready")
        assert bootstraps.FAILED not in self._console(_GOOD)
        used = ", ".join(f"{each:.0f} s" for each in leftovers.processor_seconds())
        return f"after {took:.0f} s (of processors: {used}), {len(words)} characters: {words[:200]} ..."

    def _claim_says_why(self) -> str:
        def says_why() -> str:
            # In lines as wide as a terminal.
            said = " ".join(self._steelyard("describe", _CLAIM, "-n", NAMESPACE).split())
            assert "its bootstrap has failed" in said, said
            assert "kubeadm: not found" in said, said
            return said

        said = str(until(says_why, "the claim says why", seconds=300 * self._patience, pause=15))
        return said[: said.index("Its console has the rest")]

    def _delete(self) -> str:
        self._runner.run(self._client.delete(CLUSTERS, _CLUSTER, NAMESPACE))
        if self._with_claim:
            self._runner.run(self._client.delete(_CLAIMS, _CLAIM, NAMESPACE))

        def is_gone() -> bool:
            left = [f"{each.kind} {objects.name(it)}" for each in _KINDS for it in self._list(each)]
            assert not left, left
            return True

        until(is_gone, "every object is gone", seconds=60 * self._patience, pause=1)
        after = leftovers.listing([self._machines])
        assert not leftovers.differences(self._before, after), leftovers.differences(self._before, after)
        return f"before: {leftovers.counts(self._before)}; after: {leftovers.counts(after)}"

    # The platform.

    def _uuid(self, name: str) -> str:
        return str(objects.at(self._read(KVM_MACHINES, name), "spec", "providerID")).removeprefix("kvm://")

    def _make_machine(self, name: str, bootstrap_data: str) -> None:
        secret = {"value": base64.b64encode(bootstrap_data.encode()).decode()}
        self._create(SECRETS, {**_object(SECRETS, f"{name}-bootstrap"), "data": secret})
        self._make(KVM_MACHINES, name, {"resources": _SIZES, "image": smallimage.NAME})
        spec: Object = {
            "clusterName": _CLUSTER,
            "version": _VERSION,
            "bootstrap": {"dataSecretName": f"{name}-bootstrap"},
            "infrastructureRef": _reference(KVM_MACHINES, name),
        }
        self._make(MACHINES, name, spec)

    def _make(self, resource: Resource, name: str, spec: Object) -> None:
        self._create(resource, {**_object(resource, name), "spec": spec})

    def _create(self, resource: Resource, obj: Object) -> None:
        with contextlib.suppress(errors.AlreadyExists):
            self._runner.run(self._client.create(resource, obj))

    def _read(self, resource: Resource, name: str) -> Object:
        return self._runner.run(self._client.get(resource, name, NAMESPACE if resource.namespaced else ""))

    def _list(self, resource: Resource) -> list[Object]:
        return list(self._runner.run(self._client.list(resource)).items)

    def _await(self, resource: Resource, name: str, holds: Callable[[Object], bool], seconds: float) -> Object:
        def look() -> Object:
            try:
                found = self._read(resource, name)
            except errors.NotFound as error:
                raise AssertionError(str(error)) from error
            assert holds(found), f"{resource.kind} {name}: {found.get('status')}"
            return found

        return until(look, f"{resource.kind} {name}", seconds=seconds * self._patience, pause=1)

    def _console(self, name: str) -> str:
        """As a user reads it."""
        return self._steelyard("logs", "machine", name, "-n", NAMESPACE, "--tail", "-1")

    def _steelyard(self, *arguments: str) -> str:
        data_dir = ["--data-dir", str(self._platform.data_dir.root)]
        command = [sys.executable, "-m", "steelyard", *arguments, *data_dir]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def _object(resource: Resource, name: str) -> Object:
    metadata: Object = {"name": name}
    if resource != _CLAIMS:
        metadata["labels"] = {"cluster.x-k8s.io/cluster-name": _CLUSTER}
    if resource.namespaced:
        metadata["namespace"] = NAMESPACE
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _reference(resource: Resource, name: str) -> Object:
    return {"apiGroup": resource.group, "kind": resource.kind, "name": name}


def _address(machine: Object) -> str:
    listed = objects.sequence(objects.at(machine, "status", "addresses"))
    return next((str(each["address"]) for each in listed if each.get("type") == "InternalIP"), "")
