"""Events that the server writes about objects it looks after, in the name of the controller that does so upstream.

An event is told once and never waited for; one that cannot be written, say because its namespace is going, is dropped.
"""

from __future__ import annotations

import asyncio
import time

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS
from steelyard.kube.server.call import SYSTEM_MASTERS, Call, User
from steelyard.kube.server.catalogue.registry import builtin
from steelyard.kube.server.core import Core
from steelyard.kube.server.housekeeping import upkeep
from steelyard.kube.server.verbs import writing
from steelyard.kube.store.errors import StoreError

_USER = User("system:kube-controller-manager", (SYSTEM_MASTERS,))


class Reports:
    __slots__ = ("_component", "_core", "_tasks")

    def __init__(self, core: Core, component: str) -> None:
        self._core = core
        self._component = component
        self._tasks: set[asyncio.Task[None]] = set()

    def warn(self, about: Object, reason: str, message: str) -> None:
        task = asyncio.get_running_loop().create_task(self._write(self._event(about, reason, message)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _event(self, about: Object, reason: str, message: str) -> Object:
        now = self._core.timestamp()
        involved = {
            "kind": str(about.get("kind")),
            "namespace": objects.namespace(about),
            "name": objects.name(about),
            "uid": objects.uid(about),
            "apiVersion": str(about.get("apiVersion")),
        }
        name = f"{objects.name(about)}.{time.time_ns():x}"
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": objects.namespace(about) or "default"},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning",
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }

    async def _write(self, event: Object) -> None:
        served = builtin()[EVENTS.group, EVENTS.version, EVENTS.plural]
        options = {"fieldManager": upkeep.MANAGER}
        namespace = objects.namespace(event)
        call = Call("create", "", "v1", EVENTS.plural, _USER, namespace, options=options, body=event)
        try:
            await writing.create(self._core, served, call)
        except (errors.ApiError, StoreError):
            return

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
