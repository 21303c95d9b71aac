"""The life of a cluster of simulated machines under Cluster API's own managers: 1 + 3 machines, more, others, none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.ecosystem.capi import stages
from tests.ecosystem.capi.stages import Stage
from tests.ecosystem.outcome import Outcome

VERSION: Final = "1.11.3"
CLAIM: Final = """\
apiVersion: compute.steelyard.dev/v1alpha1
kind: WorkloadCluster
metadata: {name: shop}
spec: {parameters: {environment: dev, controlPlaneReplicas: 1, workerReplicas: 3, cpuCores: 2}}
"""
_LEFT: Final = (
    "clusters.cluster.x-k8s.io",
    "machines",
    "machinesets",
    "machinedeployments",
    "kubeadmcontrolplanes",
    "kubeadmconfigs",
    "kubeadmconfigtemplates",
    "simulatedmachines",
    "simulatedclusters",
    "simulatedmachinetemplates",
)


def run_embedded(folder: Path, cache: Path, kubectl: str) -> Outcome:
    name = f"Cluster API {VERSION}'s managers with simulated machines, on the embedded API"
    return asyncio.run(_run(name, folder, kubectl, upstream=False))


def run_on_kubernetes(folder: Path, cache: Path, kubectl: str) -> Outcome:
    name = f"Cluster API {VERSION}'s managers with simulated machines, on kube-apiserver"
    return asyncio.run(_run(name, folder, kubectl, upstream=True))


async def _run(name: str, folder: Path, kubectl: str, *, upstream: bool) -> Outcome:
    staging = stages.on_kubernetes if upstream else stages.embedded
    async with staging(folder, kubectl) as stage:
        return await asyncio.to_thread(stages.told, name, folder, story(stage))


def story(stage: Stage) -> Iterator[str]:
    stage.apply(CLAIM)
    stage.ready("shop")
    machines = stage.items("machines")
    assert len(machines) == 4, [objects.name(each) for each in machines]
    assert all(_phase(each) == "Running" for each in machines), machines
    first = _control_plane(machines)
    yield "1 + 3 machines Running"

    change(stage, workerReplicas=4, controlPlaneReplicas=3)
    stage.ready("shop", lambda it: summaries(it) == ("3/3", "4/4"))
    stage.until(lambda: _uids(stage), lambda found: len(found) == 7)
    assert first <= _control_plane(stage.items("machines"))
    change(stage, workerReplicas=2, controlPlaneReplicas=1)
    stage.until(lambda: _uids(stage), lambda found: len(found) == 3)
    stage.ready("shop", lambda it: summaries(it) == ("1/1", "2/2"))
    yield "scaled to 3 + 4 and back to 1 + 2, members of etcd removed on the way"

    before = _uids(stage)
    change(stage, cpuCores=4)
    stage.until(lambda: _uids(stage), lambda found: len(found) == 3 and not found & before)
    stage.ready("shop", lambda it: summaries(it) == ("1/1", "2/2"))
    assert all(each["spec"]["cpuCores"] == 4 for each in stage.items("simulatedmachines"))
    yield "another size replaces all three machines"

    stage.kube("delete", "workloadcluster", "shop", "--wait=false")
    stage.until(lambda: stage.items("workloadclusters"), lambda left: not left)
    for kind in _LEFT:
        stage.until(lambda kind=kind: stage.items(kind), lambda left: not left)
    yield "deleted, with nothing left"


def change(stage: Stage, **parameters: int) -> None:
    patch = json.dumps({"spec": {"parameters": parameters}})
    stage.kube("patch", "workloadcluster", "shop", "--type=merge", "-p", patch)


def summaries(claim: Object) -> tuple[str, str]:
    found = (objects.at(claim, "status", part, "summary") for part in ("controlPlane", "workers"))
    control_plane, workers = map(str, found)
    return control_plane, workers


def _phase(machine: Object) -> str:
    return str(objects.at(machine, "status", "phase"))


def _uids(stage: Stage) -> set[str]:
    return {objects.uid(each) for each in stage.items("machines")}


def _control_plane(machines: list[Object]) -> set[str]:
    label = "cluster.x-k8s.io/control-plane"
    return {objects.uid(each) for each in machines if label in objects.labels(each)}
