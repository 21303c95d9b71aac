"""ClusterSecretStore and SecretStore: whether Vault answers at the address, and lets the login in.

The store is the one that asks an absent Vault again, sooner than everybody else; when it finds it back, whatever uses
the store is looked at. It also keeps the login alive on a platform that has nothing else to ask.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.vault import telling
from steelyard.providers.vault.stores import Stores, Unusable
from steelyard.providers.vault.telling import Said
from steelyard.vault.client import Vault
from steelyard.vault.errors import VaultError

VALID: Final = "Valid"
INVALID: Final = "InvalidProviderConfig"
_EVERY: Final = 300.0
_WHEN_REFUSED: Final = 30.0


class StoreReconciler:
    def __init__(self, client: Client, resource: Resource, stores: Stores, clock: Clock) -> None:
        self._client = client
        self._resource = resource
        self._stores = stores
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        try:
            store = await self._client.get(self._resource, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        if objects.is_being_deleted(store) or telling.is_paused(store):
            return Result()
        try:
            vault = (await self._stores.connect({"kind": self._resource.kind, **store})).vault
        except Unusable as error:
            return await self._invalid(store, error, _WHEN_REFUSED)
        try:
            await vault.check()
        except (VaultError, Unusable) as error:
            is_passing = isinstance(error, VaultError) and error.is_passing
            return await self._invalid(store, error, vault.patience if is_passing else _WHEN_REFUSED)
        said = Said("Ready", True, VALID, "store validated")
        await telling.report(self._client, self._resource, store, [said], self._clock, {"capabilities": "ReadWrite"})
        return Result(requeue_after=_next_look(vault))

    async def _invalid(self, store: Object, error: Exception, after: float) -> Result:
        said = Said("Ready", False, INVALID, str(error))
        await telling.report(self._client, self._resource, store, [said], self._clock)
        return Result(requeue_after=after)


def _next_look(vault: Vault) -> float:
    due = vault.renews_in
    return _EVERY if due is None else max(min(due, _EVERY), telling.SHORTEST)


def has_turned(old: Object | None, new: Object | None) -> bool:
    """Whether what uses the store should be looked at: it came, changed, or works again."""
    if new is None:
        return False
    if old is None or objects.generation(old) != objects.generation(new):
        return True
    return conditions.is_true(new, "Ready") and not conditions.is_true(old, "Ready")
