"""How a kind joins the provider: a `Part` names its module, which is loaded when its first object is reconciled.

The module has `reconciler(tools) -> Reconciler`. Until then it costs nothing, nor does the driver that it imports.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, cast

from steelyard.frozen import frozen
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Controller, Reconciler, Result, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.providers.postgres.servers import Servers
from steelyard.settings.data import PostgreSQL

_PACKAGE: Final = "steelyard.providers.postgres"
_RESYNC: Final = 3600.0


@frozen
class Tools:
    """What every reconciler of the provider is made with."""

    client: CachedClient
    clock: Clock
    servers: Servers
    settings: PostgreSQL
    folder: Path
    """For files of the provider's own; it exists only once somebody makes it. It is in no backup of the platform."""
    at_end: Callable[[Callable[[], Awaitable[None]]], object] = lambda _: None
    """Is given what is to be called when the platform ends: for what outlives a reconcile."""


def _no_watches(_: Manager) -> Sequence[Watch]:
    return ()


@frozen
class Part:
    resource: Resource
    module: str
    """Beside this one; it has `reconciler(tools)`."""
    watches: Callable[[Manager], Sequence[Watch]] = _no_watches
    workers: int = 4
    deadline: float = 300.0
    """Seconds for one reconcile."""
    resync: float = _RESYNC

    def controller(self, manager: Manager, tools: Tools) -> Controller:
        return Controller(
            f"postgres-{self.resource.kind.lower()}",
            self.resource,
            Deferred(self.module, tools),
            self.watches(manager),
            workers=self.workers,
            deadline=self.deadline,
            resync=self.resync,
            failure_condition="Synced",
        )


class Deferred:
    """A reconciler that is made when it is first needed."""

    def __init__(self, module: str, tools: Tools) -> None:
        self._module = module
        self._tools = tools
        self._made: Reconciler | None = None

    async def reconcile(self, key: Key) -> Result:
        if self._made is None:
            module = await asyncio.to_thread(importlib.import_module, f"{_PACKAGE}.{self._module}")
            make = cast("Callable[[Tools], Reconciler]", module.reconciler)
            # Another worker can have come this far in the meantime; all are to use the same.
            self._made = self._made or make(self._tools)
        return await self._made.reconcile(key)
