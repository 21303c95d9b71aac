"""The way into workload clusters: per cluster one client, made from its kubeconfig Secret, and one watch of its Nodes.

A connection opens when somebody first asks for it and closes when its cluster goes or its kubeconfig changes. Nodes
are read from the watch's cache, so that finding a machine's Node costs no request, and a Node's change is told to
whoever subscribed. While a cluster's API cannot be reached its informer retries with a growing delay; nothing else
waits for it. A kubeconfig that is not to be trusted (`kubeconfig.connection`) opens none, and `problem` says why.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import certificates, kubeconfig, spelling
from steelyard.kube import errors, objects, resources
from steelyard.kube.client import kubeconfig as kubeconfigs
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.keys import Key

Connect: TypeAlias = Callable[[kubeconfigs.Connection], Awaitable[Client]]
"""Makes the client of a cluster. Raises InvalidKubeconfig where certificate or key cannot be used."""
ConnectedHandler: TypeAlias = Callable[[Key], None]
"""Told the cluster whose Nodes are known from now on, or of which it changed whether it can be reached, and why not."""
NodeHandler: TypeAlias = Callable[[Key, Object], None]
"""Told the cluster and the Node that appeared, changed or went."""

_BY_PROVIDER_ID = "provider-id"

_log = logs.get(__name__)


class Connection:
    """One cluster's client and Nodes. `is_synced` once the Nodes have been read for the first time."""

    def __init__(self, client: Client, origin: kubeconfigs.Connection, clock: clocks.Clock) -> None:
        self.client = client
        self.origin = origin
        self.nodes = Informer(client, resources.NODES, clock=clock)
        self.nodes.add_index(_BY_PROVIDER_ID, _provider_id)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_synced(self) -> bool:
        return self.nodes.synced.is_set()

    @property
    def problem(self) -> str:
        """Why the cluster's API cannot be reached, once that lasts; what was known of its Nodes still stands."""
        return self.nodes.problem

    def node(self, provider_id: str) -> Object | None:
        found = self.nodes.by_index(_BY_PROVIDER_ID, provider_id)
        return found[0] if found else None

    async def patch_node(self, node: Object, patch: Object) -> None:
        self.nodes.observe(await self.client.patch(resources.NODES, objects.name(node), patch))

    async def delete_node(self, node: Object) -> None:
        """This one, and none that has its name by now."""
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self.client.delete(resources.NODES, objects.name(node), uid=objects.uid(node))

    def start(self, on_synced: Callable[[], None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(on_synced), name="workload-nodes")

    async def _run(self, on_synced: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            await self.nodes.synced.wait()
            on_synced()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.client.close()


class Workloads:
    def __init__(self, client: Client, connect: Connect, *, clock: clocks.Clock = clocks.SYSTEM) -> None:
        """`client` reads the kubeconfig Secrets."""
        self._client = client
        self._connect = connect
        self._clock = clock
        self._connections: dict[Key, Connection] = {}
        self._handlers: list[NodeHandler] = []
        self._connected_handlers: list[ConnectedHandler] = []
        self._locks: dict[Key, asyncio.Lock] = {}
        self._problems: dict[Key, str] = {}
        self._is_closed = False

    def on_node_change(self, handler: NodeHandler) -> None:
        self._handlers.append(handler)

    def on_connected(self, handler: ConnectedHandler) -> None:
        self._connected_handlers.append(handler)

    def __len__(self) -> int:
        return len(self._connections)

    def current(self, cluster: Key) -> Connection | None:
        return self._connections.get(cluster)

    def problem(self, cluster: Key) -> str:
        """Why the cluster cannot be reached: its kubeconfig was not used when it was last needed (and what to do), or
        nothing has answered for a while. Empty where all is well."""
        connection = self._connections.get(cluster)
        unreachable = (
            f"Remote connection probe failed: {connection.problem}" if connection and connection.problem else ""
        )
        return self._problems.get(cluster) or unreachable

    async def connection(self, cluster: Key) -> Connection | None:
        """The connection, opened if need be; it may not be synced yet. None while there is no kubeconfig to use."""
        try:
            origin = await self._origin(cluster)
        except errors.NotFound:
            return None
        except kubeconfigs.InvalidKubeconfig as error:
            return await self._refuse(cluster, error)
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            if self._is_closed:
                return None
            existing = self._connections.get(cluster)
            if existing is not None and existing.origin == origin:
                return existing
            await self._close(cluster)
            try:
                opened = Connection(await self._connect(origin), origin, self._clock)
            except kubeconfigs.InvalidKubeconfig as error:
                self._note(cluster, error)
                return None
            self._problems.pop(cluster, None)
            self._connections[cluster] = opened
            opened.nodes.on_change(self._tell(cluster))
            opened.nodes.on_trouble(lambda: self._tell_connected(cluster))
            opened.start(lambda: self._tell_connected(cluster))
            _log.debug("workload cluster connection opened", cluster=str(cluster))
            return opened

    async def _origin(self, key: Key) -> kubeconfigs.Connection:
        name = spelling.secret_name(key.name, kubeconfig.PURPOSE)
        secret = await self._client.get(resources.SECRETS, name, key.namespace)
        cluster = await self._client.get(capi.CLUSTERS, key.name, key.namespace)
        try:
            authority = (await certificates.read(self._client, cluster, certificates.CLUSTER_CA)).certificate
        except certificates.Missing:
            authority = b""
        return kubeconfig.connection(secret, cluster, authority)

    async def _refuse(self, cluster: Key, error: kubeconfigs.InvalidKubeconfig) -> None:
        self._note(cluster, error)
        lock = self._locks.get(cluster)
        if lock is not None:
            async with lock:
                await self._close(cluster)

    def _note(self, cluster: Key, error: kubeconfigs.InvalidKubeconfig) -> None:
        secret = f"{cluster.namespace}/{spelling.secret_name(cluster.name, kubeconfig.PURPOSE)}"
        problem = (
            f"Secret {secret} cannot be used: {error}. Correct it; or delete it, if the cluster's control plane "
            "made it: it makes a new one"
        )
        if self._problems.get(cluster) == problem:
            return
        self._problems[cluster] = problem
        _log.warning("kubeconfig refused", cluster=str(cluster), reason=str(error))
        self._tell_connected(cluster)

    async def drop(self, cluster: Key) -> None:
        """The cluster goes: nothing of its connection is left. Idempotent."""
        self._problems.pop(cluster, None)
        lock = self._locks.get(cluster)
        if lock is None:
            return
        async with lock:
            await self._close(cluster)
        self._locks.pop(cluster, None)

    async def close(self) -> None:
        """Closes all, for good: whoever asks afterwards gets none."""
        self._is_closed = True
        for cluster in list(self._connections):
            await self.drop(cluster)

    async def _close(self, cluster: Key) -> None:
        connection = self._connections.pop(cluster, None)
        if connection is not None:
            await connection.close()
            _log.debug("workload cluster connection closed", cluster=str(cluster))

    def _tell_connected(self, cluster: Key) -> None:
        for handler in self._connected_handlers:
            handler(cluster)

    def _tell(self, cluster: Key) -> Callable[[Object | None, Object | None], None]:
        def handler(old: Object | None, new: Object | None) -> None:
            node = new if new is not None else old
            if node is not None and cluster in self._connections:
                for each in self._handlers:
                    each(cluster, node)

        return handler


def _provider_id(node: Object) -> list[str]:
    found = objects.at(node, "spec", "providerID")
    return [str(found)] if found else []
