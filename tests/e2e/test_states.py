"""What a claim says of its cluster is true, through growth, upgrades and losses; and what it advises helps."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path

import aiohttp
import pytest

from steelyard.api import state, troubles
from steelyard.api.clusterapi.resources import MACHINES
from steelyard.api.resources import SIMULATED_MACHINES
from steelyard.kube import objects
from steelyard.kube.client import kubeconfig, tls
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, NODES, SECRETS, Resource
from tests import inprocess
from tests.inprocess import CLAIMS

SERVICES = Resource("", "v1", "services", "Service")


async def change(client: Client, **parameters: object) -> list[Object]:
    """Every state from the change until the cluster is as asked for."""
    changed = await client.patch(CLAIMS, "shop", {"spec": {"parameters": parameters}}, "default")
    return await inprocess.until(client, changed, _is_as_asked_for)


def _is_as_asked_for(obj: Object) -> bool:
    found = troubles.condition(obj, "UpToDate")
    return found.get("status") == "True" and found.get("observedGeneration") == objects.generation(obj)


async def cluster_kubeconfig(client: Client, folder: Path) -> Path:
    secret = await client.get(SECRETS, "shop-kubeconfig", "default")
    path = folder / "shop.kubeconfig"
    path.write_bytes(base64.b64decode(secret["data"]["value"]))
    path.chmod(0o600)
    return path


async def version_of(path: Path) -> str:
    connection = kubeconfig.load(path).resolve()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{connection.server}/version", ssl=tls.context_of(connection)) as response,
    ):
        return str((await response.json())["gitVersion"])


async def workers(client: Client) -> list[Object]:
    machines = (await client.list(MACHINES, "default")).items
    return [each for each in machines if "cluster.x-k8s.io/control-plane" not in objects.labels(each)]


async def test_a_cluster_that_serves_stays_ready_while_it_grows_shrinks_and_is_upgraded(tmp_path: Path) -> None:
    async with inprocess.platform(tmp_path) as client:
        await inprocess.becomes_ready(client, inprocess.claim(kubernetesVersion="v1.33.0"))
        seen = [
            *(await change(client, workerReplicas=4, controlPlaneReplicas=3)),
            *(await change(client, kubernetesVersion="v1.34.2")),
            *(await change(client, cpuCores=2)),
            *(await change(client, workerReplicas=1, controlPlaneReplicas=1)),
        ]

        assert [str(state.of(each)) for each in seen if not state.is_ready(each)] == []
        said = {state.of(each).word for each in seen}
        assert {state.READY, state.SCALING, state.UPDATING} == said
        assert {each["status"]["state"] for each in seen} == said, "a listing says the same"


async def test_a_cluster_says_the_version_that_was_asked_for_also_after_an_upgrade_and_a_restart(
    tmp_path: Path,
) -> None:
    async with inprocess.platform(tmp_path) as client:
        await inprocess.becomes_ready(client, inprocess.claim(kubernetesVersion="v1.34.1", workerReplicas=1))
        path = await cluster_kubeconfig(client, tmp_path)
        assert await version_of(path) == "v1.34.1"
        await change(client, kubernetesVersion="v1.35.0")
        assert await version_of(path) == "v1.35.0"
        inside = HttpClient.from_kubeconfig(path)
        nodes = (await inside.list(NODES)).items
        assert {objects.at(each, "status", "nodeInfo", "kubeletVersion") for each in nodes} == {"v1.35.0"}
        service = await inside.get(SERVICES, "kubernetes", "default")
        assert service["spec"]["clusterIP"] == "10.95.0.1"
        await inside.close()
    async with inprocess.platform(tmp_path) as client:
        again = await client.patch(CLAIMS, "shop", {"metadata": {"labels": {"a": "b"}}}, "default")
        assert state.of(again).word == state.READY
        assert await version_of(path) == "v1.35.0"
        inside = HttpClient.from_kubeconfig(path)
        assert (await inside.get(SERVICES, "kubernetes", "default"))["spec"]["clusterIP"] == "10.95.0.1"
        assert "/apis/apps/v1" in (await inside.request("GET", "/"))["paths"]
        await inside.close()


@pytest.mark.parametrize("loss", ["node deleted", "node not ready", "machine deleted"])
async def test_a_lost_worker_is_named_and_can_be_replaced(tmp_path: Path, loss: str) -> None:
    # What is over within a moment is not reported: the new machine takes longer than that.
    booting = "simulated: {bootSeconds: 1.5, joinSeconds: 0, deleteSeconds: 0}\n"
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(inprocess.platform(tmp_path, pace=booting))
        ready = await inprocess.becomes_ready(client, inprocess.claim(workerReplicas=2))
        lost = objects.name((await workers(client))[0])
        inside = HttpClient.from_kubeconfig(await cluster_kubeconfig(client, tmp_path))
        stack.push_async_callback(inside.close)
        # Times are in whole seconds, and what is bad from the first one never was good.
        await _a_second_after_it_came_up(client, lost)
        match loss:
            case "node deleted":
                await inside.delete(NODES, lost)
                words = f"machine {lost}: its Node {lost} was deleted, since "
            case "node not ready":
                node = await inside.get(NODES, lost)
                await inside.patch(NODES, lost, {"status": {"conditions": _not_ready(node)}}, subresource="status")
                words = f"machine {lost}: its Node {lost} is not ready: kubelet stopped posting, since "
            case _:
                await client.delete(SIMULATED_MACHINES, lost, "default")
                words = f"machine {lost}: its SimulatedMachine was deleted, since "
        seen = await inprocess.until(client, ready, lambda obj: state.of(obj).word == state.DEGRADED)
        assert state.of(seen[-1]).text.startswith(words)
        assert not state.is_ready(seen[-1])

        await client.delete(MACHINES, lost, "default")
        recovered = await inprocess.until(client, seen[-1], lambda obj: state.of(obj).word == state.READY)
        assert {state.of(each).word for each in recovered} == {state.DEGRADED, state.RECOVERING, state.READY}
        assert lost not in {objects.name(each) for each in await workers(client)}
        events = [each for each in (await client.list(EVENTS, "default")).items if each["reason"] == "Degraded"]
        assert [(each["type"], str(each["message"]).startswith(words)) for each in events] == [("Warning", True)]


def _not_ready(node: Object) -> list[Object]:
    now = "2099-01-01T00:00:00Z"
    changed: Object = {"status": "False", "reason": "KubeletNotReady", "message": "kubelet stopped posting"}
    conditions = map(objects.mapping, objects.sequence(objects.at(node, "status", "conditions")))
    return [
        {**each, **changed, "lastTransitionTime": now} if each["type"] == "Ready" else dict(each) for each in conditions
    ]


async def _a_second_after_it_came_up(client: Client, name: str) -> None:
    machine = await client.get(MACHINES, name, "default")
    earlier: Object = {"status": {"lastUpdated": "2020-01-01T00:00:00Z"}}
    await client.patch(MACHINES, name, earlier, objects.namespace(machine), subresource="status")
