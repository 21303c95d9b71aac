"""What bringing up a simulated cluster of 1 + 3 machines asks of the API, call by call: so that it does not creep up.

Each write has a reason here. What is made, and each field that Cluster API's contract hands on, is written once; those
numbers are exact. Statuses are reported as things happen, and how much is collected into one report depends on how fast
the machine is: of those there are bounds, which a slow machine keeps as well.
"""

from __future__ import annotations

import asyncio
import collections
from pathlib import Path
from typing import Final

import pytest

from steelyard.kube import exposition
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import Call, Reply
from tests import inprocess

CLUSTERS: Final = 3
EXACTLY: Final = {
    "create workloadclusters": (1, "the claim"),
    "patch workloadclusters": (1, "its finalizer, before anything is made"),
    "apply simulatedclusters": (1, "composed"),
    "apply simulatedmachinetemplates": (2, "composed, of control plane and workers"),
    "apply kubeadmcontrolplanes": (1, "composed"),
    "apply clusters": (1, "composed"),
    "apply kubeadmconfigtemplates": (1, "composed"),
    "apply machinedeployments": (1, "composed"),
    "patch clusters": (2, "its finalizer; the endpoint, once the infrastructure has one"),
    "patch simulatedclusters": (2, "its owner; its finalizer and port, before anything listens there"),
    "patch kubeadmcontrolplanes": (2, "its owner; its finalizer"),
    "patch simulatedmachinetemplates": (2, "the owner of each"),
    "patch kubeadmconfigtemplates": (1, "its owner"),
    "patch machinedeployments": (2, "owner and finalizer; the revision, once its MachineSet is there"),
    "create machinesets": (1, "one revision of the template"),
    "create machines": (4, "intent, before what they refer to"),
    "create kubeadmconfigs": (4, "one for each machine"),
    "create simulatedmachines": (4, "one for each machine"),
    "create secrets": (9, "four authorities and keys, the kubeconfig, bootstrap data of four machines"),
    "create configmaps": (1, "the lock of the machine that begins the control plane"),
    "delete configmaps": (1, "the same"),
    "patch kubeadmconfigs": (3, "the token of each that joins, before it exists in the cluster"),
    "patch machines": (8, "of each the name of its bootstrap data, and its provider ID"),
    "patch simulatedmachines": (4, "finalizer and provider ID, before it boots"),
    "patch simulatedclusters/status": (1, "that the endpoint is there"),
    "patch simulatedmachines/status": (4, "that it runs"),
    "create events": (1, "that the claim is ready"),
}
AT_MOST: Final = {
    "patch kubeadmconfigs/status": (8, "of each that it waits, and that its data is there"),
    "patch machines/status": (24, "of each: made, its parts there, bootstrap data, provisioned, its Node"),
    "patch clusters/status": (18, "sums up everything in it; at least infrastructure, control plane, workers"),
    "patch kubeadmcontrolplanes/status": (8, "sums up its machine"),
    "patch machinedeployments/status": (10, "sums up its MachineSet"),
    "patch machinesets/status": (8, "sums up three machines"),
    "patch workloadclusters/status": (14, "the inventory before anything is made; then sums up the cluster"),
}
INSIDE: Final = {
    "create namespaces": (4, "those that every cluster has"),
    "create nodes": (4, "one for each machine"),
    "patch nodes": (4, "the machine's labels, and off with the taint of those that are not known yet"),
    "create secrets": (3, "the token of each machine that joins"),
    "create configmaps": (1, "what kubeadm was told, for those that join"),
    "create pods": (4, "those of the control plane, which Cluster API's own managers look for"),
    "patch pods/status": (4, "that each runs"),
}
READ: Final = {
    "get simulatedmachinetemplates": (2, "nobody watches templates yet when the first claim is applied"),
    "get kubeadmconfigtemplates": (1, "the same"),
}
READ_INSIDE: Final = {
    "list nodes": (1, "once, then they are watched"),
    "list pods": (3, "what runs on the machine of the control plane, with each look at it since its Node is there"),
    "get secrets": (10, "tokens: of each whether it is there, whether it is valid when it is used, and until when"),
}
AROUND: Final = {"create namespaces", "patch providerconfigs", "patch providerconfigs/status"}
"""Not of the clusters: the test's own, and what the platform does when it starts."""
RECONCILES: Final = 170
"""Of each cluster, by all controllers: 120 to 145 where it was measured."""


class Counted:
    def __init__(self) -> None:
        self.platform: collections.Counter[str] = collections.Counter()
        self.inside: collections.Counter[str] = collections.Counter()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted()
    call = Api.call
    platforms: list[Api] = []

    async def counting(self: Api, asked: Call) -> Reply:
        # The platform's own is the first that is asked; each cluster has another.
        platforms[:] = platforms or [self]
        verb = "apply" if asked.patch_type == "apply" else asked.verb
        what = f"{verb} {asked.plural}{'/' if asked.subresource else ''}{asked.subresource}"
        (found.platform if self is platforms[0] else found.inside)[what] += 1
        return await call(self, asked)

    monkeypatch.setattr(Api, "call", counting)
    return found


async def test_bringing_up_a_cluster_asks_for_no_more_than_this(tmp_path: Path, counted: Counted) -> None:
    async with inprocess.platform(tmp_path) as client:
        counted.platform.clear()
        before = _reconciles()
        claims = [inprocess.claim(f"c{number}", controlPlaneReplicas=1, workerReplicas=3) for number in range(CLUSTERS)]
        await asyncio.gather(*(inprocess.becomes_ready(client, each) for each in claims))
        await asyncio.sleep(2)  # What is looked at a second time is to write nothing.
    for table, calls in ((EXACTLY, counted.platform), (INSIDE, counted.inside)):
        expected = {what: number * CLUSTERS for what, (number, _) in table.items()}
        assert {what: calls[what] for what in table} == expected
    for table, calls in ((AT_MOST | READ, counted.platform), (READ_INSIDE, counted.inside)):
        assert [
            _more(what, calls[what], *table[what]) for what in table if calls[what] > table[what][0] * CLUSTERS
        ] == []
    known = {*EXACTLY, *AT_MOST, *INSIDE, *AROUND}
    written = {what for what in (*counted.platform, *counted.inside) if what.partition(" ")[0] not in ("get", "list")}
    assert written - known == set(), "each write has its reason above"
    of_each = {what for what, number in counted.platform.items() if what.startswith("get") and number >= CLUSTERS}
    assert of_each - {*READ, "get customresourcedefinitions"} == set(), "reads come from caches"
    assert _reconciles() - before <= RECONCILES * CLUSTERS


def _more(what: str, number: int, allowed: int, reason: str) -> str:
    return f"{what}: {number / CLUSTERS:.1f} for each cluster, at most {allowed} ({reason})"


def _reconciles() -> float:
    return sum(
        sample.value
        for metric in exposition.PROCESS.complete().collect()
        for sample in metric.samples
        if sample.name == "steelyard_reconciles_total"
    )
