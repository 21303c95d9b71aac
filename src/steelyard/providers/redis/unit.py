"""The provider as a unit that the platform starts. It costs nothing until the first RedisServer is there: what runs
servers is loaded with it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from steelyard.api.resources import REDIS_SERVERS
from steelyard.kube import errors, objects, permits
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS
from steelyard.kube.runtime import mapping
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.events import Recorder
from steelyard.providers.toolkit.provider import Ground, Provider, Service, Started

if TYPE_CHECKING:
    from steelyard.providers.redis.fleet import Fleet
    from steelyard.providers.redis.ports import Ports

NAME: Final = "redis"
_CALLED: Final = "Redis"
_NEEDED: Final = (*permits.reports(REDIS_SERVERS), *permits.makes(SECRETS), *permits.only(("create",), NAMESPACES))
_WORKERS: Final = 8


class _Caches:
    """The servers of the platform and their ports, each made when it is first needed."""

    def __init__(self, ground: Ground) -> None:
        manager = ground.manager
        recorder = Recorder(manager.client, "redis-servers", clock=manager.clock)
        self._ground = ground

        def reconciler() -> Reconciler:
            from steelyard.providers.redis.reconcile import RedisServerReconciler

            return RedisServerReconciler(manager.client, self.fleet, self.ports, manager.clock, recorder)

        self.controller = Controller(
            "redis-servers",
            REDIS_SERVERS,
            Deferred(reconciler),
            [Watch(SECRETS, mapping.to_owner(REDIS_SERVERS, controller_only=True))],
            workers=_WORKERS,
            failure_condition="Synced",
        )

    @functools.cached_property
    def fleet(self) -> Fleet:
        from steelyard.providers.redis.fleet import Fleet

        made = Fleet(self._ground.folder, self._ground.clock)
        made.wake = lambda key: self.controller.enqueue([key])
        return made

    @functools.cached_property
    def ports(self) -> Ports:
        from steelyard.providers.redis.ports import Ports
        from steelyard.providers.redis.server import port_is_taken

        return Ports(port_is_taken)

    async def recall(self, client: Client) -> None:
        """Keeps the ports that caches have, before a new one is given out: of two that name the same, the older
        one's."""
        try:
            found = (await client.list(REDIS_SERVERS)).items
        except errors.NotFound:
            return
        if not found:
            return
        from steelyard.providers.redis import recorded

        for obj in sorted(found, key=_age):
            if port := recorded.read(obj).port:
                self.ports.keep(objects.uid(obj), port)

    async def close(self) -> None:
        if "fleet" in vars(self):
            await self.fleet.close()


async def _start(ground: Ground) -> Started:
    caches = _Caches(ground)
    await caches.recall(ground.client)
    ground.stack.push_async_callback(caches.close)
    return Started([caches.controller], services=lambda: services(caches.fleet))


def _age(obj: Object) -> tuple[str, str]:
    return str(objects.metadata(obj).get("creationTimestamp") or ""), objects.uid(obj)


def services(fleet: Fleet) -> list[Service]:
    """For `steelyard status` and `doctor`."""
    from steelyard.providers.redis import program

    launch = fleet.launch
    if launch is None:
        try:
            return [Service(_CALLED, "not needed yet", str(program.find()))]
        except program.NoProgram as error:
            return [Service(_CALLED, "down", str(error))]
    user = f", as {launch.runner.name}" if launch.runner is not None else ""
    caches, servers = len(fleet.groups), fleet.running
    told = Service(
        _CALLED,
        "running" if servers else "not needed yet",
        f"{launch.program}{user}; {servers} {'server' if servers == 1 else 'servers'} of "
        f"{caches} {'cache' if caches == 1 else 'caches'}",
    )
    return [told, *(_unknown(fleet, uid) for uid in fleet.folders.known() if uid not in fleet.groups)]


def _unknown(fleet: Fleet, uid: str) -> Service:
    """Never removed by itself: a backup that was brought back may be older than the cache."""
    return Service(
        _CALLED,
        "down",
        f"files of a cache that the platform does not know are in {fleet.folders.group(uid)}, as after a restore; end "
        "what runs there and remove them if nobody needs them",
    )


def _definitions() -> Sequence[Object]:
    from steelyard.api import redisserver

    return [redisserver.definition()]


PROVIDER: Final = Provider(NAME, _start, definitions=_definitions, needed=_NEEDED, has_files=True)
