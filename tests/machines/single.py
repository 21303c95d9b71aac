"""One control-plane machine and a few workers, from the claim to the last file that is gone."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from pathlib import Path
from typing import Final

from steelyard.kube.objects import Object
from tests.machines import leftovers, pods, postgres_login
from tests.machines.barehost import virsh
from tests.machines.cluster import NAMESPACE, Cluster
from tests.machines.story import Memory, Stage, until

_OTHER_TEAM: Final = "team-b"
_KILLS: Final = 5
_ASKING: Final = """\
import socket, time, urllib.request
# A Node is Ready before the pods are that answer for names.
latest = time.monotonic() + {seconds}
while True:
    try:
        print(urllib.request.urlopen("http://first", timeout=60).read().decode(), end="")
        break
    except OSError:
        if time.monotonic() > latest:
            raise
        time.sleep(2)
print(socket.gethostbyname("kubernetes.default.svc.cluster.local"))
"""


class Single:
    def __init__(self, cluster: Cluster, memory: Memory, machines: Path, versions: tuple[str, str]) -> None:
        self._cluster = cluster
        self._memory = memory
        self._machines = machines
        self._version, self._next_version = versions

    def stages(self) -> list[Stage]:
        return [
            Stage("a", "one control-plane node Ready through the issued kubeconfig", self._control_plane),
            Stage("b", "a worker; a pod on it answers through a Service and resolves names", self._worker),
            Stage("c", "two workers; pods on both reach each other", self._two_workers),
            Stage("d", "a worker ended by virsh comes back, one without its disk is replaced", self._losses),
            Stage("e", "the platform killed with -9 during a create: same domains, none doubled", self._kills),
            Stage("i", "moved to another platform and back, no machine notices", self._move),
            Stage("h", "a pod logs in to its database by TLS, another team's pod is refused", self._database),
            Stage("f", f"machines rolled from {self._version} to {self._next_version}", self._upgrade),
            Stage("g", "deleted: nothing left", self._delete),
        ]

    def _control_plane(self) -> str:
        cluster = self._cluster
        if self._memory.get("before") is None:
            self._memory.set("before", leftovers.listing([self._machines]))
        cluster.of_platform("apply", "-f", "-", stdin=json.dumps(_namespace(NAMESPACE)))
        cluster.claim(**cluster.sizes, controlPlaneReplicas=1, workerReplicas=1, kubernetesVersion=self._version)
        (name,) = cluster.await_machines("control-plane", 1, 300)

        def is_ready() -> bool:
            return cluster.nodes().get(name, False)

        until(is_ready, f"Node {name} Ready", seconds=300 * cluster.patience, pause=5)
        return f"{name} is Ready at {cluster.read('cluster', cluster.name)['spec']['controlPlaneEndpoint']}"

    def _worker(self) -> str:
        cluster = self._cluster
        (plane,) = cluster.machines("control-plane")
        (worker,) = cluster.await_machines("worker", 1, 300)
        cluster.await_nodes({plane, worker}, 300)
        cluster.await_condition("Ready", 120)
        labels = {"app": "first"}
        pods.apply(cluster, pods.pod(cluster, "first", pods.SERVER, node=worker, labels=labels))
        pods.apply(cluster, pods.service("first", labels))
        pods.await_running(cluster, "first")
        said = pods.answer(cluster, "asking", _ASKING.format(seconds=60 * cluster.patience)).split()
        api = cluster.patiently("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
        assert said == ["first", api], said
        return f"on {worker}: http://first answers, kubernetes.default is {api}"

    def _two_workers(self) -> str:
        cluster = self._cluster
        cluster.change(workerReplicas=2)
        workers = cluster.await_machines("worker", 2, 300)
        (plane,) = cluster.machines("control-plane")
        cluster.await_nodes({plane, *workers}, 300)
        for index, worker in enumerate(sorted(workers)):
            pods.apply(cluster, pods.pod(cluster, f"peer-{index}", pods.SERVER, node=worker))
        addresses = [
            str(pods.await_running(cluster, f"peer-{index}")["status"]["podIP"]) for index in range(len(workers))
        ]
        for index, other in ((0, addresses[1]), (1, addresses[0])):
            asked = f"import urllib.request as u; print(u.urlopen('http://{other}:8080', timeout=60).read().decode())"
            said = cluster.patiently("exec", f"peer-{index}", "--", "/usr/bin/python3", "-c", asked, seconds=300)
            assert said.strip() == f"peer-{1 - index}", said
        return f"pods {' and '.join(addresses)} on {' and '.join(sorted(workers))}"

    def _losses(self) -> str:
        cluster = self._cluster
        first, second = sorted(cluster.await_machines("worker", 2, 300))
        (plane,) = cluster.machines("control-plane")
        cluster.await_nodes({plane, first, second}, 300)
        ended, lost = cluster.domain_of(first), cluster.domain_of(second)
        booted = self._boot_id(first)
        # What was written for it a moment ago is on no disk yet.
        hit = f"hit-{first}"
        pods.apply(cluster, pods.pod(cluster, hit, pods.SERVER, node=first))
        (container,) = pods.await_running(cluster, hit)["status"]["containerStatuses"]
        virsh("destroy", ended)

        def is_back() -> bool:
            return self._boot_id(first) != booted and cluster.nodes().get(first, False)

        started = time.monotonic()
        until(is_back, f"{first} comes back", seconds=300 * cluster.patience, pause=5)
        back = time.monotonic() - started
        pods.await_running(cluster, hit, after=container["containerID"])
        assert cluster.domain_of(first) == ended
        for disk in (self._machines / lost).glob("root*"):
            disk.unlink()
        virsh("destroy", lost)
        started = time.monotonic()

        def is_replaced() -> bool:
            found = cluster.machines("worker")
            assert len(found.keys() - {second}) == len(found) == 2, sorted(found)
            return lost not in cluster.domains()

        until(is_replaced, f"{second} is replaced", seconds=1500 * cluster.patience, pause=5)
        workers = cluster.await_machines("worker", 2, 600)
        cluster.await_nodes({plane, *workers}, 300)
        replaced = time.monotonic() - started
        return f"{first} Ready again after {back:.0f} s, its pod runs; {second} replaced after {replaced:.0f} s"

    def _boot_id(self, node: str) -> str:
        return self._cluster.patiently("get", "node", node, "-o", "jsonpath={.status.nodeInfo.bootID}")

    def _kills(self) -> str:
        """Each time a little further into the making of one more machine."""
        cluster, platform = self._cluster, self._cluster.platform
        before = set(cluster.domains())
        cluster.change(workerReplicas=3)
        for number in range(_KILLS):
            time.sleep(0.4 * number)
            assert platform.process is not None
            os.killpg(platform.process.pid, signal.SIGKILL)
            platform.process.wait()
            platform.start()
        workers = cluster.await_machines("worker", 3, 300)
        after = set(cluster.domains())
        (plane,) = cluster.machines("control-plane")
        cluster.await_nodes({plane, *workers}, 300)
        assert before < after, "domains that were there before are gone"
        assert len(after) == len(before) + 1, f"{len(after) - len(before)} domains were made for one machine"
        cluster.change(workerReplicas=2)
        workers = cluster.await_machines("worker", 2, 600)
        until(lambda: len(cluster.domains()) == len(before), "one domain less", seconds=300 * cluster.patience)
        # Its Node goes last.
        cluster.await_nodes({plane, *workers}, 300)
        return f"{_KILLS} kills, one new domain, the {len(before)} others as before"

    def _move(self) -> str:
        """Both look at the same host, as they would from two machines."""
        cluster = self._cluster
        before = _living(cluster)
        seconds: list[float] = []
        with cluster.elsewhere() as there:
            for source, target in ((cluster, there), (there, cluster)):
                started = time.monotonic()
                source.move_to(target)
                target.await_condition("Ready", 300)
                seconds.append(time.monotonic() - started)
                after = _living(target)
                changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
                assert not changed, changed
                left = source.of_platform("get", "workloadclusters,clusters,machines,kvmmachines", "-A", "-o", "name")
                assert not left.strip(), left
        return f"there in {seconds[0]:.0f} s and back in {seconds[1]:.0f} s; {len(before['domains'])} domains as before"

    def _database(self) -> str:
        cluster = self._cluster
        cluster.of_platform("apply", "-f", "-", stdin=json.dumps(_namespace(_OTHER_TEAM)))
        for team in (NAMESPACE, _OTHER_TEAM):
            pods.apply(cluster, _namespace(team))
            cluster.of_platform("apply", "-f", "-", stdin=_database(team, cluster.name))
        for team in (NAMESPACE, _OTHER_TEAM):
            until(
                lambda team=team: cluster.kubectl("get", "secret", "orders-db", "-n", team, "-o", "name"),
                f"the Secret of {team} is in the cluster",
                seconds=120 * cluster.patience,
            )
        said = pods.answer(
            cluster, "own", postgres_login.program("SELECT current_user"), namespace=NAMESPACE, secret="orders-db"
        )
        assert said.startswith("TLSv1."), said
        theirs = json.loads(cluster.patiently("get", "secret", "orders-db", "-n", NAMESPACE, "-o", "json"))["data"]
        name = base64.b64decode(theirs["database"]).decode()
        tried = postgres_login.program("SELECT current_database()", database=name)
        refusal = pods.answer(cluster, "foreign", tried, namespace=_OTHER_TEAM, secret="orders-db")
        assert refusal.startswith("refused: "), refusal
        return f"own: {said}; the other team's: {refusal}"

    def _upgrade(self) -> str:
        cluster = self._cluster
        before = {role: cluster.machines(role) for role in ("control-plane", "worker")}
        cluster.change(kubernetesVersion=self._next_version)

        def is_rolled() -> bool:
            nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
            versions = {node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes}
            assert set(versions.values()) == {self._next_version}, versions
            assert len(versions) == sum(map(len, before.values())), versions
            return all(cluster.nodes().values())

        until(is_rolled, f"all Nodes have {self._next_version}", seconds=1800 * cluster.patience, pause=10)
        cluster.await_condition("UpToDate", 300)
        after = {role: cluster.machines(role) for role in before}
        kept = {name for role in before for name in before[role] if name in after[role]}
        assert not kept, f"not replaced: {kept}"
        return f"{sum(map(len, after.values()))} machines with {self._next_version}"

    def _delete(self) -> str:
        cluster = self._cluster
        for team in (NAMESPACE, _OTHER_TEAM):
            cluster.of_platform(
                "delete", "postgresqlinstance", "orders", "-n", team, "--ignore-not-found", "--wait=false"
            )
        cluster.of_platform(
            "delete", "workloadcluster", cluster.name, "-n", NAMESPACE, "--ignore-not-found", "--wait=false"
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


def _living(cluster: Cluster) -> Object:
    """What the machines and the cluster themselves would notice, were they made anew."""
    machines = {**cluster.machines("control-plane"), **cluster.machines("worker")}
    nodes = json.loads(cluster.patiently("get", "nodes", "-o", "json"))["items"]
    secrets = ("ca", "etcd", "sa", "proxy", "kubeconfig")
    return {
        "machines": {name: each["spec"]["providerID"] for name, each in sorted(machines.items())},
        "domains": cluster.domains(),
        "nodes": {
            node["metadata"]["name"]: [
                node["metadata"]["uid"],
                node["metadata"]["creationTimestamp"],
                node["status"]["nodeInfo"]["bootID"],
            ]
            for node in nodes
        },
        "secrets": {each: cluster.read("secret", f"{cluster.name}-{each}")["data"] for each in secrets},
    }


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _database(team: str, cluster: str) -> str:
    place = {"cluster": cluster, "clusterNamespace": NAMESPACE, "namespace": team, "name": "orders-db"}
    body = {
        "apiVersion": "database.steelyard.dev/v1alpha1",
        "kind": "PostgreSQLInstance",
        "metadata": {"name": "orders", "namespace": team},
        "spec": {
            "parameters": {"environment": "dev", "size": "small", "storageGB": 5, "deliverTo": [place]},
            "writeConnectionSecretToRef": {"name": "orders-connection"},
        },
    }
    return json.dumps(body)
