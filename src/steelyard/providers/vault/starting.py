"""The controllers for External Secrets' kinds and VaultEntry, what wakes them, and what `status` tells of Vault."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, EXTERNAL_SECRETS, PUSH_SECRETS, SECRET_STORES
from steelyard.api.resources import VAULT_ENTRIES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.providers.toolkit.provider import Ground, Service, Started
from steelyard.providers.vault import entries, loginfile, pulling, pushing, validating
from steelyard.providers.vault.entries import VaultEntryReconciler
from steelyard.providers.vault.pulling import ExternalSecretReconciler
from steelyard.providers.vault.pushing import PushSecretReconciler
from steelyard.providers.vault.stores import Stores
from steelyard.providers.vault.validating import StoreReconciler

_STORE: Final = "vault-store"
_SECRET: Final = "vault-secret"  # noqa: S105 (the name of an index)
_STORES: Final = (CLUSTER_SECRET_STORES, SECRET_STORES)


async def start(ground: Ground) -> Started:
    settings = ground.platform.integrations.vault
    stores = Stores(
        ground.manager.client, address=settings.address, folder=ground.folder, timeout=settings.timeout_seconds
    )
    ground.stack.callback(stores.close)
    await loginfile.home(ground.client, settings.credentials_namespace)
    if (path := loginfile.path_of(settings)) is not None:
        await loginfile.take_over(ground.client, settings, path)
        following = asyncio.create_task(loginfile.follow(ground.client, settings, path), name="vault-login")
        ground.stack.push_async_callback(_ended, following)
    made = controllers(ground.manager, stores)
    informer = ground.manager.informers.of(CLUSTER_SECRET_STORES)
    return Started(made, services=lambda: _services(informer, settings.secret_store, settings.address))


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _services(informer: Informer, store: str, address: str) -> Sequence[Service]:
    found = informer.get("", store)
    if found is None or conditions.find(found, "Ready") is None:
        return [Service("vault", "starting", address)]
    if conditions.is_true(found, "Ready"):
        return [Service("vault", "running", address)]
    return [Service("vault", "down", conditions.message_of(found, "Ready"))]


def controllers(manager: Manager, stores: Stores) -> list[Controller]:
    client, clock = manager.client, manager.clock

    def watching(
        resource: Resource,
        uses: Callable[[Object], Iterable[str]],
        secrets: Callable[[Object], Iterable[str]],
    ) -> list[Watch]:
        """Its stores, and the Secrets that it is made of or makes."""
        informer = manager.informers.of(resource)
        informer.add_index(_STORE, uses)
        informer.add_index(_SECRET, secrets)
        return [
            *(Watch(each, _users(informer, each), matters=validating.has_turned) for each in _STORES),
            Watch(SECRETS, lambda secret: _found(informer, _SECRET, objects.qualified_name(secret)), matters=_differs),
        ]

    return [
        *(
            Controller(
                f"vault-{each.plural}",
                each,
                StoreReconciler(client, each, stores, clock),
                [Watch(SECRETS, _logins(manager.informers.of(each)), matters=_differs)],
                workers=2,
            )
            for each in _STORES
        ),
        Controller(
            "vault-push",
            PUSH_SECRETS,
            PushSecretReconciler(client, stores, clock),
            watching(PUSH_SECRETS, pushing.stores_of, pushing.secret_of),
            workers=4,
        ),
        Controller(
            "vault-pull",
            EXTERNAL_SECRETS,
            ExternalSecretReconciler(client, stores, clock),
            watching(EXTERNAL_SECRETS, pulling.stores_of, pulling.target_of),
            workers=4,
        ),
        Controller(
            "vault-entry",
            VAULT_ENTRIES,
            VaultEntryReconciler(client, stores, clock),
            [
                *watching(VAULT_ENTRIES, entries.stores_of, entries.secrets_of),
                Watch(VAULT_ENTRIES, _of_engine(manager.informers.of(VAULT_ENTRIES)), matters=validating.has_turned),
            ],
            workers=4,
            failure_condition="Synced",
        ),
    ]


def _users(informer: Informer, stores: Resource) -> Callable[[Object], list[Key]]:
    def keys(store: Object) -> list[Key]:
        return _found(informer, _STORE, f"{stores.kind}/{objects.namespace(store)}/{objects.name(store)}")

    return keys


def _of_engine(informer: Informer) -> Callable[[Object], list[Key]]:
    """What waits for an engine that is enabled now."""

    def keys(entry: Object) -> list[Key]:
        engine = entries.engine_of(str(objects.at(entry, "spec", "path") or ""))
        if not engine or not conditions.is_true(entry, "Ready"):
            return []
        return [
            Key.of(each)
            for each in informer.list("")
            if str(objects.at(each, "spec", "path") or "").startswith(f"{engine}/")
            and not conditions.is_true(each, "Ready")
        ]

    return keys


def _found(informer: Informer, index: str, value: str) -> list[Key]:
    return [Key.of(each) for each in informer.by_index(index, value)]


def _logins(informer: Informer) -> Callable[[Object], list[Key]]:
    """The stores that log in with a Secret."""

    def keys(secret: Object) -> list[Key]:
        place, name = objects.namespace(secret), objects.name(secret)
        return [Key.of(store) for store in informer.list("") if (place, name) in _secrets_of(store)]

    return keys


def _secrets_of(store: Object) -> set[tuple[str, str]]:
    auth = objects.mapping(objects.at(store, "spec", "provider", "vault", "auth"))
    references = [
        objects.mapping(each)
        for each in (
            auth.get("tokenSecretRef"),
            objects.at(auth, "appRole", "secretRef"),
            objects.at(auth, "appRole", "roleRef"),
            objects.at(auth, "kubernetes", "secretRef"),
        )
    ]
    home = objects.namespace(store)
    return {(str(each.get("namespace") or home), str(each["name"])) for each in references if each.get("name")}


def _differs(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None or old.get("data") != new.get("data")
