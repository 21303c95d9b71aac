"""What ours and Cluster API's own managers make of the same claim, compared object by object.

Compared are kinds, labels, annotations, owners, finalizers, Secrets with their keys, and conditions with their states.
Each object is told as a set of facts under a name that is the same on both sides; what only one side has must be in the
table of differences (`differences.py`), with its reason, and what is in the table must be there.
"""

from __future__ import annotations

import asyncio
import fnmatch
import re
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object
from tests.ecosystem.capi import differences, life, stages
from tests.ecosystem.capi.stages import Stage
from tests.ecosystem.outcome import Outcome
from tests.kubectl import Kubectl

_NAME: Final = f"objects of ours and of Cluster API {life.VERSION}'s managers for the same claim"
_KINDS: Final = (
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
    "secrets",
    "configmaps",
    "workloadclusters",
)
_CONTROL_PLANE: Final = "cluster.x-k8s.io/control-plane"
_STILL_SECONDS: Final = 10.0
_RANDOM: Final = re.compile(
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{16}\b|\b[0-9a-f]{8}\b|\b\d{6,}(-[a-z0-9]{5})?\b"
)
_UNTOLD: Final = {"kubectl.kubernetes.io/last-applied-configuration"}


def run(folder: Path, cache: Path, kubectl: str) -> Outcome:
    return asyncio.run(_run(folder, kubectl))


async def _run(folder: Path, kubectl: str) -> Outcome:
    mine, other = folder / "ours", folder / "theirs"
    mine.mkdir()
    other.mkdir()
    with stages.platform(mine, lifecycle=True) as platform:
        kubeconfig = platform.data_dir.kubeconfig
        stage = Stage(Kubectl(kubectl, kubeconfig, mine / "cache"), kubeconfig, mine)
        ours = await asyncio.to_thread(_made, stage)
    async with stages.embedded(other, kubectl) as stage:
        theirs = await asyncio.to_thread(_made, stage)
    problems = list(problems_of(ours - theirs, theirs - ours))
    both = len(ours & theirs)
    counts = f"{len(ours - theirs)} are only ours, {len(theirs - ours)} only theirs"
    told = f"{both} facts are the same; {counts}, each with its reason"
    return Outcome(_NAME, 0 if problems else both, len(problems), told, "\n".join(problems))


def problems_of(ours: Collection[str], theirs: Collection[str]) -> Iterator[str]:
    for side, found, table in (("ours", ours, differences.OURS), ("theirs", theirs, differences.THEIRS)):
        for fact in sorted(found):
            if not any(fnmatch.fnmatchcase(fact, pattern) for pattern in table):
                yield f"only {side}, and nobody says why: {fact}"
        for pattern, reason in table.items():
            if not any(fnmatch.fnmatchcase(fact, pattern) for fact in found):
                yield f"no longer only {side}: {pattern} ({reason})"


def _made(stage: Stage) -> set[str]:
    """When nothing changes any more."""
    stage.apply(life.CLAIM)
    stage.ready("shop")
    facts, since = _facts(stage), time.monotonic()
    deadline = since + stages.STEP_SECONDS
    while time.monotonic() < since + _STILL_SECONDS:
        assert time.monotonic() < deadline, "it does not come to rest"
        time.sleep(1)
        if (found := _facts(stage)) != facts:
            facts, since = found, time.monotonic()
    return facts


def _facts(stage: Stage) -> set[str]:
    found = {kind: stage.items(kind) for kind in _KINDS}
    roles: dict[str, str] = {objects.uid(each): _role(each) for some in found.values() for each in some}
    return {fact for some in found.values() for each in some for fact in _of(each, roles)}


def _role(obj: Object) -> str:
    """`Machine/worker` for shop-md-0-x7k2p-9qz4w: names that are given at random are not compared."""
    name = objects.name(obj)
    kind = str(obj["kind"])
    if kind in ("Machine", "KubeadmConfig", "SimulatedMachine"):
        return f"{kind}/{'control-plane' if _CONTROL_PLANE in objects.labels(obj) else 'worker'}"
    if kind == "MachineSet":
        return f"{kind}/workers"
    if kind == "Secret" and re.fullmatch(r"shop-(control-plane|md-0-\w+)-\w+", name):
        return f"{kind}/bootstrap data of {'control-plane' if 'control-plane' in name else 'worker'}"
    return f"{kind}/{_RANDOM.sub('*', name)}"


def _of(obj: Object, roles: Mapping[str, str]) -> Iterator[str]:
    role = roles[objects.uid(obj)]
    yield f"{role} exists"
    for key, value in objects.labels(obj).items():
        yield f"{role} label {key}={without_random(value)}"
    for key, value in objects.annotations(obj).items():
        if key not in _UNTOLD:
            yield f"{role} annotation {key}" + (f"={without_random(value)}" if len(value) < 40 else "")
    for each in objects.owner_references(obj):
        owner = roles.get(str(each.get("uid")), f"{each.get('kind')}/gone")
        controls = " controller" if each.get("controller") else ""
        blocks = " blocking" if each.get("blockOwnerDeletion") else ""
        yield f"{role} owner {owner}{controls}{blocks}"
    for each in objects.finalizers(obj):
        yield f"{role} finalizer {each}"
    if obj["kind"] in ("Secret", "ConfigMap"):
        yield f"{role} type {obj.get('type', '')}"
        for key in objects.mapping(obj.get("data")):
            yield f"{role} key {key}"
    for each in map(objects.mapping, objects.sequence(objects.at(obj, "status", "conditions"))):
        yield f"{role} condition {each.get('type')}={each.get('status')}"
    older = objects.at(obj, "status", "deprecated", "v1beta1", "conditions")
    for each in map(objects.mapping, objects.sequence(older)):
        yield f"{role} older condition {each.get('type')}={each.get('status')}"


def without_random(text: str) -> str:
    """Without what is given at random.

    >>> without_random("3f6ad0a2-8d69-483d-b6ec-a6566d7e17aa")
    '*'
    """
    text = re.sub(r"\bshop-(control-plane|md-0)-\w+(-\w+)?\b", r"shop-\1-*", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return _RANDOM.sub("*", text)
