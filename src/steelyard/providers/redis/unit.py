"""The provider as a unit that the platform starts. It costs nothing until the first RedisServer is there."""

from __future__ import annotations

from typing import Final

from steelyard.api import redisserver
from steelyard.api.redisserver import RESOURCE
from steelyard.kube import errors, objects, permits
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.providers.redis import credentials, program, recorded
from steelyard.providers.redis.fleet import Fleet
from steelyard.providers.redis.ports import Ports
from steelyard.providers.redis.server import port_is_taken
from steelyard.providers.toolkit.provider import Ground, Provider, Service, Started

NAME: Final = "redis"
_CALLED: Final = "Redis"
_NEEDED: Final = (*permits.reports(RESOURCE), *permits.makes(SECRETS), *permits.only(("create",), NAMESPACES))
_WORKERS: Final = 8


async def _start(ground: Ground) -> Started:
    fleet = Fleet(ground.folder, ground.clock)
    ports = Ports(port_is_taken)
    await _recall(ground.client, ports)
    manager = ground.manager
    recorder = Recorder(manager.client, "redis-servers", clock=manager.clock)

    def reconciler() -> Reconciler:
        from steelyard.providers.redis.reconcile import RedisServerReconciler

        return RedisServerReconciler(manager.client, fleet, ports, manager.clock, recorder)

    controller = Controller(
        "redis-servers",
        RESOURCE,
        Deferred(reconciler),
        [Watch(SECRETS, _of_secret)],
        workers=_WORKERS,
        failure_condition="Synced",
    )
    fleet.wake = lambda key: controller.enqueue([key])
    ground.stack.push_async_callback(fleet.close)
    return Started([controller], services=lambda: services(fleet))


async def _recall(client: Client, ports: Ports) -> None:
    """Keeps the ports that caches have, before a new one is given out: of two that name the same, the older one's."""
    try:
        found = (await client.list(RESOURCE)).items
    except errors.NotFound:
        return
    for obj in sorted(found, key=_age):
        if port := recorded.read(obj).port:
            ports.keep(objects.uid(obj), port)


def _age(obj: Object) -> tuple[str, str]:
    return str(objects.metadata(obj).get("creationTimestamp") or ""), objects.uid(obj)


def _of_secret(secret: Object) -> list[Key]:
    name = credentials.owner_key(secret)
    return [Key("", name)] if name else []


def services(fleet: Fleet) -> list[Service]:
    """For `steelyard status` and `doctor`."""
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


PROVIDER: Final = Provider(NAME, _start, definitions=lambda: [redisserver.definition()], needed=_NEEDED, has_files=True)
