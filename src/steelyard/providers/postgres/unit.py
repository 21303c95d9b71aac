"""PostgreSQL as a unit that the platform starts: its kinds, its servers, and what it tells of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard.api.crossplane import DATABASES, EXTENSIONS, GRANTS, PROVIDER_CONFIGS, ROLES, SCHEMAS
from steelyard.api.providersql import definitions
from steelyard.kube import objects, permits
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions, mapping, triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.providers.postgres import indexes, ours
from steelyard.providers.postgres import servers as servers_module
from steelyard.providers.postgres.configs import ConfigReconciler, Configs
from steelyard.providers.postgres.drift import Drift
from steelyard.providers.postgres.embedded import programs
from steelyard.providers.postgres.embedded.server import EmbeddedServer
from steelyard.providers.postgres.parts import Part, Tools
from steelyard.providers.postgres.problems import Problem
from steelyard.providers.postgres.servers import Connect, Known, Servers
from steelyard.providers.toolkit.provider import Ground, Provider, Service, Started
from steelyard.settings.data import PostgreSQL

_USERS_AFTER: Final = 1.0


def _becomes_ready(old: Object | None, new: Object | None) -> bool:
    """Who waits for a thing wants to know when it is there, and when it is gone."""
    is_ready = new is not None and conditions.is_true(new, "Ready")
    was_ready = old is not None and conditions.is_true(old, "Ready")
    return is_ready != was_ready


def _after(resource: Resource, *first: Resource) -> Part:
    """A kind whose objects refer to things of other kinds, and come after them."""

    def watches(manager: Manager) -> Sequence[Watch]:
        return [
            Watch(kind, indexes.who_refers(manager.informers, resource, kind), matters=_becomes_ready) for kind in first
        ]

    return Part(resource, f"{resource.plural}", watches)


def _watches_of_roles(manager: Manager) -> Sequence[Watch]:
    roles = manager.informers.of(ROLES)

    def whose_password(secret: Object) -> Iterable[Key]:
        return map(Key.of, roles.by_index(indexes.PASSWORDS, objects.qualified_name(secret)))

    changed = triggers.changed(("data",), triggers.OWNERS)
    return [
        Watch(SECRETS, mapping.to_owner(ROLES, controller_only=True), matters=changed),
        Watch(SECRETS, whose_password, matters=changed),
    ]


PARTS: Final[tuple[Part, ...]] = (
    _after(DATABASES, ROLES),
    Part(ROLES, "roles", _watches_of_roles),
    _after(GRANTS, ROLES, DATABASES),
    _after(EXTENSIONS, DATABASES),
    _after(SCHEMAS, DATABASES, ROLES),
    *ours.PARTS,
)
"""Who reconciles what. A kind joins with one line here."""


_NEEDED: Final = (
    *permits.reports(PROVIDER_CONFIGS, *(part.resource for part in PARTS)),
    *permits.only(("create",), PROVIDER_CONFIGS),
    *permits.only(("get", "list", "watch", "create", "update", "patch", "delete"), SECRETS),
    *permits.only(("get", "create"), NAMESPACES),
)


async def _start(ground: Ground, connect: Connect) -> Started:
    settings = ground.platform.postgresql
    instances = {
        name: EmbeddedServer(name, server.embedded, ground.folder / name, ground.data_dir, ground.clock)
        for name, server in settings.all_servers().items()
        if server.dsn is None
    }
    servers = Servers(ground.manager.client, known(settings, instances), connect=connect)
    configs = Configs(ground.client, settings, instances, servers.versions)
    servers.announce = configs.ensure
    for instance in instances.values():
        ground.stack.push_async_callback(instance.stop)
    ground.stack.push_async_callback(servers.close)
    for name in configs.names:
        with contextlib.suppress(Problem):
            # A password that is not there yet: told where the server is needed.
            await configs.ensure(name)
    # Reconcilers are made when they are needed. What they start ends after the controllers, which would start it again.
    endings = await ground.stack.enter_async_context(contextlib.AsyncExitStack())
    tools = Tools(ground.manager.client, ground.clock, servers, settings, ground.folder, endings.push_async_callback)
    found = controllers(ground.manager, tools, configs)
    drift = Drift(servers, ground.manager.informers, _enqueue_with(found), ground.clock)
    ground.stack.push_async_callback(_end, asyncio.create_task(drift.run(), name="postgres-drift"))
    return Started(
        found,
        checks={f"postgres-{name}": instance.check for name, instance in instances.items()},
        services=lambda: _services(settings, instances),
    )


def known(settings: PostgreSQL, instances: dict[str, EmbeddedServer]) -> dict[str, Known]:
    """What the platform file says of each server, by its ProviderConfig."""
    return {
        name: Known(
            instance=instances.get(name),
            authority=server.ca or "",
            client_certificate=server.client_certificate or "",
            client_key=server.client_key or "",
            find_programs=programs.clients,
        )
        for name, server in settings.all_servers().items()
    }


def controllers(manager: Manager, tools: Tools, configs: Configs) -> list[Controller]:
    indexes.add(manager.informers)
    keeper = Controller(
        "postgres-providerconfig",
        PROVIDER_CONFIGS,
        ConfigReconciler(manager.client, configs),
        [
            Watch(SECRETS, configs.config_of_secret),
            *(
                Watch(resource, _config_of, matters=triggers.coming_and_going, after=_USERS_AFTER)
                for resource in indexes.MANAGED
            ),
        ],
    )
    return [keeper, *(part.controller(manager, tools) for part in PARTS)]


def _config_of(obj: Object) -> list[Key]:
    return [Key("", indexes.config(obj))]


def _enqueue_with(found: Sequence[Controller]) -> Callable[[Resource, Iterable[Key]], None]:
    by_resource = {controller.resource: controller for controller in found}

    def enqueue(resource: Resource, keys: Iterable[Key]) -> None:
        by_resource[resource].enqueue(keys)

    return enqueue


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _services(settings: PostgreSQL, instances: dict[str, EmbeddedServer]) -> list[Service]:
    found: list[Service] = []
    for name, server in settings.all_servers().items():
        instance, address = instances.get(name), server.address
        if instance is not None:
            found.append(instance.service())
        elif address is not None:
            where = f"{address.username} at {address.host}:{address.port}"
            found.append(Service(f"PostgreSQL ({name})", "running", f"reached as {where}, as the platform file says"))
    return found


def _definitions() -> Sequence[Object]:
    from steelyard.api import crd, databases

    return [*definitions.crds(), *map(crd.definition, databases.KINDS)]


def provider(connect: Connect = servers_module.connect) -> Provider:
    """`connect` opens each session; tests pass one that watches or breaks it."""
    return Provider(
        "postgres",
        lambda ground: _start(ground, connect),
        definitions=_definitions,
        needed=_NEEDED,
        has_files=True,
        stands_for="the databases themselves",
    )


PROVIDER: Final = provider()
