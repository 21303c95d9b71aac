"""A real API with the claims controller alone on it; the tests play lifecycle and provider by writing statuses.

So every state that a claim can meet can be brought about at will: machines that never come, a Cluster that stays, a
Secret that belongs to somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

from steelyard import groundwork, settings
from steelyard.api import crd, resources, workloadcluster
from steelyard.api.clusterapi import definitions, wellknown
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.api.infrastructures import OFFERED
from steelyard.compose import names, offering
from steelyard.controllers.claims import controller
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions, triggers
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import User
from steelyard.kube.store.store import Store
from steelyard.settings import Platform
from tests import prepared

NAMESPACE = "team-a"
CLAIMS = resources.workload_clusters("steelyard.dev")
COMPOSED = (
    resources.SIMULATED_CLUSTERS,
    resources.SIMULATED_MACHINE_TEMPLATES,
    clusterapi_resources.CLUSTERS,
    clusterapi_resources.KUBEADM_CONTROL_PLANES,
    clusterapi_resources.KUBEADM_CONFIG_TEMPLATES,
    clusterapi_resources.MACHINE_DEPLOYMENTS,
)
CLUSTER_FINALIZER = "cluster.cluster.x-k8s.io"


class Stage:
    def __init__(self, store: Store, api: Api, client: Client, platform: Platform) -> None:
        self.store = store
        self.api = api
        self.client = client
        self.client_of_controller = client
        """The controller's may be another one, which fails where the test wants it to."""
        self.platform = platform
        self.clock: Clock = clocks.SYSTEM
        """The controller's, from its next start on."""
        self.manager = Manager(client)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Also after `crash`: a new manager with new caches, as a new process would have."""
        self.manager = Manager(self.client_of_controller, clock=self.clock)
        for each in controller.controllers(self.manager, self.platform, offering.STANDARD):
            self.manager.add(each)
        self._running = asyncio.create_task(self.manager.run())
        await self.manager.ready.wait()

    async def crash(self) -> None:
        """Ends the controller in the middle of whatever it does."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
            self._running = None

    async def settle(self) -> None:
        """Until the controller has nothing to do."""
        await self.manager.idle(within=2 * triggers.REPORT_AFTER, settle=0.03)

    async def look_again(self, name: str = "dev") -> None:
        """As if something had changed, though nothing has."""
        self.manager.controllers[0].enqueue([Key(NAMESPACE, name)])
        await self.settle()

    async def claim(self, name: str = "dev", *, connection: Object | None = None, **parameters: Any) -> Object:
        spec: Object = {"parameters": {"environment": "dev", **parameters}}
        if connection is not None:
            spec["writeConnectionSecretToRef"] = connection
        created = await self.client.create(
            CLAIMS,
            {
                "apiVersion": CLAIMS.api_version,
                "kind": CLAIMS.kind,
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": spec,
            },
        )
        await self.settle()
        return created

    async def change(self, patch: Object, name: str = "dev") -> None:
        await self.client.patch(CLAIMS, name, patch, NAMESPACE)
        await self.settle()

    async def get(self, name: str = "dev") -> Object:
        return await self.client.get(CLAIMS, name, NAMESPACE)

    async def condition(self, type_: str, name: str = "dev") -> tuple[str, str, str]:
        """Status, reason and message."""
        found = conditions.find(await self.get(name), type_) or {}
        return str(found.get("status")), str(found.get("reason")), str(found.get("message"))

    async def find(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> Object | None:
        try:
            return await self.client.get(resource, name, namespace)
        except errors.NotFound:
            return None

    async def objects_of(self, *kinds: Resource) -> list[str]:
        """`Kind/name` of everything that was made for claims."""
        found = [
            f"{each.kind}/{objects.name(obj)}"
            for each in (*(kinds or COMPOSED), *(() if kinds else (SECRETS,)))
            for obj in (await self.client.list(each)).items
            if names.CLAIM_NAME in objects.labels(obj)
        ]
        return sorted(found)

    async def namespace(self, name: str) -> None:
        await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def events(self) -> list[str]:
        return [f"{event['reason']}: {event['message']}" for event in (await self.client.list(EVENTS)).items]

    async def lifecycle_takes_over(self, name: str = "dev") -> None:
        """The Cluster gets its finalizer, so that deleting it takes its time."""
        patch: Object = {"metadata": {"finalizers": [CLUSTER_FINALIZER]}}
        await self.client.patch(clusterapi_resources.CLUSTERS, name, patch, NAMESPACE)

    async def lifecycle_lets_go(self, name: str = "dev") -> None:
        patch: Object = {"metadata": {"finalizers": None}}
        await self.client.patch(clusterapi_resources.CLUSTERS, name, patch, NAMESPACE)
        await self.settle()

    async def infrastructure_is_there(self, name: str = "dev") -> None:
        await self.client.patch(
            clusterapi_resources.CLUSTERS,
            name,
            {"spec": {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 40001}}},
            NAMESPACE,
        )
        await self._status(clusterapi_resources.CLUSTERS, name, {"initialization": {"infrastructureProvisioned": True}})

    async def machines_are(self, ready: bool, name: str = "dev", *, up_to_date: bool = True) -> None:
        """The control plane and the workers report their counts, as asked for in their specs."""
        for resource, object_name in (
            (clusterapi_resources.KUBEADM_CONTROL_PLANES, names.control_plane(name)),
            (clusterapi_resources.MACHINE_DEPLOYMENTS, names.machine_deployment(name)),
        ):
            obj = await self.client.get(resource, object_name, NAMESPACE)
            replicas = int(obj["spec"]["replicas"])
            await self._status(
                resource,
                object_name,
                {
                    "replicas": replicas,
                    "readyReplicas": replicas if ready else 0,
                    "upToDateReplicas": replicas if up_to_date else 0,
                    "observedGeneration": objects.generation(obj),
                },
            )
        if ready:
            await self._status(
                clusterapi_resources.CLUSTERS,
                name,
                {"initialization": {"infrastructureProvisioned": True, "controlPlaneInitialized": True}},
            )

    def as_(self, user: User) -> Client:
        return cast(Client, LocalClient(self.api, user))

    async def kubeconfig_is_there(self, name: str = "dev", value: str = "e30=") -> None:
        plane = await self.client.get(clusterapi_resources.KUBEADM_CONTROL_PLANES, names.control_plane(name), NAMESPACE)
        secret: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": names.kubeconfig_secret(name),
                "namespace": NAMESPACE,
                "labels": {wellknown.CLUSTER_NAME_LABEL: name},
                "ownerReferences": [objects.owner_reference(plane, controller=True)],
            },
            "data": {"value": value},
        }
        await self.client.apply(SECRETS, secret, field_manager="test")

    async def becomes_ready(self, name: str = "dev") -> None:
        await self.infrastructure_is_there(name)
        await self.machines_are(True, name)
        await self.kubeconfig_is_there(name)
        await self.settle()

    async def _status(self, resource: Resource, name: str, status: Object) -> None:
        await self.client.patch(resource, name, {"status": status}, NAMESPACE, subresource="status")


@contextlib.asynccontextmanager
async def opened(
    folder: Path,
    platform_file: str = "",
    infrastructures: tuple[str, ...] = OFFERED,
) -> AsyncGenerator[Stage]:
    """`infrastructures`: those that claims may name here, whether the composition can make them or not."""
    platform = settings.parse(platform_file)
    async with contextlib.AsyncExitStack() as stack:
        kinds = (*defined(platform.domain, infrastructures), *definitions.crds())
        store = await prepared.store(
            folder / "main.db",
            ("claims", platform.domain, infrastructures),
            lambda client: prepared.define(client, kinds),
        )
        stack.push_async_callback(store.close)
        api = await Api.start(store)
        stack.push_async_callback(api.close)
        client = cast(Client, LocalClient(api))
        await groundwork.guard_claims(api, client, platform)
        stage = Stage(store, api, client, platform)
        await stage.namespace(NAMESPACE)
        await stage.start()
        stack.push_async_callback(stage.crash)
        yield stage


def defined(domain: str, infrastructures: tuple[str, ...]) -> list[Object]:
    """The kinds of this version, as if the platform offered these infrastructures."""
    _, *others = offering.STANDARD.definitions(domain)
    return [crd.definition(workloadcluster.kind(domain, infrastructures)), *others]
