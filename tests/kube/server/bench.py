"""What the tests of the server work with: an API with one custom kind, calls in a few words, and a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, PatchType, Reply, Representation, User, Verb
from steelyard.kube.server.verbs.watching import WatchItem, WatchStream
from steelyard.kube.server.webhooks.reach import ANYWHERE, Reach
from steelyard.kube.store.store import Store

ADMIN = User("admin", (SYSTEM_MASTERS,))
WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
OLD_WIDGETS = Resource("example.com", "v1alpha1", "widgets", "Widget")
PARTS = Resource("example.com", "v1", "parts", "Part")
CLUSTER_PARTS = Resource("example.com", "v1", "clusterparts", "ClusterPart", namespaced=False)


class Bench:
    def __init__(self, api: Api, clock: Clock, store: Store) -> None:
        self.api = api
        self.clock = clock
        self.store = store

    @staticmethod
    async def start(
        store: Store, *, space: str = "main", define: bool = True, reach: Reach = ANYWHERE, quota: int = 0
    ) -> Bench:
        clock = Clock()
        bench = Bench(await Api.start(store, space=space, now=clock, reach=reach, quota=quota), clock, store)
        if define:
            for definition in (widget_definition(), simple_definition(PARTS), simple_definition(CLUSTER_PARTS)):
                await bench.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        return bench

    async def call(
        self,
        verb: Verb,
        resource: Resource,
        name: str = "",
        *,
        namespace: str = "default",
        subresource: str = "",
        body: Any = None,
        patch: PatchType = "",
        representation: Representation = "object",
        user: User = ADMIN,
        **options: str,
    ) -> Reply:
        return await self.api.call(
            make_call(
                verb, resource, name, namespace=namespace, subresource=subresource, body=body, patch=patch,
                representation=representation, user=user, options=options,
            )
        )  # fmt: skip

    async def get(self, resource: Resource, name: str, **more: Any) -> Object:
        return decoded(await self.call("get", resource, name, **more))

    async def list(self, resource: Resource, **more: Any) -> Object:
        return decoded(await self.call("list", resource, **more))

    async def names(self, resource: Resource, **more: Any) -> list[str]:
        return [objects.name(item) for item in (await self.list(resource, **more))["items"]]

    async def create(self, resource: Resource, body: Any, **more: Any) -> Object:
        return decoded(await self.call("create", resource, body=body, **more))

    async def update(self, resource: Resource, body: Object, **more: Any) -> Object:
        return decoded(await self.call("update", resource, objects.name(body), body=body, **more))

    async def patch(self, resource: Resource, name: str, body: Any, patch: PatchType = "merge", **more: Any) -> Object:
        return decoded(await self.call("patch", resource, name, body=body, patch=patch, **more))

    async def apply(self, resource: Resource, body: Object, manager: str = "tester", **more: Any) -> Object:
        reply = await self.call(
            "patch", resource, objects.name(body), body=body, patch="apply", fieldManager=manager, **more
        )
        return decoded(reply)

    async def delete(self, resource: Resource, name: str, **more: Any) -> Object:
        return decoded(await self.call("delete", resource, name, **more))

    async def watch(self, resource: Resource, *, namespace: str = "default", **options: str) -> WatchStream:
        return await self.api.watch(make_call("watch", resource, namespace=namespace, options=options))

    async def exists(self, resource: Resource, name: str, **more: Any) -> bool:
        try:
            await self.get(resource, name, **more)
        except errors.NotFound:
            return False
        return True


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def make_call(
    verb: Verb,
    resource: Resource,
    name: str = "",
    *,
    namespace: str = "default",
    subresource: str = "",
    body: Any = None,
    patch: PatchType = "",
    representation: Representation = "object",
    user: User = ADMIN,
    options: Mapping[str, str] | None = None,
) -> Call:
    return Call(
        verb,
        resource.group,
        resource.version,
        resource.plural,
        user,
        namespace if resource.namespaced else "",
        name,
        subresource,
        options or {},
        body,
        patch,
        representation,
    )


def decoded(reply: Reply) -> Object:
    return cast(Object, orjson.loads(reply.text()))


async def eventually(condition: Callable[[], Any], timeout: float = 60.0) -> None:
    """Waits for what the server does on its own."""
    async with asyncio.timeout(timeout):
        while True:
            result = condition()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            await asyncio.sleep(0.002)


async def take(stream: WatchStream, count: int) -> list[WatchItem]:
    async with asyncio.timeout(60):
        return [await anext(stream) for _ in range(count)]


def summary(items: list[WatchItem]) -> list[tuple[str, str]]:
    return [(item.type, objects.name(item.object)) for item in items]


def widget(name: str, spec: Object | None = None, **metadata: Any) -> Object:
    return make(WIDGETS, name, spec={"size": 1} if spec is None else spec, **metadata)


def make(resource: Resource, name: str, spec: Object | None = None, **metadata: Any) -> Object:
    obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name, **metadata}}
    if spec is not None:
        obj["spec"] = spec
    return obj


def owned_by(owner: Object, *, block: bool = False) -> list[Object]:
    return [objects.owner_reference(owner, block_owner_deletion=block)]


def simple_definition(resource: Resource) -> Object:
    """A kind that takes anything and has no subresources."""
    version: Object = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return _definition(resource, [version])


def widget_definition() -> Object:
    """Two versions; the stored one has a schema with defaults and bounds, a status, a scale and columns."""
    spec: Object = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0},
            "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "replicas": {"type": "integer"},
            "ports": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    "required": ["name"],
                },
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
    }
    status: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    stored: Object = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
    }
    old: Object = {
        "name": "v1alpha1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return _definition(WIDGETS, [stored, old], shortNames=["wd"], categories=["all"])


def _definition(resource: Resource, versions: list[Object], **names: Any) -> Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {"plural": resource.plural, "kind": resource.kind, **names},
            "versions": versions,
        },
    }
