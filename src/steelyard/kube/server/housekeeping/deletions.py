"""Deletions that the server decides on itself, where webhooks have a say: by the garbage collector, of a namespace.

Such a deletion is a request like any other, made in the name of the controller that does the same upstream, and only if
the object is still what the decision was made on. One that fails is considered again after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies.options import DeleteOptions
from steelyard.kube.server.call import AUTHENTICATED, Call, User
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core
from steelyard.kube.server.space import keys
from steelyard.kube.server.verbs import deleting
from steelyard.kube.store.errors import StoreError
from steelyard.kube.store.record import Record

_LONGEST: Final = 300.0
_GROUPS: Final = ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED)


class Housekeeping:
    __slots__ = ("_core", "_failures", "_refusals", "_tasks", "_user")

    def __init__(self, core: Core, account: str) -> None:
        self._core = core
        self._user = User(f"system:serviceaccount:kube-system:{account}", _GROUPS)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._refusals: dict[str, str] = {}

    def takes(self, record: Record, wanted: DeleteOptions, again: Callable[[], None]) -> bool:
        """False if no webhook is concerned, so that the caller deletes the object itself.

        True if webhooks are asked: the object goes when they allow it, else `again` is called after a while.
        """
        place = keys.locate(record.key)
        served = self._core.registry.of_collection(place.group, place.plural)
        if served is None or self._core.webhooks.plan(served, "", "DELETE") is None:
            return False
        if objects.is_being_deleted(record.object):
            return False
        if record.key not in self._tasks:
            delete = self._delete(record, served, wanted, again)
            self._tasks[record.key] = asyncio.get_running_loop().create_task(delete)
        return True

    def refusal(self, key: str) -> str:
        """Why the last attempt to delete the object failed; nothing if it did not, or none was made."""
        return self._refusals.get(key, "")

    async def _delete(self, record: Record, served: Served, wanted: DeleteOptions, again: Callable[[], None]) -> None:
        resource, obj = served.resource, record.object
        preconditions = {"uid": objects.uid(obj), "resourceVersion": str(record.revision)}
        body: Object = {"propagationPolicy": wanted.propagation, "preconditions": preconditions}
        call = Call(
            "delete",
            resource.group,
            resource.version,
            resource.plural,
            self._user,
            objects.namespace(obj),
            objects.name(obj),
            body=body,
        )
        try:
            await deleting.delete(self._core, served, call)
            self._forget(record.key)
        except errors.NotFound:
            self._forget(record.key)
        except (errors.ApiError, StoreError) as error:
            is_news = self._refusals.get(record.key) != str(error)
            self._refusals[record.key] = str(error)
            if is_news:
                again()
            failures = self._failures[record.key] = self._failures.get(record.key, 0) + 1
            await asyncio.sleep(min(_LONGEST, 2.0 ** (failures - 1)))
            asyncio.get_running_loop().call_soon(again)
        finally:
            del self._tasks[record.key]

    def _forget(self, key: str) -> None:
        self._failures.pop(key, None)
        self._refusals.pop(key, None)

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
