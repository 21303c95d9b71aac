"""The kinds of ours as parts of the provider: who reconciles them, and what wakes them.

What is composed together arrives together: an object whose database is asked for, and is not there yet, waits for it
without a word and is called when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from steelyard.api.crossplane import DATABASES
from steelyard.api.resources import DATABASE_BACKUPS as BACKUPS
from steelyard.api.resources import DATABASE_COPIES as COPIES
from steelyard.api.resources import DATABASE_USAGES as USAGES
from steelyard.api.resources import TEMPORARY_LOGINS as LOGINS
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import conditions, mapping, triggers
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.controller import Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.providers.postgres import indexes, records
from steelyard.providers.postgres.parts import Part

_DATABASE: Final = "postgres-database"
"""`<ProviderConfig>/<database>` of an object of ours."""


def is_on_its_way(client: CachedClient, obj: Object) -> bool:
    """Whether the object's database is asked for and is not there yet."""
    informer = client.informers.find(DATABASES)
    known = informer.by_index(indexes.NAMES, _place(obj)) if informer is not None else []
    return bool(known) and not any(conditions.is_true(each, "Ready") for each in known)


def _place(obj: Object) -> str:
    return indexes.named(indexes.config(obj), str(objects.at(obj, "spec", "database") or ""))


def _becomes_ready(old: Object | None, new: Object | None) -> bool:
    return (new is not None and conditions.is_true(new, "Ready")) != (
        old is not None and conditions.is_true(old, "Ready")
    )


def _after_database(resource: Resource, *more: Watch) -> Callable[[Manager], Sequence[Watch]]:
    def watches(manager: Manager) -> Sequence[Watch]:
        informer = manager.informers.of(resource)
        informer.add_index(_DATABASE, lambda obj: [_place(obj)])

        def keys(database: Object) -> list[Key]:
            place = indexes.named(indexes.config(database), records.external_name(database))
            return [Key.of(each) for each in informer.by_index(_DATABASE, place)]

        return [Watch(DATABASES, keys, matters=_becomes_ready), *more]

    return watches


_SECRET_OF_LOGIN: Final = Watch(
    SECRETS, mapping.to_owner(LOGINS, controller_only=True), matters=triggers.changed(("data",), triggers.OWNERS)
)

PARTS: Final = (
    Part(LOGINS, "logins.reconcile", _after_database(LOGINS, _SECRET_OF_LOGIN)),
    Part(USAGES, "usage.reconcile", _after_database(USAGES)),
    Part(BACKUPS, "backups.reconcile"),
    Part(COPIES, "copies.reconcile", _after_database(COPIES)),
)
