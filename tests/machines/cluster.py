"""The platform on the bare host, and one cluster of it, as their users see them: by kubectl, steelyard and virsh."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.harness import ROOT, PlatformProcess
from tests.machines.barehost import virsh
from tests.machines.story import until

NAMESPACE: Final = "team-a"
HOST_ADDRESS: Final = "10.199.0.1"
"""Of the host itself, which machines reach through their network's gateway: there databases listen."""
_RANGE: Final = "10.200.0.0/16"


def platform_file(images: Path, machines: Path, patience: int, *, image: str = "") -> str:
    """Emulated machines are slow, and promised more cores than there are. `image` is for those of every version."""
    settings: Object = {
        "infrastructure": "kvm",
        "kvm": {
            "hosts": {
                "local": {
                    "uri": "qemu:///system",
                    "storageRoots": [str(machines)],
                    "imageRoots": [str(images)],
                    "networks": {"ranges": [_RANGE]},
                    "overcommit": {"cpu": 16},
                }
            },
            "timeouts": {
                "startupMinutes": 15 * patience,
                "silentMinutes": 4,
                "kubeadmMinutes": 5 * patience,
                "leaseSeconds": 15 * patience,
                "probeSeconds": 15 * patience,
                "probePeriodSeconds": 10 * patience,
            },
        },
        "postgresql": {
            "host": HOST_ADDRESS,
            "embedded": {"listen": {"address": HOST_ADDRESS, "networks": [{"network": _RANGE, "roles": ["all"]}]}},
        },
    }
    if image:
        offered: Object = {f"v1.{minor}": {} for minor in range(32, 35)}
        settings["versions"] = {"infrastructures": {"kvm": {"image": image, "offered": offered}}}
    return yaml.safe_dump(settings)


class Cluster:
    """`name` in the namespace of a team. `patience` multiplies what hardware would need."""

    def __init__(self, platform: PlatformProcess, kubectl: str, folder: Path, name: str, patience: float) -> None:
        self.platform = platform
        self.name = name
        self.patience = patience
        self._kubectl = kubectl
        self._folder = folder

    @contextlib.contextmanager
    def elsewhere(self) -> Generator[Cluster]:
        """The cluster as another platform has it, once it is moved there."""
        folder = self._folder / "elsewhere"
        text = self.platform.platform_file.read_text()
        with PlatformProcess(folder, platform=text) as platform:
            platform.start()
            yield Cluster(platform, self._kubectl, folder, self.name, self.patience)
            platform.terminate()

    @property
    def sizes(self) -> Object:
        """Of its machines. A second emulated processor costs more than it brings where the host has few."""
        return {"environment": "dev", "cpuCores": 1 if self.patience > 1 else 2, "memoryGi": 2, "diskGb": 20}

    # The platform.

    def move_to(self, other: Cluster) -> None:
        """Everything of the namespace."""
        source, target = (str(each.platform.data_dir.kubeconfig) for each in (self, other))
        command = [sys.executable, "-m", "steelyard", "move", "--kubeconfig", source, "--to-kubeconfig", target]
        self._run([*command, "-n", NAMESPACE], "", seconds=300)

    def of_platform(self, *arguments: str, stdin: str = "") -> str:
        return self._run(self._kubectl_line(self.platform.data_dir.kubeconfig, *arguments), stdin)

    def read(self, *arguments: str) -> Object:
        return objects.mapping(json.loads(self.of_platform("get", *arguments, "-n", NAMESPACE, "-o", "json")))

    def steelyard(self, *arguments: str) -> str:
        data_dir = ["--data-dir", str(self.platform.data_dir.root)]
        return self._run([sys.executable, "-m", "steelyard", *arguments, *data_dir], "")

    def claim(self, **parameters: Any) -> None:
        body: Object = {
            "apiVersion": "compute.steelyard.dev/v1alpha1",
            "kind": "WorkloadCluster",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {"parameters": parameters},
        }
        self.of_platform("apply", "-f", "-", stdin=json.dumps(body))

    def change(self, **parameters: Any) -> None:
        patch = json.dumps({"spec": {"parameters": parameters}})
        self.of_platform("patch", "workloadcluster", self.name, "-n", NAMESPACE, "--type=merge", "-p", patch)

    def await_condition(self, condition: str, seconds: float) -> None:
        def is_true() -> bool:
            claim = self.read("workloadcluster", self.name)
            found = {
                str(each.get("type")): each for each in objects.sequence(objects.at(claim, "status", "conditions"))
            }
            state = objects.mapping(found.get(condition))
            is_current = state.get("observedGeneration", objects.generation(claim)) == objects.generation(claim)
            assert state.get("status") == "True", f"{condition}: {state.get('message')}"
            return is_current

        until(is_true, f"{condition} of the claim", seconds=seconds * self.patience)

    def machines(self, role: str) -> dict[str, Object]:
        """Machines that are not going; `role` is control-plane or worker."""
        listed = self.read("machines", "-l", f"cluster.x-k8s.io/cluster-name={self.name}")
        is_plane = role == "control-plane"
        return {
            objects.name(each): each
            for each in map(objects.mapping, objects.sequence(listed.get("items")))
            if ("cluster.x-k8s.io/control-plane" in objects.labels(each)) == is_plane
            and not objects.is_being_deleted(each)
        }

    def domain_of(self, machine: str) -> str:
        """The UUID of the domain that a machine is."""
        found = self.read("machine", machine)
        return str(objects.at(found, "spec", "providerID")).removeprefix("kvm://")

    def domains(self) -> dict[str, str]:
        """States of all domains of the host, by UUID."""
        return {uuid: virsh("domstate", uuid) for uuid in virsh("list", "--all", "--uuid").split()}

    # Inside the cluster.

    def kubeconfig(self) -> Path:
        path = self._folder / f"{self.name}.kubeconfig"
        path.write_text(self.steelyard("kubeconfig", self.name, "-n", NAMESPACE))
        path.chmod(0o600)
        return path

    def kubectl(self, *arguments: str, stdin: str = "", seconds: float = 90) -> str:
        config = self._folder / f"{self.name}.kubeconfig"
        if not config.exists():
            self.kubeconfig()
        return self._run(self._kubectl_line(config, *arguments), stdin, seconds)

    def patiently(self, *arguments: str, stdin: str = "", seconds: float = 90) -> str:
        """Again while it fails: an emulated API server sometimes answers later than kubectl waits."""
        said: list[str] = []

        def is_answered() -> bool:
            said.append(self.kubectl(*arguments, stdin=stdin, seconds=seconds))
            return True

        until(is_answered, f"kubectl {' '.join(arguments)}", seconds=150 * self.patience, pause=5)
        return said[-1]

    def nodes(self) -> dict[str, bool]:
        """By name, whether Ready."""
        listed = objects.mapping(json.loads(self.kubectl("get", "nodes", "-o", "json")))
        return {
            objects.name(node): any(
                each.get("type") == "Ready" and each.get("status") == "True"
                for each in objects.sequence(objects.at(node, "status", "conditions"))
            )
            for node in map(objects.mapping, objects.sequence(listed.get("items")))
        }

    def await_nodes(self, names: set[str], seconds: float) -> None:
        def are_ready() -> bool:
            found = self.nodes()
            assert found == dict.fromkeys(names, True), f"Nodes (whether Ready): {found}; wanted: {sorted(names)}"
            return True

        until(are_ready, f"Nodes {', '.join(sorted(names))} Ready", seconds=seconds * self.patience, pause=5)

    def await_machines(self, role: str, count: int, seconds: float) -> dict[str, Object]:
        """Exactly so many, each with its Node."""

        def are_running() -> dict[str, Object]:
            found = self.machines(role)
            running = [name for name, each in found.items() if objects.at(each, "status", "nodeRef", "name")]
            assert len(found) == count == len(running), f"{role} machines: {sorted(found)}; with a Node: {running}"
            return found

        return until(are_running, f"{count} {role} machines", seconds=seconds * self.patience, pause=5)

    def _kubectl_line(self, kubeconfig: Path, *arguments: str) -> list[str]:
        cache = ["--cache-dir", str(self._folder / "kubectl-cache")]
        return [self._kubectl, "--kubeconfig", str(kubeconfig), *cache, *arguments]

    @staticmethod
    def _run(command: list[str], stdin: str, seconds: float = 90) -> str:
        try:
            done = subprocess.run(
                command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{' '.join(command)}: no answer within {seconds:.0f} s") from None
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}"
        return done.stdout
