"""VirtualClusters on KubeVirt from claim to kubeconfig, and what becomes of their keys and servers later."""

from __future__ import annotations

import asyncio
import base64
import datetime
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest

from steelyard.api import k3s, state
from steelyard.api.k3s import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from steelyard.kube import errors, objects, pki
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICES
from tests.controllers.virtualclusters import kubevirt
from tests.controllers.virtualclusters.kubevirt import CLAIMS, HOME, NAMESPACE, Stage

RESTART: Object = {"conditions": [{"type": "RestartRequired", "status": "True"}]}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.kube.runtime.informer._MISSING_DELAY", 0.05)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with kubevirt.opened(tmp_path) as opened:
        yield opened


@pytest.fixture
async def ready(stage: Stage) -> Stage:
    await stage.claim()
    await stage.becomes_ready()
    return stage


def admin_certificate(config: Any) -> bytes:
    return base64.b64decode(config["users"][0]["user"]["client-certificate-data"])


async def test_a_claim_waits_for_an_address_then_for_its_server_and_is_ready(stage: Stage) -> None:
    await stage.claim()
    await stage.until_state(state.CREATING, f"load balancer to give Service {HOME}/dev-api an address")
    assert await stage.find(SECRETS, "dev-k3s") is None, "no server can start before its certificate can be right"
    await stage.load_balancer_gives()
    await stage.until_state(state.CREATING, "waiting for server dev-server-0: KubeVirt has not looked at it yet")
    await stage.kubevirt_runs(ready=False)
    await stage.until_state(state.CREATING, "waiting for server dev-server-0: Starting")
    await stage.kubevirt_runs()
    await stage.until_state(state.READY)

    status = (await stage.get())["status"]
    assert status["endpoint"] == "https://192.168.0.225:6443"
    assert status["release"] == "v1.30.0+k3s1"
    assert status["kubeconfigSecret"] == {"name": "dev-kubeconfig", "namespace": HOME}
    assert status["controlPlane"]["summary"] == "1/1"
    assert await stage.condition("UpToDate") == ("True", "AsAskedFor", "")


async def test_the_kubeconfig_is_signed_by_the_authority_that_servers_are_given(ready: Stage) -> None:
    authority = await ready.content("dev-k3s", "ca.crt")
    config = await ready.kubeconfig("mine", NAMESPACE)

    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://192.168.0.225:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority
    assert pki.is_issued_by(admin_certificate(config), authority)
    assert await ready.content("mine", "kubeconfig", NAMESPACE) == await ready.content("mine", "value", NAMESPACE)


async def test_servers_are_given_everything_that_k3s_would_otherwise_make_up(ready: Stage) -> None:
    data = (await ready.client.get(SECRETS, "dev-k3s", HOME))["data"]

    assert set(data) == {
        "ca.crt", "ca.key", "etcd.crt", "etcd.key", "proxy.crt", "proxy.key", "sa.key", "token", "address", "service"
    }  # fmt: skip
    assert len(await ready.content("dev-k3s", "token")) == 64
    assert await ready.content("dev-k3s", "address") == b"192.168.0.225"
    service = await ready.client.get(SERVICES, "dev-api", HOME)
    assert await ready.content("dev-k3s", "service") == service["spec"]["clusterIP"].encode()
    for purpose in ("ca", "etcd", "proxy"):
        pki.check(
            pki.KeyPair(
                await ready.content("dev-k3s", f"{purpose}.crt"), await ready.content("dev-k3s", f"{purpose}.key")
            )
        )


@pytest.mark.parametrize("lost", ["dev-ca", "dev-etcd", "dev-proxy", "dev-sa", "dev-token", "dev-k3s"])
async def test_a_secret_that_was_deleted_comes_back_as_it_was(ready: Stage, lost: str) -> None:
    before = (await ready.client.get(SECRETS, lost, HOME))["data"]
    await ready.client.delete(SECRETS, lost, HOME)

    after = await ready.until_there(SECRETS, lost)
    assert after["data"] == before


async def test_a_kubeconfig_that_was_deleted_is_made_again(ready: Stage) -> None:
    await ready.client.delete(SECRETS, "dev-kubeconfig", HOME)
    await ready.until_there(SECRETS, "dev-kubeconfig")

    assert pki.is_issued_by(admin_certificate(await ready.kubeconfig()), await ready.content("dev-ca", "tls.crt"))
    await ready.until_state(state.READY)


async def test_another_authority_under_the_servers_is_told_and_not_used(ready: Stage) -> None:
    served = await ready.content("dev-k3s", "ca.crt")
    other = pki.new_authority("other", now=datetime.datetime.now(datetime.UTC))
    data = {"tls.crt": base64.b64encode(other.certificate).decode(), "tls.key": base64.b64encode(other.key).decode()}
    await ready.client.patch(SECRETS, "dev-ca", {"data": data}, HOME)

    await ready.until_state(state.DEGRADED, "holds another authority than the servers were made with")
    assert await ready.content("dev-k3s", "ca.crt") == served
    await ready.client.delete(SECRETS, "dev-ca", HOME)
    await ready.until_state(state.READY)
    assert await ready.content("dev-ca", "tls.crt") == served


async def test_another_address_reaches_the_kubeconfig_and_the_servers_disk(ready: Stage) -> None:
    await ready.load_balancer_gives("192.168.0.226")

    async def follows() -> bool:
        config = await ready.kubeconfig("mine", NAMESPACE)
        return config["clusters"][0]["cluster"]["server"] == "https://192.168.0.226:6443"

    await ready.until("the new address", follows)
    assert await ready.content("dev-k3s", "address") == b"192.168.0.226"


async def test_a_ready_cluster_causes_no_write(ready: Stage) -> None:
    async def revision() -> str:
        return (await ready.client.list(NAMESPACES)).resource_version

    await asyncio.sleep(0.3)
    before = await revision()
    await asyncio.sleep(0.7)
    assert await revision() == before


async def test_more_memory_restarts_the_server_once_kubevirt_asks_for_it(ready: Stage) -> None:
    running = await ready.client.get(VIRTUAL_MACHINE_INSTANCES, "dev-server-0", HOME)
    await ready.change(memoryGi=48)

    async def is_applied() -> bool:
        machine = await ready.client.get(VIRTUAL_MACHINES, "dev-server-0", HOME)
        return bool(machine["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "48Gi")

    await ready.until("48Gi", is_applied)
    await ready.kubevirt_runs(status=RESTART)

    async def is_gone() -> bool:
        return await ready.find(VIRTUAL_MACHINE_INSTANCES, "dev-server-0") is None

    await ready.until("the restart", is_gone)
    await ready.kubevirt_runs(ready=False)
    await ready.until_state(state.RECOVERING)
    await ready.kubevirt_runs()
    await ready.until_state(state.READY)
    again = await ready.client.get(VIRTUAL_MACHINE_INSTANCES, "dev-server-0", HOME)
    assert objects.uid(again) != objects.uid(running)


async def test_three_servers_are_restarted_one_by_one(stage: Stage) -> None:
    await stage.claim(highAvailability=True)
    await stage.becomes_ready(servers=3)
    await stage.change(cpuCores=16)

    async def is_applied() -> bool:
        machine = await stage.client.get(VIRTUAL_MACHINES, "dev-server-2", HOME)
        return bool(machine["spec"]["template"]["spec"]["domain"]["cpu"]["cores"] == 16)

    await stage.until("16 cores", is_applied)
    for number in range(3):
        await stage.client.patch(VIRTUAL_MACHINES, f"dev-server-{number}", {"status": RESTART}, HOME)
    for number in range(3):

        async def is_gone(name: str = f"dev-server-{number}") -> bool:
            return await stage.find(VIRTUAL_MACHINE_INSTANCES, name) is None

        await stage.until(f"the restart of server {number}", is_gone)
        left = (await stage.client.list(VIRTUAL_MACHINE_INSTANCES, HOME)).items
        assert len(left) == 2
        await stage.kubevirt_runs(number)
    await stage.until_state(state.READY)
    assert (await stage.get())["status"]["controlPlane"]["summary"] == "3/3"


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("diskGb", 200),
        ("diskGb", 10),
        ("k8sVersion", "v1.31.0"),
        ("ingressClass", "nginx"),
        ("highAvailability", True),
    ],
)
async def test_what_would_need_new_servers_is_refused_when_it_is_written(
    ready: Stage, parameter: str, value: object
) -> None:
    with pytest.raises(errors.Invalid, match=f"{parameter} cannot change once the servers are made"):
        await ready.change(**{parameter: value})
    await ready.change(k8sVersion="v1.30.0", cpuCores=8)


async def test_a_server_in_trouble_is_told(ready: Stage) -> None:
    await ready.kubevirt_runs(ready=False, status={"printableStatus": "ErrorUnschedulable"})
    await ready.until_state(state.DEGRADED, "server dev-server-0: ErrorUnschedulable")


async def test_nothing_is_left_of_a_deleted_cluster(ready: Stage) -> None:
    await ready.client.delete(CLAIMS, "dev", NAMESPACE)

    async def is_gone() -> bool:
        return await ready.find(CLAIMS, "dev", NAMESPACE) is None and await ready.find(NAMESPACES, HOME, "") is None

    try:
        async with asyncio.timeout(60):
            while not await is_gone():  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.05)
    finally:
        assert (await ready.client.list(VIRTUAL_MACHINES)).items == []
    assert [objects.name(each) for each in (await ready.client.list(SECRETS, HOME)).items] == []
    assert await ready.find(SECRETS, "mine", NAMESPACE) is None


async def test_argo_cd_learns_of_it_as_a_virtual_cluster(tmp_path: Path) -> None:
    async with kubevirt.opened(tmp_path, "integrations: {argocd: {enabled: true}}\n") as stage:
        await stage.claim()
        await stage.becomes_ready()

        secret = await stage.client.get(SECRETS, f"cluster-{HOME}", "argocd")
        assert objects.labels(secret)["cluster-type"] == "virtual"
        assert objects.labels(secret)["environment"] == "dev"
        assert base64.b64decode(secret["data"]["server"]) == b"https://192.168.0.225:6443"
        assert orjson.loads(base64.b64decode(secret["data"]["config"]))["tlsClientConfig"].keys() == {
            "insecure", "caData", "certData", "keyData"
        }  # fmt: skip


async def test_keys_are_made_for_namespaces_of_virtual_clusters_alone(stage: Stage) -> None:
    labels = {"cluster.x-k8s.io/cluster-name": "dev"}
    await stage.client.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": labels}})
    await stage.claim()
    await stage.becomes_ready()

    assert [objects.name(each) for each in (await stage.client.list(SECRETS, NAMESPACE)).items] == ["mine"]
    home = await stage.client.get(NAMESPACES, HOME)
    assert k3s.PROBLEM not in objects.annotations(home)
    assert objects.annotations(home)[k3s.AUTHORITY].startswith("sha256:")
