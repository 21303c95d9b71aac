"""clusterctl, built from Cluster API's module, with what `steelyard provider kvm manifests` writes.

It takes that for the release of a provider and makes a cluster of its template, and a bare API server of ours accepts
the cluster beside Cluster API's definitions.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import yaml

import steelyard
from steelyard.clusterctl import components, template
from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.conformance import keys, ours
from tests.ecosystem import managers
from tests.ecosystem.outcome import Outcome
from tests.harness import built
from tests.kubectl import Kubectl

VERSION: Final = "1.11.3"
RELEASE: Final = f"v{steelyard.__version__}"
_NAME: Final = f"clusterctl {VERSION} with the provider of KVM hosts"
_KUBERNETES: Final = "v1.34.4"
_LABEL: Final = "cluster.x-k8s.io/provider"
_COMMAND_SECONDS: Final = 120.0
_COUNTS: Final = ("CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT")
"""For these clusterctl has defaults of its own, 1 and 0, which go before those of any template."""


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    program = built("clusterctl")[0]
    shared = folder / "shared"
    keys.write(shared)
    async with ours.running(folder, shared) as server:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(_kubeconfig(server.url, server.tokens["admin"])))
        kube = Kubectl(kubectl, kubeconfig, folder / "cache")
        return await asyncio.to_thread(_against, kube, Clusterctl(program, folder))


class Clusterctl:
    """The program, with a repository that has one release of the provider."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.release = folder / "repository" / "infrastructure-kvm" / RELEASE
        written = [sys.executable, "-m", "steelyard", "provider", "kvm", "manifests", "-o", str(self.release)]
        subprocess.run(written, check=True, timeout=_COMMAND_SECONDS, capture_output=True)
        url = str(self.release / "infrastructure-components.yaml")
        provider = {"name": components.PROVIDER, "type": "InfrastructureProvider", "url": url}
        self._config = folder / "clusterctl.yaml"
        self._config.write_text(yaml.safe_dump({"providers": [provider]}))

    def __call__(self, *words: str, **variables: str) -> str:
        environment = {**os.environ, "HOME": str(self._folder), "XDG_CONFIG_HOME": str(self._folder)}
        # Nothing is asked of the outside, nor of a cluster that somebody works with.
        environment |= {
            "CLUSTERCTL_DISABLE_VERSIONCHECK": "true",
            "KUBECONFIG": str(self._folder / "none"),
            **variables,
        }
        done = subprocess.run(
            [self._program, *words, "--config", str(self._config)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"clusterctl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def objects(self, *words: str, **variables: str) -> list[Object]:
        return [cast("Object", each) for each in yaml.safe_load_all(self(*words, **variables)) if each]


def _against(kube: Kubectl, clusterctl: Clusterctl) -> Outcome:
    passed: list[str] = []
    try:
        passed.extend(_checks(kube, clusterctl))
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        return Outcome(_NAME, len(passed), 1, story=f"after: {', '.join(passed)}\n{error}")
    return Outcome(_NAME, len(passed), 0, "; ".join(passed))


def _checks(kube: Kubectl, clusterctl: Clusterctl) -> Iterator[str]:
    """Yields what has been seen, step by step."""
    release = f"{components.PROVIDER}:{RELEASE}"
    installed = clusterctl.objects("generate", "provider", "--infrastructure", release)
    assert {objects.labels(each).get(_LABEL) for each in installed} == {"infrastructure-kvm"}, installed
    kinds = [str(each["kind"]) for each in installed]
    assert kinds.count("CustomResourceDefinition") == 5, kinds
    (deployment,) = (each for each in installed if each["kind"] == "Deployment")
    assert [each["name"] for each in deployment["spec"]["template"]["spec"]["containers"]] == ["manager"], deployment
    yield f"generate provider takes the release: {len(installed)} objects, each with the provider's label"

    told = clusterctl("generate", "cluster", "shop", *_source(clusterctl), "--list-variables")
    listed = dict(re.findall(r"^\s+- (\w+)(?: +\(defaults to (.*)\))?$", told, re.MULTILINE))
    wanted = {name: json.dumps(default) for name, default in template.VARIABLES.items() if name not in _COUNTS}
    assert set(_COUNTS) <= set(listed), told
    assert {name: listed.get(name) for name in wanted} == wanted, told
    yield f"generate cluster --list-variables tells {len(wanted)} variables with their defaults"

    counts = ("--control-plane-machine-count", "3", "--worker-machine-count", "2")
    source_of = (*_source(clusterctl), "--kubernetes-version", _KUBERNETES)
    made = clusterctl.objects("generate", "cluster", "shop", *source_of, *counts)
    counted = {str(each["kind"]): objects.at(each, "spec", "replicas") for each in made}
    assert (counted["KubeadmControlPlane"], counted["MachineDeployment"]) == (3, 2), counted
    yield "generate cluster makes one of the template"

    chosen = {"WORKER_MACHINE_COUNT": "1", "WORKER_MACHINE_CPUS": "2", "POD_IP_RANGE": "10.77.0.0/16"}
    other = clusterctl.objects("generate", "cluster", "shop", *source_of, **chosen)
    workers = _named(other, "KVMMachineTemplate", "shop-md-0")["spec"]["template"]["spec"]["resources"]
    assert workers == {"cpu": 2, "memory": "8GB", "disk": "40GB", "dockerVolumeSize": "40GB"}, workers
    assert "10.77.0.0/16" in _named(other, "Secret", "shop-flannel")["stringData"]["flannel.json"], other
    yield "and fills in what is said"

    for folder in (".", "bootstrap/kubeadm", "controlplane/kubeadm"):
        kube("create", "-f", "-", stdin=_documents(managers.definitions(_module() / folder, managers.CONTRACT)))
    kube("create", "-n", components.NAMESPACE, "-f", "-", stdin=_documents(installed))
    kube("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    kube("create", "namespace", "team-a")
    kube("create", "-n", "team-a", "-f", "-", "--validate=strict", stdin=_documents(made))
    assert kube("get", "kvmclusters", "-n", "team-a", "-o", "name").split() == [
        "kvmcluster.infrastructure.cluster.x-k8s.io/shop"
    ]
    kube("create", "-f", str(clusterctl.release / "kvmhost-example.yaml"), "--validate=strict")
    yield f"an API server with these definitions takes all {len(made)} objects of the cluster, and the host"


def _source(clusterctl: Clusterctl) -> tuple[str, ...]:
    return ("--from", str(clusterctl.release / "cluster-template.yaml"), "--target-namespace", "team-a")


def _module() -> Path:
    return managers.folder_of(managers.CLUSTER_API, "clusterctl")


def _named(found: list[Object], kind: str, name: str) -> Object:
    return next(each for each in found if each["kind"] == kind and objects.name(each) == name)


def _documents(items: list[Object]) -> str:
    return "\n---\n".join(map(json.dumps, items))


def _kubeconfig(url: str, token: str) -> Mapping[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "a", "user": {"token": token}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
