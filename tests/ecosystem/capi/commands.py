"""clusterctl against the embedded API: describe, get kubeconfig, generate, and move to another one."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions
from tests.ecosystem.capi import life, stages
from tests.ecosystem.capi.stages import Stage
from tests.ecosystem.outcome import Outcome
from tests.harness import INSTANT, ROOT, PlatformProcess, built
from tests.kubectl import Kubectl

_NAME: Final = f"clusterctl {life.VERSION} against the embedded API"
_COMMAND_SECONDS: Final = 180.0
_NOBODY: Final = ("claims", "lifecycle", "simulated")
_MOVED: Final = (
    "clusters.cluster.x-k8s.io",
    "kubeadmcontrolplanes",
    "machinedeployments",
    "machinesets",
    "machines",
    "kubeadmconfigs",
    "kubeadmconfigtemplates",
    "simulatedclusters",
    "simulatedmachines",
    "simulatedmachinetemplates",
)
_TEMPLATE: Final = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: template}
data:
  template: |
    apiVersion: cluster.x-k8s.io/v1beta2
    kind: Cluster
    metadata: {name: "${CLUSTER_NAME}", namespace: "${NAMESPACE}"}
    spec:
      clusterNetwork: {pods: {cidrBlocks: ["${POD_CIDR:=10.7.0.0/16}"]}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: SimulatedCluster, name: "${CLUSTER_NAME}"}
"""


class Clusterctl:
    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def __call__(self, *words: str, **variables: str) -> str:
        environment = {**os.environ, "HOME": str(self._folder), "XDG_CONFIG_HOME": str(self._folder)}
        environment |= {"CLUSTERCTL_DISABLE_VERSIONCHECK": "true", "GOPROXY": "off", **variables}
        done = subprocess.run(
            [self._program, *words],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"clusterctl {' '.join(words)}: {done.stderr}"
        return done.stdout


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    (program,) = await asyncio.to_thread(built, "clusterctl")
    return await asyncio.to_thread(_told, folder, kubectl, Clusterctl(program, folder))


def _told(folder: Path, kubectl: str, clusterctl: Clusterctl) -> Outcome:
    idle = PlatformProcess(folder / "elsewhere", environment={"PYTHONPATH": str(ROOT / "src")})
    with stages.platform(folder, lifecycle=True) as platform, idle:
        # Where things are moved to the kinds are known, and nothing happens to them.
        idle.start()
        assert idle.terminate() == 0
        idle.arguments = [word for part in _NOBODY for word in ("--without", part)]
        idle.start()
        here, there = (
            Stage(Kubectl(kubectl, each.data_dir.kubeconfig, folder / name), each.data_dir.kubeconfig, folder)
            for name, each in (("here", platform), ("there", idle))
        )
        return stages.told(_NAME, folder, _story(here, there, clusterctl))


def _story(here: Stage, there: Stage, clusterctl: Clusterctl) -> Iterator[str]:
    _apply_without_claim(here)
    place = ("--kubeconfig", str(here.kubeconfig), "--namespace", "default")
    here.until(lambda: _cluster(here), lambda it: conditions.is_true(it, "Available"))
    described = clusterctl("describe", "cluster", "shop", "--show-conditions", "all", "--color=false", *place)
    for part in (
        "Cluster/shop",
        "SimulatedCluster/shop",
        "KubeadmControlPlane/shop-control-plane",
        "MachineDeployment",
    ):
        assert part in described, described
    assert re.search(r"MachineDeployment/shop-md-0 +3/3 +3 +3 +3\b", described), described
    assert len(re.findall(r"─Available +True +Available", described)) == 4, described
    yield "describe cluster shows the parts of a cluster and how they are"

    text = clusterctl("get", "kubeconfig", "shop", *place)
    (here.folder / "shop.kubeconfig").write_text(text)
    inside = Kubectl(here.kube.command[0], here.folder / "shop.kubeconfig", here.folder / "inside")
    assert len(inside.names("nodes")) == 4
    yield "get kubeconfig leads into the cluster, where four Nodes are"

    here.kube("create", "-f", "-", stdin=_TEMPLATE)
    options = ("--from-config-map", "template", "--from-config-map-key", "template")
    made = yaml.safe_load(
        clusterctl(
            "generate", "cluster", "other", *options, "--kubeconfig", str(here.kubeconfig), POD_CIDR="10.9.0.0/16"
        )
    )
    assert (objects.name(made), made["spec"]["clusterNetwork"]["pods"]["cidrBlocks"]) == ("other", ["10.9.0.0/16"])
    yield "generate cluster takes a template out of it"

    before = _moved(here)
    contents = _secrets(here)
    clusterctl("move", *place, "--to-kubeconfig", str(there.kubeconfig))
    assert not [each for kind in _MOVED for each in here.items(kind)]
    assert _moved(there).keys() == before.keys()
    assert _secrets(there) == contents
    _check_owners(there)
    yield f"move takes {len(before)} objects and {len(contents)} Secrets to another one, owners and all"


def _apply_without_claim(stage: Stage) -> None:
    """What `steelyard render` prints: a claim of our own would make here again what is moved away."""
    (stage.folder / "claim.yaml").write_text(life.CLAIM)
    (stage.folder / "render.yaml").write_text(INSTANT)
    command = [sys.executable, "-m", "steelyard", "render", "-f", str(stage.folder / "claim.yaml")]
    command += ["--platform", str(stage.folder / "render.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=stage.folder, env=environment, capture_output=True, text=True, check=True)
    stage.kube("apply", "-f", "-", stdin=done.stdout)


def _cluster(stage: Stage) -> Object:
    return stage.kube.json("get", "clusters.cluster.x-k8s.io", "shop")


def _moved(stage: Stage) -> Mapping[str, Object]:
    return {f"{each['kind']}/{objects.name(each)}": each for kind in _MOVED for each in stage.items(kind)}


def _secrets(stage: Stage) -> Mapping[str, Object]:
    return {objects.name(each): each["data"] for each in stage.items("secrets")}


def _check_owners(stage: Stage) -> None:
    """Each owner is an object that is there, under its new identity."""
    there = [each for kind in (*_MOVED, "secrets") for each in stage.items(kind)]
    known = {objects.uid(each) for each in there}
    for each in there:
        for owner in objects.owner_references(each):
            assert owner["uid"] in known, (objects.name(each), owner)
