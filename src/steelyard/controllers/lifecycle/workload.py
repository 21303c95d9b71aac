"""The way into workload clusters: per cluster one client, made from its kubeconfig Secret, and one watch of its Nodes.

A connection opens when somebody first asks for it and closes when its cluster goes or its kubeconfig changes. Nodes
are read from the watch's cache, so that finding a machine's Node costs no request, and a Node's change is told to
whoever subscribed. While a cluster's API cannot be reached its informer retries with a growing delay; nothing else
waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from steelyard.controllers.lifecycle import kubeconfig, names
from steelyard.kube import errors, objects, resources
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.keys import Key

Connect: TypeAlias = Callable[[str], Awaitable[Client]]
"""Makes a client from the text of a kubeconfig."""
ConnectedHandler: TypeAlias = Callable[[Key], None]
"""Told the cluster whose Nodes are known from now on."""
NodeHandler: TypeAlias = Callable[[Key, Object], None]
"""Told the cluster and the Node that appeared, changed or went."""

_BY_PROVIDER_ID = "provider-id"

_log = logs.get(__name__)


class Connection:
    """One cluster's client and Nodes. `is_synced` once the Nodes have been read for the first time."""

    def __init__(self, client: Client, text: str, clock: clocks.Clock) -> None:
        self.client = client
        self.text = text
        self.nodes = Informer(client, resources.NODES, clock=clock)
        self.nodes.add_index(_BY_PROVIDER_ID, _provider_id)
        self._task: asyncio.Task[None] | None = None

    @property
    def is_synced(self) -> bool:
        return self.nodes.synced.is_set()

    def node(self, provider_id: str) -> Object | None:
        found = self.nodes.by_index(_BY_PROVIDER_ID, provider_id)
        return found[0] if found else None

    async def patch_node(self, node: Object, patch: Object) -> None:
        self.nodes.observe(await self.client.patch(resources.NODES, objects.name(node), patch))

    async def delete_node(self, name: str) -> None:
        with contextlib.suppress(errors.NotFound):
            await self.client.delete(resources.NODES, name)

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
        self._is_closed = False

    def on_node_change(self, handler: NodeHandler) -> None:
        self._handlers.append(handler)

    def on_connected(self, handler: ConnectedHandler) -> None:
        self._connected_handlers.append(handler)

    def __len__(self) -> int:
        return len(self._connections)

    def current(self, cluster: Key) -> Connection | None:
        return self._connections.get(cluster)

    async def connection(self, cluster: Key) -> Connection | None:
        """The connection, opened if need be; None while the cluster has no kubeconfig. It may not be synced yet."""
        try:
            secret = await self._client.get(
                resources.SECRETS, names.secret_name(cluster.name, kubeconfig.PURPOSE), cluster.namespace
            )
        except errors.NotFound:
            return None
        text = kubeconfig.text_of(secret)
        async with self._locks.setdefault(cluster, asyncio.Lock()):
            if self._is_closed:
                return None
            existing = self._connections.get(cluster)
            if existing is not None and existing.text == text:
                return existing
            if existing is not None:
                await self._close(cluster)
            opened = Connection(await self._connect(text), text, self._clock)
            self._connections[cluster] = opened
            opened.nodes.on_change(self._tell(cluster))
            opened.start(lambda: self._tell_connected(cluster))
            _log.debug("workload cluster connection opened", cluster=str(cluster))
            return opened

    async def drop(self, cluster: Key) -> None:
        """The cluster goes: nothing of its connection is left. Idempotent."""
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
