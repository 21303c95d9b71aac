"""A cluster's whole life, driven from outside, on a platform that may be killed at any moment and is started again.

After each step what is there is compared with what must be there, machine by machine.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections import Counter
from dataclasses import dataclass

from steelyard.api import resources
from steelyard.api.clusterapi.resources import KUBEADM_CONFIGS, MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, NODES, SECRETS, Resource
from tests.crash.driving import Driven, inventory
from tests.harness import PlatformProcess

CLAIMS = resources.workload_clusters("steelyard.dev")
NAMESPACE = "team"
NAME = "life"
STEPS = ((1, 2), (3, 4), (1, 2))
"""Control-plane and worker nodes: created, scaled up, scaled back; then deleted."""
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a life ended with; equal for every life, wherever it was interrupted."""

    after_each_step: tuple[dict[str, int], ...]
    left_over: tuple[str, ...]


class Driver:
    """Does what a user would; `replacement` is what runs after a kill."""

    def __init__(self, first: PlatformProcess, replacement: PlatformProcess) -> None:
        self._driven = Driven(first, replacement)

    @property
    def kills(self) -> int:
        return self._driven.kills

    async def live(self) -> Outcome:
        driven = self._driven
        await driven.start()
        try:
            await driven.request(_make_namespace)
            await driven.until(_has_default_account)
            before = await driven.request(inventory)
            counts: list[dict[str, int]] = []
            port = 0
            for control_plane, workers in STEPS:
                claim = _claim(control_plane, workers)
                await driven.request(lambda client, claim=claim: _apply(client, claim))
                await driven.until(lambda client, claim=claim: _has_settled(client, claim))
                await driven.request(lambda client, nodes=control_plane + workers: _check_identities(client, nodes))
                counts.append(await driven.request(_counts))
                port = await driven.request(_endpoint_port)
            await driven.request(_delete)
            await driven.until(_is_gone)
            await driven.until(lambda client: _nothing_but(client, before))
            after = await driven.request(inventory)
            left_over = [f"object {name}" for name in sorted(after - before)]
            if await asyncio.to_thread(_is_listening, port):
                left_over.append(f"listener on port {port}")
        finally:
            await driven.close()
        await asyncio.to_thread(driven.current.terminate)
        left_over += [f"row {key} of a simulated cluster" for key in await driven.current.left_in_clusters()]
        return Outcome(tuple(counts), tuple(left_over))


def _claim(control_plane: int, workers: int) -> Object:
    parameters = {"environment": "dev", "controlPlaneReplicas": control_plane, "workerReplicas": workers}
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "parameters": parameters,
            "writeConnectionSecretToRef": {"name": "life-connection", "namespace": "default"},
        },
    }


async def _make_namespace(client: Client) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.apply(NAMESPACES, body, field_manager="driver")


async def _has_default_account(client: Client) -> str:
    """The server gives every namespace one on its own; what was there before a life must not look left over."""
    found = [objects.name(item) for item in (await client.list(SERVICE_ACCOUNTS, NAMESPACE)).items]
    return "" if found == ["default"] else f"service accounts {found}"


async def _apply(client: Client, claim: Object) -> None:
    await client.apply(CLAIMS, claim, field_manager="driver")


async def _delete(client: Client) -> None:
    try:
        await client.delete(CLAIMS, NAME, NAMESPACE)
    except errors.NotFound:
        return


async def _has_settled(client: Client, wanted: Object) -> str:
    claim = await client.get(CLAIMS, NAME, NAMESPACE)
    parameters = wanted["spec"]["parameters"]
    status = objects.mapping(claim.get("status"))
    if status.get("observedGeneration") != objects.generation(claim):
        return "the claim's new generation was not observed"
    for part, field in (("controlPlane", "controlPlaneReplicas"), ("workers", "workerReplicas")):
        counts = objects.mapping(status.get(part))
        if (counts.get("ready"), counts.get("desired")) != (parameters[field], parameters[field]):
            return f"{part} {counts.get('summary')}, wanted {parameters[field]}: {status.get('message')}"
    conditions = {item["type"]: item["status"] for item in objects.sequence(status.get("conditions"))}
    if conditions.get("Ready") != "True":
        return f"not ready: {status.get('message')}"
    machines = (await client.list(MACHINES, NAMESPACE)).items
    expected = parameters["controlPlaneReplicas"] + parameters["workerReplicas"]
    running = sum(objects.at(machine, "status", "phase") == "Running" for machine in machines)
    if (len(machines), running) != (expected, expected):
        return f"{len(machines)} machines, {running} running, wanted {expected}"
    nodes = len(await _nodes(client))
    return "" if nodes == expected else f"{nodes} nodes, wanted {expected}"


async def _check_identities(client: Client, expected: int) -> None:
    """Machine, infrastructure and Node stand one to one, by UID: none doubled, none without its partner."""
    machines = (await client.list(MACHINES, NAMESPACE)).items
    infrastructure = (await client.list(resources.SIMULATED_MACHINES, NAMESPACE)).items
    configs = (await client.list(KUBEADM_CONFIGS, NAMESPACE)).items
    nodes = await _nodes(client)
    machine_ids = {f"simulated://{objects.uid(item)}" for item in infrastructure}
    assert len(machines) == len(infrastructure) == len(configs) == len(nodes) == expected
    assert {str(objects.at(node, "spec", "providerID")) for node in nodes} == machine_ids
    assert {str(objects.at(machine, "spec", "providerID")) for machine in machines} == machine_ids
    owners = Counter(str(reference["uid"]) for item in infrastructure for reference in objects.owner_references(item))
    for machine in machines:
        assert owners[objects.uid(machine)] == 1, f"{objects.name(machine)} has {owners[objects.uid(machine)]} machines"


async def _nodes(client: Client) -> list[Object]:
    secret = await client.get(SECRETS, f"{NAME}-kubeconfig", NAMESPACE)
    workload = HttpClient.from_kubeconfig(base64.b64decode(secret["data"]["value"]).decode())
    try:
        return list((await workload.list(NODES)).items)
    finally:
        await workload.close()


async def _counts(client: Client) -> dict[str, int]:
    """How many objects of each kind the cluster has, for comparing one life with another."""
    counted = Counter(name.partition(" ")[0] for name in await inventory(client))
    return dict(sorted(counted.items()))


async def _endpoint_port(client: Client) -> int:
    claim = await client.get(CLAIMS, NAME, NAMESPACE)
    return int(str(objects.at(claim, "status", "endpoint")).rpartition(":")[2])


async def _is_gone(client: Client) -> str:
    try:
        claim = await client.get(CLAIMS, NAME, NAMESPACE)
    except errors.NotFound:
        return ""
    return f"the claim is still there: {objects.at(claim, 'status', 'message')}"


async def _nothing_but(client: Client, before: set[str]) -> str:
    return ", ".join(sorted(await inventory(client) - before))


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
