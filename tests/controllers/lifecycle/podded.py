"""A workload cluster's API with pods in it, which leave or refuse to, as the test says; and what was asked of it."""

from __future__ import annotations

from typing import Any

from steelyard.controllers.lifecycle.machine.drain import PODS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client, ObjectList
from steelyard.kube.client.kubeconfig import Connection
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, Resource
from tests.controllers.lifecycle.world import World

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")


def pod(name: str, node: str, **metadata: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"nodeName": node},
        "status": {"phase": "Running"},
    }


class Podded:
    def __init__(self, world: World) -> None:
        self.pods: list[Object] = []
        self.asked: list[str] = []
        self.is_budget_spent = False
        self.shows_components = False
        """Whether every control-plane Node has the static pods that kubeadm makes."""
        self.missing = ""
        """The name of one that is not there."""
        self._world = world
        self._connect = world.connect
        world.connect = self.connect

    async def connect(self, connection: Connection) -> Client:
        self._client = await self._connect(connection)
        return self  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        if resource != PODS:
            return await self._client.list(resource, namespace, **options)
        node = str(options.get("field_selector") or "").partition("spec.nodeName=")[2]
        if node:
            return ObjectList([each for each in self.pods if objects.at(each, "spec", "nodeName") == node], "1")
        wants = str(options.get("label_selector") or "")
        return ObjectList(await self._components("etcd" if "component=etcd" in wants else ""), "1")

    async def request(self, method: str, path: str, *, body: Object | None = None, **_: Any) -> Any:
        assert path.endswith("/eviction")
        name = path.split("/")[-2]
        self.asked.append(f"evict {name}")
        if self.is_budget_spent:
            raise errors.TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.")
        self.pods = [each for each in self.pods if objects.name(each) != name]

    async def patch(self, resource: Resource, name: str, patch: Any, namespace: str = "", **options: Any) -> Object:
        if resource == NODES and objects.at(patch, "spec", "unschedulable"):
            self.asked.append(f"cordon {name}")
        return await self._client.patch(resource, name, patch, namespace, **options)

    async def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> Object:
        if resource == NODES:
            self.asked.append(f"delete {name}")
        return await self._client.delete(resource, name, namespace, **options)

    async def _components(self, only: str) -> list[Object]:
        if not self.shows_components:
            return []
        nodes = (await self._client.list(NODES)).items
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return [
            {**pod(f"{component}-{objects.name(node)}", objects.name(node)), "status": ready}
            for node in nodes
            for component in COMPONENTS
            if component == (only or component) and f"{component}-{objects.name(node)}" != self.missing
        ]
