"""A provider as the platform sees it: a unit to start, with the files that are its own.

    platform                                   provider
    defines the kinds of `definitions`
    opens `databases`                   ->     start(ground) -> controllers, checks, services
    restores a backup                   ->     unknown(world) -> machines that the restored state does not know

To add one: write its controllers, describe it with a `Provider`, and hand that to whoever starts the platform, together
with what it says to composition (`compose/infrastructure.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Controller
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.server.transport.health import Check
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.settings import Platform


class HostApis(Protocol):
    """API servers of the provider's own in this process, with their objects in one of its databases."""

    def __call__(self, database: str, *, reach: Reach, quota: int) -> Hosting: ...


@frozen
class Ground:
    """What the platform gives to a provider that it starts."""

    client: Client
    manager: Manager
    platform: Platform
    clock: Clock
    host_apis: HostApis
    stack: contextlib.AsyncExitStack
    """Gets what is to be ended with the platform."""
    folder: Path
    """Of the data directory, for what the provider keeps in files of its own. It exists only once the provider makes
    it; it is in no backup."""
    data_dir: Path
    """By which one platform of a machine is told from another."""


@frozen
class Service:
    """Something that a provider runs or reaches, as `steelyard status` and `doctor` tell of it."""

    name: str
    how: Literal["running", "not needed yet", "starting", "down"]
    text: str = ""
    """Where it is and what it is; of one that is down, why and what to do."""


def _no_services() -> Sequence[Service]:
    return ()


class Console(Protocol):
    """Reads what machines of one kind have written to their consoles."""

    async def __call__(self, namespace: str, name: str, *, last: int) -> bytes:
        """At most so many bytes, the newest; raises `errors.ApiError` with what keeps it from that."""
        ...


@frozen
class Started:
    controllers: Sequence[Controller] = ()
    checks: Mapping[str, Check] = field(default_factory=dict[str, Check])
    """What `/readyz` asks, by name."""
    services: Callable[[], Sequence[Service]] = _no_services
    consoles: Mapping[Resource, Console] = field(default_factory=dict[Resource, Console])
    """What `steelyard logs machine` asks, by the kind of machine."""


@frozen
class Stored:
    """One object in a provider's database, and whose it is."""

    space: str
    group: str
    plural: str
    object: Object


@frozen
class World:
    """What a restore knows: the state that it brings back, and the provider's databases, which stay as they are."""

    restored: Callable[[Resource], Sequence[Object]]
    read: Callable[[str], Iterable[Stored]]
    """Nothing where the database cannot be read; the next start says why."""


Start: TypeAlias = Callable[[Ground], Awaitable[Started]]


def _none(_: World) -> Sequence[str]:
    return ()


def _no_definitions() -> Sequence[Object]:
    return ()


def _always(_: Platform) -> bool:
    return True


@frozen
class Provider:
    name: str
    start: Start
    definitions: Callable[[], Sequence[Object]] = _no_definitions
    """The definitions of the kinds that it brings about, where no infrastructure of compositions has them already."""
    is_wanted: Callable[[Platform], bool] = _always
    """Whether a platform with these settings needs its kinds: where not, they are not defined. It is started anyway, to
    let go of what other settings left behind."""
    needed: tuple[Permit, ...] = ()
    """What it must be allowed to do at the API where it does not run inside the platform."""
    has_files: bool = False
    """Whether what it makes is kept in files: then it needs a folder that outlives the process."""
    databases: tuple[str, ...] = ()
    """Names of the databases that are its own; each becomes a file of the data directory. They are in no backup."""
    stands_for: str = "what it has made"
    """What is lost with its databases, in words."""
    unknown: Callable[[World], Sequence[str]] = _none
    """Machines that run, and that a restored state does not know."""
