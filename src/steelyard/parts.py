"""What one process can run of the platform, by name: its claims, the life of clusters, and each provider.

The embedded platform runs all of them, but for those that it is told to leave to others (`up --without`). On a
management cluster a process runs those that it is told to (`controllers --with`). Both get their controllers here.

    claims        claims, what they deliver into clusters, the keys of clusters in virtual machines
    lifecycle     Cluster API's own kinds, in place of its programs
    simulated     and so on: the providers
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from steelyard.api.clusterapi.resources import CLUSTERS
from steelyard.controllers import delivery, lifecycle, virtualclusters
from steelyard.controllers.delivery import controller as delivering
from steelyard.controllers.lifecycle import needed as lifecycle_needs
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.controllers.virtualclusters import controller as keys
from steelyard.kube import permits
from steelyard.kube.client import hosted
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.runtime.controller import Controller
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.hosting import Hosting
from steelyard.providers.kvm.unit import PROVIDER as KVM
from steelyard.providers.postgres.unit import PROVIDER as POSTGRES
from steelyard.providers.redis.unit import PROVIDER as REDIS
from steelyard.providers.simulated.unit import PROVIDER as SIMULATOR
from steelyard.providers.toolkit.provider import Provider
from steelyard.providers.vault.unit import PROVIDER as VAULT
from steelyard.settings import Platform

if TYPE_CHECKING:
    from steelyard.compose.offering import Offering

CLAIMS: Final = "claims"
LIFECYCLE: Final = "lifecycle"
OWN: Final = (CLAIMS, LIFECYCLE)
PROVIDERS: Final = (SIMULATOR, KVM, POSTGRES, REDIS, VAULT)
"""Those of this version."""


def names(providers: Sequence[Provider]) -> tuple[str, ...]:
    return (*OWN, *(each.name for each in providers))


def of_claims(manager: Manager, platform: Platform, offering: Offering) -> Sequence[Controller]:
    """Those of the kinds of claims."""
    from steelyard.controllers.claims import controller as claims  # with what kinds are composed of: it is large

    return claims.controllers(manager, platform, offering)


def controllers(
    manager: Manager, wanted: Collection[str], at_end: Callable[..., object], hostings: Sequence[Hosting]
) -> list[Controller]:
    """Those of `wanted` parts that are no providers, but for those of the kinds of claims. `at_end` is told what is to
    be awaited when they have ended. `hostings` are what providers host in this process; there may be more of them
    later."""
    found: list[Controller] = []
    connect = hosted.shortcut(lambda: hostings, manager.clock, lifecycle.over_https)
    workloads = lifecycle.ways_in(manager, connect)
    if CLAIMS in wanted:
        found += virtualclusters.controllers(manager)
        found += delivery.controllers(manager, workloads)
    if LIFECYCLE in wanted:
        found += lifecycle.controllers(manager, workloads=workloads)
    elif CLAIMS in wanted:
        _close_with_clusters(manager, workloads)
        at_end(workloads.close)
    return found


def needed(
    platform: Platform, offering: Offering, wanted: Collection[str], providers: Sequence[Provider]
) -> list[Permit]:
    """What these parts must be allowed to do at an API that asks."""
    from steelyard.controllers.claims import controller as claims  # as above

    found: list[Permit] = []
    if CLAIMS in wanted:
        found += (*claims.needed(platform, offering), *keys.NEEDED, *delivering.NEEDED)
        # Whose the kinds are (`defining.py`).
        for kind in offering.kinds:
            name = kind.resource(platform.domain).group_resource
            found += permits.only(("get",), CUSTOM_RESOURCE_DEFINITIONS, name=name)
    if LIFECYCLE in wanted:
        found += lifecycle_needs.needed((each.cluster, each.template) for each in offering.infrastructures)
    found += (each for provider in providers if provider.name in wanted for each in provider.needed)
    return list(dict.fromkeys(found))


def _close_with_clusters(manager: Manager, workloads: Workloads) -> None:
    """As the controllers of clusters do where they run."""
    closing: set[asyncio.Task[None]] = set()

    def closed(old: Object | None, new: Object | None) -> None:
        if old is not None and new is None and workloads.current(Key.of(old)) is not None:
            task = asyncio.get_running_loop().create_task(workloads.drop(Key.of(old)))
            closing.add(task)
            task.add_done_callback(closing.discard)

    manager.informers.of(CLUSTERS).on_change(closed)
