"""Three control-plane machines: the one that holds both the address and etcd's leadership is destroyed under load."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from tests.machines import leftovers
from tests.machines.barehost import virsh
from tests.machines.cluster import NAMESPACE, Cluster
from tests.machines.story import Memory, Stage, until

_WRITE_SECONDS: Final = 240.0


class Writes:
    """One ConfigMap after the other; those that were acknowledged are noted."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: list[str] = []
        self.refused = 0
        self.longest_gap = 0.0
        self._cluster = cluster
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        last = time.monotonic()
        while not self._ended.is_set():
            name = f"write-{number}"
            try:
                self._cluster.kubectl("create", "configmap", name, f"--from-literal=number={number}", seconds=30)
            except AssertionError:
                self.refused += 1
            else:
                self.acknowledged.append(name)
                self.longest_gap = max(self.longest_gap, time.monotonic() - last)
                last = time.monotonic()
            number += 1


class Replicated:
    def __init__(self, cluster: Cluster, memory: Memory, machines: Path, version: str) -> None:
        self._cluster = cluster
        self._memory = memory
        self._machines = machines
        self._version = version

    def stages(self) -> list[Stage]:
        return [
            Stage("1", "three control-plane nodes Ready, three etcd members", self._three),
            Stage("2", "the holder of address and leadership destroyed while writes go on", self._destroy),
            Stage("3", "replaced: three members again", self._replaced),
            Stage("4", "deleted: nothing left", self._delete),
        ]

    def _three(self) -> str:
        cluster = self._cluster
        if self._memory.get("before") is None:
            self._memory.set("before", leftovers.listing([self._machines]))
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        cluster.of_platform("apply", "-f", "-", stdin=json.dumps(body))
        cluster.claim(**cluster.sizes, controlPlaneReplicas=3, workerReplicas=0, kubernetesVersion=self._version)
        names = cluster.await_machines("control-plane", 3, 1500)
        cluster.await_nodes(set(names), 300)
        members = self._members()
        assert members == sorted(names), members
        return f"members {', '.join(members)}"

    def _destroy(self) -> str:
        cluster = self._cluster
        holder = self._holder()
        self._move_leadership_to(holder)
        domain = cluster.domain_of(holder)
        writes = Writes(cluster)
        writes.start()
        time.sleep(20)
        # Its disk goes too: otherwise it would only be started again.
        for disk in (self._machines / domain).glob("root*"):
            disk.unlink()
        virsh("destroy", domain)
        self._memory.set("destroyed", holder)
        time.sleep(_WRITE_SECONDS)
        writes.stop()
        listed = cluster.kubectl("get", "configmaps", "-o", "jsonpath={.items[*].metadata.name}", seconds=120).split()
        lost = sorted(set(writes.acknowledged) - set(listed))
        assert not lost, f"acknowledged and lost: {lost}"
        assert len(writes.acknowledged) > 20, f"only {len(writes.acknowledged)} writes were acknowledged"
        return (
            f"{holder} destroyed; {len(writes.acknowledged)} writes acknowledged, 0 lost, {writes.refused} refused, "
            f"longest gap {writes.longest_gap:.0f} s"
        )

    def _replaced(self) -> str:
        cluster = self._cluster
        destroyed = str(self._memory.get("destroyed"))

        def is_replaced() -> bool:
            names = sorted(cluster.machines("control-plane"))
            assert len(set(names) - {destroyed}) == len(names) == 3, names
            assert self._members() == names, f"members {self._members()}, machines {names}"
            return True

        until(is_replaced, f"{destroyed} is replaced", seconds=1800 * cluster.patience, pause=10)
        cluster.await_nodes(set(cluster.machines("control-plane")), 300)
        cluster.await_condition("Ready", 300)
        return f"members {', '.join(self._members())}"

    def _delete(self) -> str:
        cluster = self._cluster
        cluster.of_platform(
            "delete", "workloadcluster", cluster.name, "-n", NAMESPACE, "--wait=false", "--ignore-not-found"
        )

        def is_gone() -> bool:
            left = cluster.of_platform(
                "get", "workloadclusters,clusters,machines,kvmmachines,kvmclusters", "-A", "-o", "name"
            )
            assert not left.strip(), left
            return True

        until(is_gone, "every object is gone", seconds=300 * cluster.patience)
        before = self._memory.get("before")
        after = leftovers.listing([self._machines])
        assert not leftovers.differences(before, after), leftovers.differences(before, after)
        return f"before: {leftovers.counts(before)}; after: {leftovers.counts(after)}"

    def _etcdctl(self, node: str, *arguments: str) -> str:
        """In the pod of that node, where the program is the etcd image's own."""
        pki = "/etc/kubernetes/pki/etcd"
        credentials = [f"--cacert={pki}/ca.crt", f"--cert={pki}/server.crt", f"--key={pki}/server.key"]
        command = ["exec", "-n", "kube-system", f"etcd-{node}", "--", "etcdctl", *credentials]
        return self._cluster.kubectl(*command, "--endpoints=https://127.0.0.1:2379", *arguments, seconds=120)

    def _members(self) -> list[str]:
        node = next(name for name, is_ready in self._cluster.nodes().items() if is_ready)
        listed = json.loads(self._etcdctl(node, "member", "list", "-w", "json"))
        return sorted(str(each.get("name")) for each in listed["members"])

    def _holder(self) -> str:
        """Which machine answers for the cluster's address, by the hardware address that the host has learnt for it."""
        host = str(self._cluster.read("cluster", self._cluster.name)["spec"]["controlPlaneEndpoint"]["host"])
        self._cluster.kubectl("get", "nodes")
        shown = subprocess.run(["ip", "neigh", "show", host], capture_output=True, text=True, check=True).stdout
        hardware = shown.split("lladdr ")[1].split()[0]
        for name in self._cluster.machines("control-plane"):
            if hardware in virsh("domiflist", self._cluster.domain_of(name)):
                return name
        raise AssertionError(f"no machine has {hardware}, which answers for {host}")

    def _move_leadership_to(self, node: str) -> None:
        listed = json.loads(self._etcdctl(node, "endpoint", "status", "-w", "json"))[0]["Status"]
        own, leader = int(listed["header"]["member_id"]), int(listed["leader"])
        if own == leader:
            return
        members = json.loads(self._etcdctl(node, "member", "list", "-w", "json"))["members"]
        leading = next(str(each["name"]) for each in members if int(each["ID"]) == leader)
        self._etcdctl(leading, "move-leader", f"{own:x}")
