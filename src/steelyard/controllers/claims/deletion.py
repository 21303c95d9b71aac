"""Taking a claim's objects away, in order: the connection Secret, then the Cluster, then whatever is left.

The Cluster goes before its parts because deleting it drains and deletes machines in order; a template or a control
plane that vanished under it would leave machines behind. Every step looks at what is there, so it can be repeated at
any time, and says what it waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.compose import names
from steelyard.compose.composed import Requirement
from steelyard.compose.workloadcluster import CONNECTION
from steelyard.controllers.claims import inventory
from steelyard.controllers.claims.inventory import Entry
from steelyard.controllers.claims.lookup import Lookup
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_SHOWN = 3


class Deletion:
    def __init__(self, client: Client, lookup: Lookup, resources: Mapping[tuple[str, str], Resource]) -> None:
        """`resources` are the kinds that a composition can make, by API version and kind."""
        self._client = client
        self._lookup = lookup
        self._resources = resources

    async def advance(self, claim: Object, entries: Sequence[Entry]) -> str:
        """Goes as far as possible now. Returns what is waited for, or an empty string when everything is gone."""
        for stage in _stages(entries):
            left = [entry for entry in stage if await self.remove(claim, entry)]
            if left:
                return await self._words(claim, left)
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

    async def _words(self, claim: Object, left: Sequence[Entry]) -> str:
        named = ", ".join(map(str, left[:_SHOWN])) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
        text = f"waiting for the deletion of {named}"
        if not any(entry.kind == clusterapi_resources.CLUSTERS.kind for entry in left):
            return text
        machines = await self._lookup.require(
            Requirement(
                clusterapi_resources.MACHINES,
                objects.namespace(claim),
                label=(names.CLUSTER_NAME, names.cluster(claim)),
            )
        )
        if not machines:
            return text
        more = f" and {len(machines) - _SHOWN} more" if len(machines) > _SHOWN else ""
        return f"{text}; machines left: {', '.join(map(objects.name, machines[:_SHOWN]))}{more}"


def _stages(entries: Sequence[Entry]) -> list[list[Entry]]:
    connection = [entry for entry in entries if entry.resource_name == CONNECTION]
    cluster = [entry for entry in entries if entry.kind == clusterapi_resources.CLUSTERS.kind]
    rest = [entry for entry in entries if entry not in connection and entry not in cluster]
    return [connection, cluster, rest]
