"""What all verbs of one server share: its part of the store, its resources, its clock.

Objects are stored as JSON that begins with apiVersion, kind and metadata, in the resource's storage version. Reading
another version of the same resource exchanges that beginning, so that the stored bytes can be sent as they are.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Protocol

import orjson

from steelyard.kube import ages, errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from steelyard.kube.schema import prune
from steelyard.kube.server.call import Call
from steelyard.kube.server.catalogue import fitting
from steelyard.kube.server.catalogue.configurations import Configurations
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.definitions.counterparts import Counterpart
from steelyard.kube.server.rights.authz import Attributes, Authorizer, Decision
from steelyard.kube.server.space import keys
from steelyard.kube.server.space.quota import Quota
from steelyard.kube.server.webhooks import conversion
from steelyard.kube.server.webhooks import reach as reaches
from steelyard.kube.server.webhooks.calling import Caller
from steelyard.kube.server.webhooks.reach import Reach
from steelyard.kube.store.errors import Corrupt, Mismatch, StoreError, StoreFailed
from steelyard.kube.store.record import Record
from steelyard.kube.store.store import Store

DEFAULT_SERVICE_RANGE = ipaddress.IPv4Network("10.96.0.0/12")
Guard = Callable[[Served, Call, Object, Object | None], None]
Stamp = Callable[[Object, Object | None, str, tuple[str, ...]], None]
"""Changes in place an object that is about to be written; gets the old one, the caller and the caller's groups."""


def _no_guard(served: Served, call: Call, obj: Object, old: Object | None) -> None:
    del served, call, obj, old


class Closable(Protocol):
    @property
    def kind(self) -> str: ...

    def close(self) -> None: ...


class _Refusal:
    """Stands for the authorizer of a server that has none yet."""

    def decide(self, asked: Attributes) -> Decision:
        del asked
        return Decision(False)


class Core:
    __slots__ = (
        "_namespaces", "authorizer", "caller", "guard", "now", "quota", "registry", "service_range", "space", "stamps",
        "store", "streams", "webhooks",
    )  # fmt: skip

    def __init__(
        self, store: Store, space: str, registry: Registry, now: Callable[[], datetime], reach: Reach = reaches.ANYWHERE
    ) -> None:
        self.store = store
        self.space = space
        self.registry = registry
        self.now = now
        self.service_range = DEFAULT_SERVICE_RANGE
        """The addresses that services get."""
        self.streams: set[Closable] = set()
        """The open watches, which end with the server."""
        self.guard: Guard = _no_guard
        """What a write needs beyond its own verb; it raises Forbidden."""
        self.stamps: Mapping[tuple[str, str], Stamp] = {}
        """By group and plural of custom resources: what only the server may say in them about who writes."""
        self.authorizer: Authorizer = _Refusal()
        """Who may do what, for those who are asked about it."""
        self.webhooks = Configurations(store, space, registry)
        self.caller = Caller(store, space, reach)
        self.quota: Quota | None = None
        self._namespaces = keys.collection(space, "", NAMESPACES.plural)

    def timestamp(self) -> str:
        return ages.current() if self.now is ages.utcnow else ages.timestamp(self.now())

    def key(self, resource: Resource, namespace: str, name: str) -> str:
        return keys.key(self.space, resource, namespace, name)

    def prefix(self, resource: Resource, namespace: str = "") -> str:
        return keys.collection(self.space, resource.group, resource.plural, namespace if resource.namespaced else "")

    def namespace(self, name: str) -> Object | None:
        """The namespace's newest state, durable or not."""
        record = self.store.head(self._namespaces + name)
        return record.object if record is not None else None

    def head(self, resource: Resource, namespace: str, name: str) -> Record:
        """The newest state, durable or not; raises NotFound."""
        record = self.store.head(keys.key(self.space, resource, namespace, name))
        if record is None:
            raise errors.not_found(resource.group_resource, name)
        return record

    def current(self, record: Record) -> Record:
        """The stored record as it is read now: what a write that changes only a part of the object must start from."""
        if not self.registry.has_custom:
            return record
        place = keys.locate(record.key)
        served = self.registry.of_collection(place.group, place.plural)
        return fitting.fitted(self.registry, served, record) if served is not None else record

    def put(self, key: str, obj: Object, *, expect: int, charged: bool = False) -> asyncio.Future[Record]:
        """Writes the object, which the store then owns: its resourceVersion is set here, and nothing may change it.

        What is `charged` to whoever uses the server may not take more space than the server has.
        """
        metadata: Object = obj["metadata"]

        def encode(revision: int) -> bytes:
            metadata["resourceVersion"] = str(revision)
            encoded = _compact(orjson.dumps(obj))
            if charged and self.quota is not None:
                self.quota.check(key, obj, len(encoded))
            return encoded

        return self.store.put(key, encode, expect=expect, obj=obj)

    def drop(self, record: Record, *, expect: int) -> asyncio.Future[Record]:
        """Removes the object; its last state, as the watchers of its deletion see it, is that of the record."""

        def encode(revision: int) -> bytes:
            # Not parsed ahead: whoever deletes many would have all of them in memory until they are written.
            obj = record.read()
            final = {**obj, "metadata": {**objects.metadata(obj), "resourceVersion": str(revision)}}
            return _compact(orjson.dumps(final))

        return self.store.delete(record.key, expect=expect, encode=encode)

    def check_newest(self, record: Record) -> None:
        """Raises Mismatch if the object has changed since."""
        head = self.store.head(record.key)
        revision = head.revision if head is not None else 0
        if revision != record.revision:
            raise Mismatch(record.key, record.revision, revision)

    async def settle(self, record: Record) -> None:
        """Waits until a state that was read with `head` is durable: an answer may not tell of it before."""
        if self.store.get(record.key) is not record:
            await self.store.settled(record.key)


def _compact(encoded: bytes) -> bytes:
    """A copy that takes the memory it needs: the encoder's own result keeps the 4 KB that it started with."""
    return bytes(memoryview(encoded))


def ordered(obj: Object, api_version: str, kind: str, metadata: Object) -> Object:
    """The object in the order in which objects are stored."""
    out: Object = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    for field, value in obj.items():
        if field not in out:
            out[field] = value
    return out


def stored_order(obj: Object, served: Served) -> Object:
    return ordered(obj, served.storage_version, served.resource.kind, obj["metadata"])


def view(record: Record, served: Served) -> Object:
    """The record's object in the served version; shared, read-only."""
    obj = record.object
    if obj.get("apiVersion") == served.resource.api_version:
        return obj
    return {**obj, "apiVersion": served.resource.api_version}


def glimpse(record: Record, served: Served) -> Object:
    """The same for one object of many: a large one is not kept parsed."""
    obj = record.read()
    if obj.get("apiVersion") == served.resource.api_version:
        return obj
    return {**obj, "apiVersion": served.resource.api_version}


async def shown(core: Core, served: Served, record: Record) -> Record:
    """The record as it is read: as its definition is now, in the served version where a webhook converts it; `view` and
    `raw` do the rest. May take a while.
    """
    if served.custom is not None:
        record = fitting.fitted(core.registry, served, record)
    return (await _converted(core, served, [record]))[0] if served.conversion is not None else record


async def shown_all(core: Core, served: Served, records: list[Record]) -> list[Record]:
    if served.custom is not None:
        records = await fitting.fitted_all(core.registry, served, records)
    return await _converted(core, served, records)


async def _converted(core: Core, served: Served, records: list[Record]) -> list[Record]:
    if served.conversion is None:
        return records
    if isinstance(served.conversion, Counterpart):
        return [served.conversion.shown(record) for record in records]
    return await conversion.records(core.caller, served.conversion, records, served.resource.api_version)


async def stored(core: Core, served: Served, obj: Object) -> Object:
    """The object as it is stored: in the storage version. May take a while where a webhook converts."""
    if obj["apiVersion"] == served.storage_version:
        return obj
    if served.conversion is None:
        return _renamed(core, served, obj)
    if isinstance(served.conversion, Counterpart):
        return served.conversion.stored(obj)
    return (await conversion.convert(core.caller, served.conversion, [obj], served.storage_version))[0]


def _renamed(core: Core, served: Served, obj: Object) -> Object:
    """The object in the storage version, where versions differ by name: what that version does not know is lost.

    Upstream cannot tell managers who wrote in that version about fields it does not know, and forgets all of them.
    """
    state = objects.copy({**obj, "apiVersion": served.storage_version})
    group, _, version = served.storage_version.partition("/")
    storage = core.registry.find(group, version, served.resource.plural)
    if storage is None or not prune.prune(storage.schema, state):
        return state
    managers = objects.sequence(objects.metadata(state).get("managedFields"))
    if any(each.get("apiVersion") == served.storage_version for each in managers):
        del state["metadata"]["managedFields"]
    return state


def raw(value: bytes, served: Served) -> bytes:
    """The stored JSON in the served version."""
    if value.startswith(served.opening):
        return value
    return served.opening + value[value.index(b",") + 1 :]


async def durable(write: Awaitable[Record]) -> Record:
    """Waits for a write, in the terms of the API where it fails."""
    try:
        return await write
    except StoreError as error:
        raise unavailable(error) from error


def unavailable(error: StoreError) -> errors.ApiError:
    """A full disk is a matter of time; nothing else about a disk is, and trying again would only hide it."""
    if isinstance(error, Corrupt) or (isinstance(error, StoreFailed) and not error.retryable):
        return errors.InternalError(f"Internal error occurred: {error}")
    return errors.ServiceUnavailable(str(error), retry_after=1)
