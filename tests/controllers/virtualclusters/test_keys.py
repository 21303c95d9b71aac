"""The keys of a cluster, step by step: the reconciler alone, called by the test, and ended at every write it makes."""

from __future__ import annotations

import base64
import datetime
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from steelyard.api import k3s
from steelyard.api.clusterapi import wellknown
from steelyard.compose import names
from steelyard.controllers.virtualclusters import restarting
from steelyard.controllers.virtualclusters.reconcile import KeyReconciler
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICES
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from tests.controllers.claims import stage as stages
from tests.controllers.claims.stage import Stage

HOME = "team-a-dev-123456"
MADE = ("dev-ca", "dev-etcd", "dev-proxy", "dev-sa", "dev-token", "dev-k3s", "dev-kubeconfig")


class Died(Exception):
    pass


class Mortal:
    """Hands calls on, up to a number of writes."""

    def __init__(self, client: Client, writes: int, *, answer_is_lost: bool) -> None:
        self._client: Any = client
        self._left = writes
        self._answer_is_lost = answer_is_lost

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name not in ("create", "patch", "delete"):
            return call

        async def counted(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left >= 0:
                return await call(*arguments, **options)
            if self._answer_is_lost:
                await call(*arguments, **options)
            raise Died

        return counted


class Clock:
    """Of the system, as many days later as the test says."""

    days = 0

    def now(self) -> datetime.datetime:
        return clocks.SYSTEM.now() + datetime.timedelta(days=self.days)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    async with stages.opened(tmp_path) as opened:
        await begin(opened.client, HOME)
        yield opened


async def begin(client: Client, home: str, address: str = "192.0.2.7") -> None:
    """What the composition makes, with an address."""
    labels = {names.CLAIM_KIND: "VirtualCluster", wellknown.CLUSTER_NAME_LABEL: "dev"}
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home, "labels": labels}}
    )
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "dev-api", "namespace": home},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 6443}]},
    }
    await client.create(SERVICES, service)
    status = {"loadBalancer": {"ingress": [{"ip": address}] if address else []}}
    await client.patch(SERVICES, "dev-api", {"status": status}, home, subresource="status")


async def reconcile(client: Client, home: str = HOME, clock: Clock | None = None) -> Result:
    return await KeyReconciler(client, cast(clocks.Clock, clock or Clock())).reconcile(Key("", home))


async def data(stage: Stage, name: str, home: str = HOME) -> Object:
    return objects.mapping((await stage.client.get(SECRETS, name, home)).get("data"))


async def problem(stage: Stage) -> str:
    return objects.annotations(await stage.client.get(NAMESPACES, HOME)).get(k3s.PROBLEM, "")


async def test_everything_is_made_once(stage: Stage) -> None:
    await reconcile(stage.client)
    before = {name: await data(stage, name) for name in MADE}
    revision = stage.store.revision
    await reconcile(stage.client)

    assert stage.store.revision == revision
    assert {name: await data(stage, name) for name in MADE} == before


@pytest.mark.parametrize("answer_is_lost", [False, True], ids=["before the write", "after the write"])
async def test_dying_at_any_write_leaves_no_server_with_other_keys(stage: Stage, answer_is_lost: bool) -> None:
    for writes in range(20):
        home = f"team-a-dev-{writes:06}"
        await begin(stage.client, home)
        try:
            mortal = cast(Client, Mortal(stage.client, writes, answer_is_lost=answer_is_lost))
            await reconcile(mortal, home)
        except Died:
            seen = await stage.find(SECRETS, "dev-k3s", home)
            await reconcile(stage.client, home)
            served = await data(stage, "dev-k3s", home)
            assert seen is None or seen["data"] == served, "what a server may have started with has changed"
            assert served["ca.crt"] == (await data(stage, "dev-ca", home))["tls.crt"]
            assert served["token"] == (await data(stage, "dev-token", home))["value"]
        else:
            assert writes > 6
            return
    pytest.fail("it never came to its end")


@pytest.mark.parametrize(
    ("lost", "what", "place"),
    [
        ("dev-ca", "tls.crt and tls.key", "/var/lib/rancher/k3s/server/tls"),
        ("dev-sa", "tls.crt and tls.key", "/var/lib/rancher/k3s/server/tls"),
        ("dev-token", "value", "/etc/rancher/k3s/token"),
    ],
)
async def test_a_key_whose_copies_are_gone_is_never_made_anew(stage: Stage, lost: str, what: str, place: str) -> None:
    await reconcile(stage.client)
    kept, served = await data(stage, lost), await data(stage, "dev-k3s")
    for name in (lost, "dev-k3s"):
        await stage.client.delete(SECRETS, name, HOME)
    await reconcile(stage.client)

    assert await problem(stage) == (
        f"Secrets {lost} and dev-k3s in namespace {HOME} were deleted while servers run with what was in them; new "
        f"ones would cut them off, so none is made. Create {lost} again with {what} as before: from a backup, or from "
        f"{place} on a server"
    )
    assert await stage.find(SECRETS, lost, HOME) is None

    put_back: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": lost, "namespace": HOME},
        "data": kept,
    }
    await stage.client.create(SECRETS, put_back)
    await reconcile(stage.client)
    assert await problem(stage) == ""
    assert await data(stage, "dev-k3s") == served


async def test_a_secret_of_somebody_else_is_not_what_servers_get(stage: Stage) -> None:
    theirs: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "dev-k3s", "namespace": HOME},
        "data": {"ca.key": base64.b64encode(b"known to others").decode()},
    }
    await stage.client.create(SECRETS, theirs)
    await reconcile(stage.client)

    assert await problem(stage) == f"Secret {HOME}/dev-k3s is not this cluster's; delete it, and it is made anew"
    assert await stage.find(SECRETS, "dev-kubeconfig", HOME) is None


async def test_a_kubeconfig_is_renewed_when_half_of_its_time_is_over(stage: Stage) -> None:
    clock = Clock()
    due = await reconcile(stage.client, clock=clock)
    before, authority = await data(stage, "dev-kubeconfig"), await data(stage, "dev-ca")
    assert due.requeue_after is not None
    assert 180 * 86400 < due.requeue_after < 185 * 86400
    clock.days = 190
    await reconcile(stage.client, clock=clock)

    assert await data(stage, "dev-kubeconfig") != before
    assert await data(stage, "dev-ca") == authority


async def test_without_an_address_no_server_can_start(stage: Stage) -> None:
    await begin(stage.client, "team-a-dev-000000", address="")
    await reconcile(stage.client, "team-a-dev-000000")

    with pytest.raises(errors.NotFound):
        await stage.client.get(SECRETS, "dev-k3s", "team-a-dev-000000")


def machine(name: str, cores: int, *, asked: bool) -> Object:
    conditions = [{"type": "RestartRequired", "status": "True"}] if asked else []
    return {
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"domain": {"cpu": {"cores": cores}}}}},
        "status": {"conditions": conditions},
    }


def instance(name: str, cores: int, *, ready: bool = True) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"domain": {"cpu": {"cores": cores}}},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


@pytest.mark.parametrize(
    ("machines", "instances", "restarted"),
    [
        pytest.param([machine("a", 4, asked=True)], [instance("a", 2)], "a", id="another number of cores"),
        pytest.param([machine("a", 2, asked=True)], [instance("a", 2)], "", id="asked for by somebody else's change"),
        pytest.param([machine("a", 4, asked=False)], [instance("a", 2)], "", id="KubeVirt does not ask for it"),
        pytest.param([machine("a", 4, asked=True)], [], "", id="it does not run"),
        pytest.param(
            [machine("a", 4, asked=True), machine("b", 4, asked=True)],
            [instance("a", 2), instance("b", 2)],
            "a",
            id="the first of several",
        ),
        pytest.param(
            [machine("a", 4, asked=True), machine("b", 4, asked=True)],
            [instance("a", 4, ready=False), instance("b", 2)],
            "",
            id="none while another comes back",
        ),
        pytest.param(
            [machine("a", 4, asked=True), machine("b", 4, asked=True)],
            [instance("b", 2)],
            "",
            id="none while another is away",
        ),
    ],
)
def test_which_server_is_restarted(machines: list[Object], instances: list[Object], restarted: str) -> None:
    assert restarting.next_of(machines, {objects.name(each): each for each in instances}) == restarted
