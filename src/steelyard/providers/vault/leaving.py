"""What is left of Vault on a platform that no longer works with it: finalizers, which nobody else would take off.

Objects that were made while it did can then be deleted. What they stand for stays in Vault as it is: nobody has a login
to it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from steelyard.api.externalsecrets.kinds import EXTERNAL_FINALIZER, EXTERNAL_SECRETS, PUSH_FINALIZER, PUSH_SECRETS
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import finalizers
from steelyard.kube.runtime.controller import Controller, Result
from steelyard.kube.runtime.keys import Key

ENTRY_FINALIZER: Final = "finalizer.managedresource.crossplane.io"
FINALIZERS: Final[Mapping[Resource, str]] = {
    PUSH_SECRETS: PUSH_FINALIZER,
    EXTERNAL_SECRETS: EXTERNAL_FINALIZER,
    VAULT_ENTRIES: ENTRY_FINALIZER,
}


class _Release:
    def __init__(self, client: Client, resource: Resource) -> None:
        self._client = client
        self._resource = resource

    async def reconcile(self, key: Key) -> Result:
        try:
            obj = await self._client.get(self._resource, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        if objects.is_being_deleted(obj):
            await finalizers.remove(self._client, self._resource, obj, FINALIZERS[self._resource])
        return Result()


async def controllers(client: Client) -> list[Controller]:
    """One for each kind of which there is something left to let go."""
    return [
        Controller(f"vault-leaving-{resource.plural}", resource, _Release(client, resource))
        for resource, finalizer in FINALIZERS.items()
        if await _has_any(client, resource, finalizer)
    ]


async def _has_any(client: Client, resource: Resource, finalizer: str) -> bool:
    try:
        found = (await client.list(resource)).items
    except errors.NotFound:
        return False
    return any(finalizers.has(each, finalizer) for each in found)
