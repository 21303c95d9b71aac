"""The etcd members of all clusters, as reconcilers ask for them: `look` at them, let one `leave`, `sweep` what is left.

Connections are opened for each call and closed with it; nothing is kept but how a cluster was reached and, for a
moment, what was seen, since all machines of a control plane tend to ask at the same time. Every call ends within
seconds, whatever the other side does, and a look that takes longer goes on in the background, so that one cluster with
a dead machine does not hold up the others. That nobody answers counts once it has lasted: for a moment it happens, when
members choose a leader or the platform was faster to start than they. Removing a member again, after a crash in
between, finds it gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from steelyard.controllers.lifecycle import certificates
from steelyard.controllers.lifecycle.members import hearing, leaving
from steelyard.controllers.lifecycle.members.credentials import Credentials
from steelyard.controllers.lifecycle.members.exchange import Refused, Unreachable
from steelyard.controllers.lifecycle.members.hearing import Reached
from steelyard.controllers.lifecycle.members.leaving import CannotLeave, Host
from steelyard.controllers.lifecycle.members.saying import Etcd, Member
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock, Timer
from steelyard.kube.runtime.keys import Key

PATIENCE: Final = 0.5
"""Seconds that a look is waited for."""
_CHANGE_SECONDS: Final = 30.0
_STILL_TRUE_SECONDS: Final = 1.0
SILENCE_SECONDS: Final = 10.0
"""For how long nobody has to have answered until that is said."""
_LOOK_AGAIN_SECONDS: Final = 1.0
_DETOUR_SECONDS: Final = 600.0
_MOST_KEPT: Final = 4096

SeenHandler: TypeAlias = Callable[[Key], None]
"""Told the cluster whose etcd was seen after all, or not, by a look that took longer."""

_log = logs.get(__name__)


class StillLooking(Exception):
    """The look takes longer; whoever subscribed is told when it has ended."""


@dataclass(slots=True)
class _Kept:
    """Of one cluster."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    looking: asyncio.Task[Etcd | None] | None = None
    looked_with: tuple[Host, ...] = ()
    seen: Etcd | None = None
    true_until: float = 0.0
    silent_since: float | None = None
    looks_again: Timer | None = None
    around_until: float = 0.0
    """Until when its machines are not tried straight first, which takes seconds where nothing answers."""


class Members:
    def __init__(self, client: Client, workloads: Workloads, clock: Clock) -> None:
        """`client` reads the Secrets with etcd's authorities."""
        self._workloads = workloads
        self._clock = clock
        self._credentials = Credentials(client, clock)
        self._clusters: OrderedDict[Key, _Kept] = OrderedDict()
        self._looks: set[asyncio.Task[Etcd | None]] = set()
        self._handlers: list[SeenHandler] = []

    def on_seen(self, handler: SeenHandler) -> None:
        self._handlers.append(handler)

    async def look(self, cluster: Object, machines: Sequence[Object]) -> Etcd | None:
        """As its control-plane machines tell it. None where there are no members to be seen: the cluster's API shows no
        etcd, and nothing on its machines is one. Raises Unreachable where that has lasted, StillLooking."""
        hosts = tuple(map(leaving.host_of, machines))
        kept = self._of(cluster)
        looking = kept.looking
        is_over = looking is None or (looking.done() and self._clock.monotonic() >= kept.true_until)
        if looking is None or is_over or kept.looked_with != hosts:
            kept.looked_with = hosts
            looking = kept.looking = self._start(self._look(cluster, hosts, kept))
        await asyncio.wait([looking], timeout=PATIENCE)
        if not looking.done():
            looking.add_done_callback(lambda _: self._tell(Key.of(cluster)))
            raise StillLooking
        try:
            return looking.result()
        except Unreachable:
            now = self._clock.monotonic()
            if kept.silent_since is not None and now - kept.silent_since >= SILENCE_SECONDS:
                raise
            self._look_again(Key.of(cluster), kept)
            raise StillLooking from None

    def last_seen(self, cluster: Object) -> Etcd | None:
        """What the last look found that found anything."""
        return self._of(cluster).seen

    async def leave(self, cluster: Object, machine: Object, machines: Sequence[Object]) -> None:
        """The machine's member is no part of etcd any more afterwards. Raises CannotLeave."""
        host = leaving.host_of(machine)
        hosts = tuple(map(leaving.host_of, machines))
        async with self._changing(cluster, f"The etcd member of Machine {host.machine}") as kept:
            reached = await self._reach(cluster, hosts, kept)
            if reached is not None:
                await self._remove(reached, hosts, leaving.members_on(host, hosts, reached.etcd.members))

    async def objection(self, cluster: Object, machine: Object, machines: Sequence[Object]) -> str:
        """Why its member must stay, by the rules and as far as can be seen now; empty where it may leave."""
        host = leaving.host_of(machine)
        hosts = tuple(map(leaving.host_of, machines))
        kept = self._of(cluster)
        try:
            async with kept.lock:
                reached = await self._reach(cluster, hosts, kept)
            members = leaving.members_on(host, hosts, reached.etcd.members) if reached is not None else ()
        except (Unreachable, CannotLeave) as error:
            return str(error)
        return leaving.objection(reached.etcd, members) if reached is not None and members else ""

    async def sweep(self, cluster: Object, machines: Sequence[Object]) -> None:
        """Removes members of machines that do not exist any more. Raises CannotLeave."""
        hosts = tuple(map(leaving.host_of, machines))
        async with self._changing(cluster, "An etcd member that has no Machine") as kept:
            reached = await self._reach(cluster, hosts, kept)
            strangers = leaving.strangers(hosts, reached.etcd.members) if reached is not None else ()
            if reached is not None and strangers and all(host.node for host in hosts):
                await self._remove(reached, hosts, strangers[:1])

    async def close(self) -> None:
        for kept in self._clusters.values():
            if kept.looks_again is not None:
                kept.looks_again.cancel()
        self._clusters.clear()
        looks = list(self._looks)
        for each in looks:
            each.cancel()
        if looks:
            await asyncio.wait(looks)

    def _of(self, cluster: Object) -> _Kept:
        key = Key.of(cluster)
        kept = self._clusters.setdefault(key, _Kept())
        self._clusters.move_to_end(key)
        if len(self._clusters) > _MOST_KEPT:
            self._clusters.popitem(last=False)
        return kept

    def _start(self, look: Coroutine[Any, Any, Etcd | None]) -> asyncio.Task[Etcd | None]:
        started = asyncio.create_task(look, name="etcd-look")
        self._looks.add(started)
        started.add_done_callback(self._ended)
        return started

    def _ended(self, look: asyncio.Task[Etcd | None]) -> None:
        self._looks.discard(look)
        if not look.cancelled():
            look.exception()  # somebody may have stopped waiting for it

    async def _look(self, cluster: Object, hosts: tuple[Host, ...], kept: _Kept) -> Etcd | None:
        started = self._clock.monotonic()
        try:
            async with kept.lock:
                reached = await self._reach(cluster, hosts, kept)
        except Unreachable:
            if kept.silent_since is None:
                kept.silent_since = started
            raise
        else:
            kept.silent_since = None
        finally:
            now = self._clock.monotonic()
            # What took long to see is taken for true for longer: otherwise nothing but looking would be done.
            kept.true_until = now + max(_STILL_TRUE_SECONDS, 2 * (now - started))
        kept.seen = reached.etcd if reached is not None else None
        return kept.seen

    def _look_again(self, cluster: Key, kept: _Kept) -> None:
        """Soon: whoever asked is told then."""

        def tell() -> None:
            kept.looks_again = None
            kept.true_until = 0.0
            self._tell(cluster)

        if kept.looks_again is None:
            kept.looks_again = self._clock.call_later(_LOOK_AGAIN_SECONDS, tell)

    def _tell(self, cluster: Key) -> None:
        for handler in self._handlers:
            handler(cluster)

    @contextlib.asynccontextmanager
    async def _changing(self, cluster: Object, what: str) -> AsyncGenerator[_Kept]:
        """One change of a cluster's members at a time; what was seen before does not count afterwards."""
        kept = self._of(cluster)
        try:
            async with asyncio.timeout(_CHANGE_SECONDS), kept.lock:
                yield kept
        except TimeoutError:
            raise CannotLeave(f"{what} could not be removed within {_CHANGE_SECONDS:g} s; it is tried again") from None
        except (Unreachable, Refused) as error:
            raise CannotLeave(f"{what} cannot be removed yet; it is tried again: {error}") from error
        finally:
            kept.true_until = 0.0

    async def _reach(self, cluster: Object, hosts: Sequence[Host], kept: _Kept) -> Reached | None:
        try:
            context = await self._credentials.context(cluster)
        except certificates.Missing as error:
            raise Unreachable(str(error)) from error
        connection = await self._workloads.connection(Key.of(cluster))
        goes_around = self._clock.monotonic() < kept.around_until
        reached = await hearing.hear(hosts, context, connection, goes_around=goes_around)
        if reached is not None and reached.goes_around != goes_around:
            kept.around_until = self._clock.monotonic() + _DETOUR_SECONDS if reached.goes_around else 0.0
        return reached

    @staticmethod
    async def _remove(reached: Reached, hosts: Sequence[Host], members: Sequence[Member]) -> None:
        etcd = reached.etcd
        problem = leaving.objection(etcd, members) if members else ""
        if problem:
            raise CannotLeave(problem)
        successor = leaving.next_leader(etcd, members, hosts)
        if not members or successor is None:
            return
        by_machine = {host.machine: host for host in hosts}
        leader = next((each for each in members if each.id == etcd.leader), None)
        if leader is not None and etcd.is_well(leader):
            # One that leads but cannot be reached is removed as it is: the others then choose, within a second or two.
            machine = etcd.hosts[leader.id]
            async with reached.roads[machine](by_machine[machine]) as conversation:
                await conversation.move_leader(successor)
            _log.info("etcd leadership moved", away_from=str(leader), to=str(successor))
        machine = etcd.hosts[successor.id]
        async with reached.roads[machine](by_machine[machine]) as conversation:
            for member in members:
                await conversation.remove(member)
                _log.info("etcd member removed", member=str(member))
