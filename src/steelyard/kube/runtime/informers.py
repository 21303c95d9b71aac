"""The informers of a process, shared by its controllers: one for a resource, and one for its objects with a label where
somebody needs no others.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from steelyard.kube.client.interface import Client
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.informer import Informer


class Informers:
    def __init__(self, client: Client, *, namespace: str = "", clock: clocks.Clock = clocks.SYSTEM) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._informers: dict[tuple[Resource, str], Informer] = {}
        self._group: asyncio.TaskGroup | None = None
        self.on_recovery: Callable[[], None] | None = None
        """Called when a resource that could not be read can be read again."""

    def of(self, resource: Resource, *, label: str = "", optional: bool = False) -> Informer:
        """The informer of the resource, made on first use; started at once when `run` is under way. With a `label` one
        that knows no others than those with it will do. It is optional for as long as nobody needs it."""
        informer = self._informers.get((resource, ""), self._informers.get((resource, label)))
        if informer is None and not label and self._group is None:
            informer = self._widened(resource)
        if informer is not None:
            informer.is_optional = informer.is_optional and optional
            return informer
        informer = Informer(self._client, resource, namespace=self._namespace, label=label, clock=self._clock)
        informer.is_optional = optional
        informer.on_trouble(functools.partial(self._tell, informer))
        self._informers[resource, label] = informer
        if self._group:
            self._start(self._group, informer)
        return informer

    def _widened(self, resource: Resource) -> Informer | None:
        """One of a label that has not begun yet, made to know all."""
        label = next((label for of, label in self._informers if of == resource), None)
        if label is None:
            return None
        informer = self._informers[resource, ""] = self._informers.pop((resource, label))
        informer.label = ""
        return informer

    def find(self, resource: Resource) -> Informer | None:
        """The resource's informer if it exists and has the whole state."""
        informer = self._informers.get((resource, ""))
        return informer if informer is not None and informer.synced.is_set() else None

    def about(self, resource: Resource) -> list[Informer]:
        """All of the resource that are synced, those of a label included."""
        return [each for (of, _), each in self._informers.items() if of == resource and each.synced.is_set()]

    @property
    def all(self) -> list[Informer]:
        return list(self._informers.values())

    async def run(self) -> None:
        """Keeps all informers up to date until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for informer in self.all:
                    self._start(group, informer)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None

    async def wait_synced(self) -> None:
        for informer in self.all:
            await informer.synced.wait()

    def _tell(self, informer: Informer) -> None:
        if not informer.problem and self.on_recovery is not None:
            self.on_recovery()

    @staticmethod
    def _start(group: asyncio.TaskGroup, informer: Informer) -> None:
        group.create_task(informer.run(), name=f"informer-{informer.resource.group_resource}")
