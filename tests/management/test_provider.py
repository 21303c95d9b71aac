"""A provider by itself, on an API of somebody else's: here a platform that was started without it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp

from steelyard import app, settings
from steelyard.api import troubles
from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS
from steelyard.clusterctl import components
from steelyard.installation.datadir import DataDir
from steelyard.kube import objects
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, LEASES, NAMESPACES, SERVICE_ACCOUNTS, Resource
from steelyard.kube.runtime.leadership import Terms
from steelyard.management import running
from tests.harness import INSTANT

NAMESPACE = components.NAMESPACE
RIGHTS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    **{
        kind: Resource("rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=kind[0] == "R")
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    },
}
QUICK = Terms(valid=2.0, renew_within=1.5, pause=0.1)
DEADLINE = 30.0


@contextlib.asynccontextmanager
async def management(folder: Path) -> AsyncGenerator[tuple[Client, Connection]]:
    """With a connection that has the rights of the provider's account, and no others."""
    where = DataDir(folder / "data")
    options = app.Options(where, "127.0.0.1", 0, settings.parse(INSTANT), without=frozenset({"kvm"}))
    async with app.started(options) as platform:
        for each in components.components("image"):
            if each["kind"] in RIGHTS:
                await platform.client.create(RIGHTS[str(each["kind"])], each)
        connection = kubeconfigs.load(where.kubeconfig).resolve()
        administrator = HttpClient(connection)
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{components.ACCOUNT}/token"
        made = await administrator.request("POST", path, body={"spec": {}})
        await administrator.close()
        token = str(objects.at(made, "status", "token"))
        yield platform.client, dataclasses.replace(connection, token=token, client_certificate=b"", client_key=b"")


def host(name: str) -> Object:
    made = components.host_example()
    return {**made, "metadata": {"name": name}, "spec": {**made["spec"], "uri": "qemu+tls://localhost:1/system"}}


def cluster() -> Object:
    reference = {"apiGroup": KVM_CLUSTERS.group, "kind": KVM_CLUSTERS.kind, "name": "shop"}
    return {
        "apiVersion": CLUSTERS.api_version,
        "kind": CLUSTERS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"infrastructureRef": reference},
    }


def infrastructure() -> Object:
    return {
        "apiVersion": KVM_CLUSTERS.api_version,
        "kind": KVM_CLUSTERS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"network": {"mode": "NAT"}},
    }


async def test_it_looks_after_the_objects_of_its_kinds_and_says_how_it_is(tmp_path: Path) -> None:
    async with management(tmp_path) as (client, connection):
        options = running.Options(("kvm",), connection, NAMESPACE, health=("127.0.0.1", 0), terms=QUICK)
        async with running.started(options) as here, aiohttp.ClientSession() as asked:
            made = await client.create(KVM_HOSTS, host("far"))
            ready: Object = {}
            async with asyncio.timeout(DEADLINE):
                async for event in client.watch(KVM_HOSTS, resource_version=objects.resource_version(made)):
                    if ready := troubles.condition(event.object, "Ready"):
                        break
            assert ready["status"] in ("False", "Unknown"), "nobody is there"
            await client.create(KVM_CLUSTERS, infrastructure())
            await client.create(CLUSTERS, cluster())
            async with asyncio.timeout(DEADLINE):
                async for event in client.watch(KVM_CLUSTERS, resource_version=objects.resource_version(made)):
                    if troubles.condition(event.object, "Ready"):
                        break
            told = [str(each.get("message")) for each in (await client.list(EVENTS)).items]
            assert not [each for each in told if "forbidden" in each.lower()]
            lease = await client.get(LEASES, "steelyard-provider-kvm", NAMESPACE)
            assert objects.at(lease, "spec", "holderIdentity")
            for path in ("/healthz", "/readyz"):
                async with asked.get(f"http://127.0.0.1:{here.health_port}{path}") as answer:
                    assert (answer.status, await answer.text()) == (200, "ok\n")
        assert objects.at(await client.get(LEASES, "steelyard-provider-kvm", NAMESPACE), "spec", "holderIdentity") == ""


async def test_the_second_of_two_works_when_the_first_ends(tmp_path: Path) -> None:
    async with management(tmp_path) as (_, connection):
        options = running.Options(("kvm",), connection, NAMESPACE, terms=QUICK)
        async with running.started(options) as first:
            async with asyncio.timeout(DEADLINE):
                await first.leading.wait()
            waiting = running.started(options)
            second = await waiting.__aenter__()
            await asyncio.sleep(0.5)
            assert not second.leading.is_set()
        async with asyncio.timeout(DEADLINE):
            await second.leading.wait()
        await waiting.__aexit__(None, None, None)
