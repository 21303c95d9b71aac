"""A management cluster for tests: an API that knows rights and kinds, and of the platform nothing that runs."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import shutil
from collections.abc import AsyncGenerator, Callable, Hashable, Iterable
from pathlib import Path
from typing import Final

from steelyard import app, parts, settings
from steelyard.api.clusterapi import definitions as clusterapi
from steelyard.installation.datadir import DataDir
from steelyard.kube import objects, permits
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from steelyard.kube.runtime.leadership import Terms
from tests import scratch
from tests.harness import INSTANT

NAMESPACE: Final = "steelyard-system"
ACCOUNT: Final = "steelyard-controllers"
QUICK: Final = Terms(valid=2.0, renew_within=1.5, pause=0.1)
DEADLINE: Final = 120.0
_RBAC: Final = {
    kind: Resource("rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=kind[0] == "R")
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}
_FOUNDED: Final[dict[Hashable, Path]] = {}
KINDS: Final = {"Namespace": NAMESPACES, "ServiceAccount": SERVICE_ACCOUNTS, **_RBAC}


@contextlib.asynccontextmanager
async def management(
    folder: Path, *, name: str = "one", without: Iterable[str] = parts.names(parts.PROVIDERS), platform: str = INSTANT
) -> AsyncGenerator[tuple[Client, Connection]]:
    """The administrator's client, and a connection with the administrator's rights. Cluster API's kinds are defined.

    All of one name are copies of one that was founded once: those of a test that has several need names."""
    where = DataDir(folder / "data")
    options = app.Options(where, "127.0.0.1", 0, settings.parse(platform), without=frozenset(without))
    shutil.copytree(await _founded(name, options, platform), where.root)
    async with app.started(options) as running:
        yield running.client, kubeconfigs.load(where.kubeconfig).resolve()


async def _founded(name: str, options: app.Options, platform: str) -> Path:
    """The data directory of one that has ended."""
    key = (name, options.without, platform)
    if key not in _FOUNDED:
        root = scratch.folder("management") / "data"
        atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
        async with app.started(dataclasses.replace(options, data_dir=DataDir(root))) as running:
            for each in clusterapi.crds():
                await running.client.apply(CUSTOM_RESOURCE_DEFINITIONS, each, field_manager="clusterctl")
        _FOUNDED[key] = root
    return _FOUNDED[key]


async def install(client: Client, found: Iterable[Object]) -> None:
    """Of manifests, what gives rights."""
    for each in found:
        if str(each["kind"]) in KINDS:
            await client.apply(KINDS[str(each["kind"])], each, field_manager="kubectl")


async def account(connection: Connection, namespace: str = NAMESPACE, name: str = ACCOUNT) -> Connection:
    """As that account, and not as the administrator."""
    administrator = HttpClient(connection)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    made = await administrator.request("POST", path, body={"spec": {}})
    await administrator.close()
    token = str(objects.at(made, "status", "token"))
    return dataclasses.replace(connection, token=token, client_certificate=b"", client_key=b"")


def rights(found: Iterable[Permit]) -> list[Object]:
    """An account with exactly these, and Leases in its namespace."""
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]

    def made(kind: str, **content: object) -> Object:
        place = {"namespace": NAMESPACE} if kind in ("Role", "RoleBinding", "ServiceAccount") else {}
        api_version = "v1" if kind in ("Namespace", "ServiceAccount") else f"{group}/v1"
        name = NAMESPACE if kind == "Namespace" else ACCOUNT
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place}, **content}

    def bound(kind: str) -> dict[str, object]:
        return {"roleRef": {"apiGroup": group, "kind": kind, "name": ACCOUNT}, "subjects": subjects}

    return [
        made("Namespace"),
        made("ServiceAccount"),
        made("ClusterRole", rules=permits.rules(found)),
        made("ClusterRoleBinding", **bound("ClusterRole")),
        made("Role", rules=permits.rules(permits.of_leases())),
        made("RoleBinding", **bound("Role")),
    ]


async def until(client: Client, resource: Resource, name: str, holds: Callable[[Object], bool]) -> Object:
    """The object once it is so, seen by watching."""
    async with asyncio.timeout(DEADLINE):
        found = await client.get(resource, name, "default")
        while not holds(found):
            version = objects.resource_version(found)
            async for event in client.watch(resource, "default", resource_version=version):
                if event.type == "BOOKMARK" or objects.name(event.object) != name:
                    continue
                found = event.object
                if holds(found):
                    break
    return found


async def gone(client: Client, resource: Resource) -> None:
    async with asyncio.timeout(DEADLINE):
        while (await client.list(resource)).items:  # noqa: ASYNC110 (seen from outside)
            await asyncio.sleep(0.05)
