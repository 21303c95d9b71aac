"""A whole platform with a VirtualCluster on KubeVirt, where the test plays the load balancer and KubeVirt."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import yaml

from steelyard.api import k3s, resources, state
from steelyard.api.k3s import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from steelyard.compose import names
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, SERVICES, Resource
from tests import inprocess

CLAIMS = resources.virtual_clusters("steelyard.dev")
NAMESPACE = "team-a"
HOME = names.external(NAMESPACE, "dev")
ADDRESS = "192.168.0.225"


class Stage:
    def __init__(self, client: Client) -> None:
        self.client = client
        self._reports = 0

    async def claim(self, **parameters: object) -> None:
        spec: Object = {
            "parameters": {"environment": "dev", "infrastructure": "kubevirt", "k8sVersion": "1.30.0", **parameters},
            "writeConnectionSecretToRef": {"name": "mine"},
        }
        metadata: Object = {"name": "dev", "namespace": NAMESPACE}
        await self.client.create(
            CLAIMS, {"apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "metadata": metadata, "spec": spec}
        )

    async def change(self, **parameters: object) -> None:
        await self.client.patch(CLAIMS, "dev", {"spec": {"parameters": parameters}}, NAMESPACE)

    async def get(self) -> Object:
        return await self.client.get(CLAIMS, "dev", NAMESPACE)

    async def condition(self, type_: str) -> tuple[str, str, str]:
        found = objects.sequence(objects.at(await self.get(), "status", "conditions"))
        one = next((objects.mapping(each) for each in found if each["type"] == type_), Object())
        return str(one.get("status")), str(one.get("reason")), str(one.get("message"))

    async def find(self, resource: Resource, name: str, namespace: str = HOME) -> Object | None:
        try:
            return await self.client.get(resource, name, namespace)
        except errors.NotFound:
            return None

    async def until(self, what: str, reached: Callable[[], Awaitable[Any]]) -> Any:
        try:
            async with asyncio.timeout(60):
                while not (found := await reached()):  # noqa: ASYNC110 (nobody tells)
                    await asyncio.sleep(0.02)
                return found
        except TimeoutError:
            raise AssertionError(f"{what} did not come about; the claim says {state.of(await self.get())}") from None

    async def until_there(self, resource: Resource, name: str, namespace: str = HOME) -> Object:
        return cast(Object, await self.until(f"{resource.kind} {name}", lambda: self.find(resource, name, namespace)))

    async def until_state(self, word: str, text: str = "") -> None:
        async def reached() -> bool:
            here = state.of(await self.get())
            return here.word == word and text in here.text

        await self.until(f"{word}: {text}", reached)

    async def load_balancer_gives(self, address: str = ADDRESS) -> None:
        await self.until_there(SERVICES, "dev-api")
        status = {"loadBalancer": {"ingress": [{"ip": address}]}}
        await self.client.patch(SERVICES, "dev-api", {"status": status}, HOME, subresource="status")

    async def kubevirt_runs(self, number: int = 0, *, ready: bool = True, status: Object | None = None) -> None:
        """As KubeVirt does it: only once the Secrets that the machine mounts are there."""
        await self.until_there(SECRETS, k3s.keys_secret("dev"))
        name = f"dev-server-{number}"
        machine = await self.until_there(VIRTUAL_MACHINES, name)
        word = "Running" if ready else "Starting"
        told: Object = {"ready": ready, "printableStatus": word, "conditions": [], **(status or {})}
        instance: Object = {
            "apiVersion": VIRTUAL_MACHINE_INSTANCES.api_version,
            "kind": VIRTUAL_MACHINE_INSTANCES.kind,
            "metadata": {"name": name, "namespace": HOME},
            "spec": machine["spec"]["template"]["spec"],
        }
        with contextlib.suppress(errors.AlreadyExists):
            await self.client.create(VIRTUAL_MACHINE_INSTANCES, instance)
        serves = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        await self.client.patch(VIRTUAL_MACHINE_INSTANCES, name, {"status": serves}, HOME)
        self._reports += 1
        told |= {"volumeSnapshotStatuses": [{"name": f"report-{self._reports}", "enabled": False}]}
        await self.client.patch(VIRTUAL_MACHINES, name, {"status": told}, HOME)

    async def becomes_ready(self, servers: int = 1) -> None:
        await self.load_balancer_gives()
        for number in range(servers):
            await self.kubevirt_runs(number)
        await self.until_state(state.READY)

    async def content(self, secret: str, key: str, namespace: str = HOME) -> bytes:
        return base64.b64decode((await self.client.get(SECRETS, secret, namespace))["data"][key])

    async def kubeconfig(self, secret: str = "dev-kubeconfig", namespace: str = HOME) -> Any:
        return yaml.safe_load(await self.content(secret, "value", namespace))


@contextlib.asynccontextmanager
async def opened(folder: Path, file: str = "") -> AsyncGenerator[Stage]:
    async with inprocess.platform(folder, file) as client:
        for kind in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(kind))
        for namespace in (NAMESPACE, "argocd"):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        yield Stage(client)


def _definition(kind: Resource) -> Object:
    schema: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": kind.group_resource},
        "spec": {
            "group": kind.group,
            "names": {"plural": kind.plural, "kind": kind.kind},
            "scope": "Namespaced",
            "versions": [
                {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
