"""The etcds of simulated clusters: where there are several control-plane machines, each member a port on its machine's
address.

A cluster with one control-plane machine has neither port nor record: its one member answers whoever comes through the
cluster's API (`reach`), and nobody else. With the second one that joins, the
members are written down inside the cluster, like everything that is the world's and not the platform's; every change of
them is there before anybody is told that it was made. Who runs follows from the machines. So a restart brings back what
there was, and a machine that went without its member having been removed leaves a dead one behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import CONFIG_MAPS
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock
from steelyard.providers.simulated import ensemble as ensembles
from steelyard.providers.simulated.ensemble import Ensemble
from steelyard.providers.simulated.memberserver import MemberServer

FAULT_ANNOTATION: Final = "simulated.steelyard.dev/fault"
"""On a SimulatedMachine, what is wrong with it: `etcd` for a member that does not run."""
_NAMESPACE: Final = "kube-system"
_RECORD: Final = "simulated-etcd"
_KEY: Final = "members"
_WAIT_SECONDS: Final = 2.0

ClientOf: TypeAlias = Callable[[str], Client | None]
"""Into a cluster, by its number; None while its API does not run."""

_log = logs.get(__name__)


@frozen
class Host:
    """A control-plane machine that runs. Its name is its Node's, too."""

    name: str
    address: str


@dataclass(slots=True)
class _Kept:
    cluster_id: str
    ensemble: Ensemble | None = None
    """None until it has been read."""
    servers: dict[Host, MemberServer] = field(default_factory=dict[Host, MemberServer])
    quiet: dict[Host, MemberServer] = field(default_factory=dict[Host, MemberServer])
    """Those that have no port."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Ensembles:
    def __init__(self, client_of: ClientOf, clock: Clock) -> None:
        self._client_of = client_of
        self._clock = clock
        self._clusters: dict[str, _Kept] = {}

    async def join(self, cluster_id: str, host: Host, others: Sequence[Host]) -> None:
        """The host is a member, as those are that were there before. Again: nothing happens."""
        kept = self._of(cluster_id)
        async with kept.lock:
            before = await self._read(kept)
            if before.member(host.name) is not None:
                return
            if not any(before.member(each.name) for each in others):
                # What is written down is of machines before these, if of any.
                before = ensembles.new(cluster_id)
            joined = before
            for each in (*others, host) if not before.members else (host,):
                joined = joined.joined(each.name, each.address)
            if joined != before:
                await self._write(kept, joined)

    async def settle(self, cluster_id: str, hosts: Iterable[Host], ended: Iterable[str], authority: KeyPair) -> bool:
        """Gives the hosts their ports, and ends those at the other addresses. False where one cannot be had."""
        kept = self._of(cluster_id)
        has_all = True
        async with kept.lock:
            await _end(kept, set(ended))
            for host in hosts:
                if host not in kept.servers:
                    has_all = await self._start(kept, host, authority) and has_all
        return has_all

    async def reach(self, cluster_id: str, host: Host, authority: KeyPair, connection: socket.socket) -> None:
        """Hands a connection to the host's member. Raises OSError."""
        kept = self._of(cluster_id)
        async with kept.lock:
            server = kept.servers.get(host) or kept.quiet.get(host)
            if server is None:
                server = kept.quiet[host] = self._server(kept, host, authority)
        await server.accept(connection)

    def is_settled(self, cluster_id: str, hosts: Iterable[Host], ended: Iterable[str]) -> bool:
        """Whether `settle` would find nothing to do."""
        kept = self._clusters.get(cluster_id)
        servers: Iterable[Host] = kept.servers if kept is not None else ()
        return set(hosts) <= set(servers) and not {each.address for each in servers} & set(ended)

    async def end(self, cluster_id: str, address: str) -> None:
        """The machine at this address is switched off."""
        kept = self._clusters.get(cluster_id)
        if kept is not None:
            async with kept.lock:
                await _end(kept, {address})

    async def members(self, cluster_id: str) -> list[str]:
        """Their names. None where there never was more than one machine."""
        kept = self._of(cluster_id)
        async with kept.lock:
            return [each.name for each in (await self._read(kept)).members]

    async def erase(self, cluster_id: str) -> None:
        kept = self._clusters.pop(cluster_id, None)
        if kept is not None:
            await _end(kept)

    async def close(self) -> None:
        for kept in self._clusters.values():
            await _end(kept)
        self._clusters.clear()

    def _of(self, cluster_id: str) -> _Kept:
        return self._clusters.setdefault(cluster_id, _Kept(cluster_id))

    def _server(self, kept: _Kept, host: Host, authority: KeyPair) -> MemberServer:
        async def answer(path: str, question: Object) -> tuple[int, Object]:
            async with kept.lock:
                return await self._answer(kept, host, path, question)

        return MemberServer(answer, host.address, host.name, authority, now=self._clock.now())

    async def _start(self, kept: _Kept, host: Host, authority: KeyPair) -> bool:
        server = kept.quiet.get(host) or self._server(kept, host, authority)
        try:
            await server.listen()
        except OSError as error:
            _log.warning("etcd of a simulated machine cannot have its port", member=host.name, error=str(error))
            return False
        kept.quiet.pop(host, None)
        kept.servers[host] = server
        return True

    async def _answer(self, kept: _Kept, host: Host, path: str, question: Object) -> tuple[int, Object]:
        try:
            current = await self._read(kept)
            if not current.members:
                # There is one machine, and nothing is written down of it.
                current = current.joined(host.name, host.address)
            current = current.with_running(each.name for each in (*kept.servers, *kept.quiet))
            found = ensembles.answer(current, host.name, path, question)
            after = found.after if found.after is not None else current
            if after.members != current.members:
                await self._write(kept, after)
                gone = {each.address for each in current.members} - {each.address for each in after.members}
                await _end(kept, gone)
        except errors.ApiError as error:
            return 503, {"code": 14, "message": f"etcdserver: {error.message}"}
        kept.ensemble = after if kept.ensemble is not None and kept.ensemble.members else kept.ensemble
        return found.status, found.body

    async def _read(self, kept: _Kept) -> Ensemble:
        if kept.ensemble is None:
            client = await self._client(kept.cluster_id)
            try:
                record = await client.get(CONFIG_MAPS, _RECORD, _NAMESPACE)
                listed = orjson.loads(str(objects.at(record, "data", _KEY) or "[]"))
                kept.ensemble = ensembles.new(kept.cluster_id, map(objects.mapping, objects.sequence(listed)))
            except (errors.NotFound, ValueError):
                kept.ensemble = ensembles.new(kept.cluster_id)
        return kept.ensemble

    async def _write(self, kept: _Kept, wanted: Ensemble) -> None:
        record: Object = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": {"name": _RECORD, "namespace": _NAMESPACE},
            "data": {_KEY: orjson.dumps([each.recorded() for each in wanted.members]).decode()},
        }
        client = await self._client(kept.cluster_id)
        await client.apply(CONFIG_MAPS, record, field_manager="etcd")
        kept.ensemble = wanted

    async def _client(self, cluster_id: str) -> Client:
        """Waits a little: machines of a cluster that comes back have their ports before its API runs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                while (client := self._client_of(cluster_id)) is None:  # noqa: ASYNC110 (nobody tells)
                    await asyncio.sleep(0.02)
                return client
        raise errors.ServiceUnavailable("the cluster's API does not run")


async def _end(kept: _Kept, addresses: set[str] | None = None) -> None:
    """All of them without addresses."""
    for servers in (kept.servers, kept.quiet):
        for host in list(servers):
            if addresses is None or host.address in addresses:
                await servers.pop(host).stop()
