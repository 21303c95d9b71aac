"""Taking a claim's objects away, stage by stage as its inventory says.

Every step looks at what is there, so it can be repeated at any time, and says what it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steelyard.controllers.claims.lookup import Lookup
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.plan import inventory
from steelyard.plan.inventory import Entry

_SHOWN = 3


class Deletion:
    def __init__(self, client: Client, lookup: Lookup, resources: Mapping[tuple[str, str], Resource]) -> None:
        """`resources` are the kinds that a composition can make, by API version and kind."""
        self._client = client
        self._lookup = lookup
        self._resources = resources

    async def advance(self, claim: Object, entries: Sequence[Entry], *, left: str) -> str:
        """Goes as far as possible now. Returns what is waited for, or an empty string when everything is gone.

        `left` says what else is there, that the objects of the inventory take along.
        """
        for stage in inventory.stages(entries):
            waiting = [entry for entry in stage if await self.remove(claim, entry)]
            if waiting:
                return _words(waiting) + (f"; {left}" if left else "")
        return ""

    async def remove(self, claim: Object, entry: Entry) -> bool:
        """Deletes one object, unless it is somebody else's; True while it still exists."""
        resource = self._resources.get((entry.api_version, entry.kind))
        if resource is None:
            raise errors.InternalError(
                f"the claim's inventory names {entry}, a kind that this version of Steelyard does not know; delete the "
                f"object by hand and take it out of status.inventory, or run the version that made it"
            )
        obj = await self._lookup.find(resource, entry.namespace, entry.name)
        if obj is None or not inventory.is_entry_of(entry, obj, claim):
            return False
        if not objects.is_being_deleted(obj):
            try:
                await self._client.delete(
                    resource, entry.name, entry.namespace, propagation="Background", uid=objects.uid(obj)
                )
            except errors.NotFound:
                return False
        return await self._lookup.find(resource, entry.namespace, entry.name) is not None


def _words(waiting: Sequence[Entry]) -> str:
    more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
    return f"waiting for the deletion of {', '.join(map(str, waiting[:_SHOWN]))}{more}"
