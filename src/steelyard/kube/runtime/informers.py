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
        self._informers: dict[Resource, dict[str, Informer]] = {}
        """By resource and label."""
        self._group: asyncio.TaskGroup | None = None
        self.on_recovery: Callable[[], None] | None = None
        """Called when a resource that could not be read can be read again."""

    def of(self, resource: Resource, *, label: str = "", optional: bool = False) -> Informer:
        """The informer of the resource, made on first use; started at once when `run` is under way. With a `label` one
        that knows no others than those with it will do. It is optional for as long as nobody needs it."""
        known = self._informers.setdefault(resource, {})
        informer = known.get("", known.get(label))
        if informer is None and not label and self._group is None:
            informer = self._widened(known)
        if informer is not None:
            informer.is_optional = informer.is_optional and optional
            return informer
        informer = Informer(self._client, resource, namespace=self._namespace, label=label, clock=self._clock)
        informer.is_optional = optional
        informer.on_trouble(functools.partial(self._tell, informer))
        known[label] = informer
        if self._group:
            self._start(self._group, informer)
        return informer

    @staticmethod
    def _widened(known: dict[str, Informer]) -> Informer | None:
        """One of a label that has not begun yet, made to know all."""
        label = next(iter(known), None)
        if label is None:
            return None
        informer = known[""] = known.pop(label)
        informer.label = ""
        return informer

    def find(self, resource: Resource) -> Informer | None:
        """The resource's informer if it exists and has the whole state."""
        known = self._informers.get(resource)
        informer = known.get("") if known is not None else None
        return informer if informer is not None and informer.synced.is_set() else None

    def about(self, resource: Resource) -> list[Informer]:
        """All of the resource that are synced, those of a label included."""
        return [each for each in self._informers.get(resource, {}).values() if each.synced.is_set()]

    @property
    def all(self) -> list[Informer]:
        return [each for known in self._informers.values() for each in known.values()]

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
