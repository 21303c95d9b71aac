"""Garbage collection by owner references, with upstream's rules.

An object whose owners are all gone is deleted. An owner deleted in the foreground stays until the dependents that
block it are gone; one deleted with orphaning lets go of its dependents first. The graph is an index in memory, built
from the store at start and kept by its changes, so a crash at any point loses nothing. Deciding and writing happen in
one step on the newest state, so that no decision is out of date when it is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from steelyard.kube import objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS
from steelyard.kube.server.bodies.options import DeleteOptions
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core
from steelyard.kube.server.housekeeping import upkeep
from steelyard.kube.server.housekeeping.deletions import Housekeeping
from steelyard.kube.server.housekeeping.reporting import Reports
from steelyard.kube.server.space import keys
from steelyard.kube.server.space.background import Work
from steelyard.kube.server.verbs import deleting
from steelyard.kube.server.verbs.deleting import FOREGROUND, ORPHAN
from steelyard.kube.store.record import Change, Record

_AT_ONCE = 100
"""Dependents that are let go, or objects that are looked at, in one step."""
_UID = re.compile(rb'"uid":"([^"\\]{1,128})"')
_OWNED = b'"ownerReferences":['
_DELETED = b'"deletionTimestamp":"'
_BACKGROUND = DeleteOptions(propagation="Background")
_FOREGROUND = DeleteOptions(propagation="Foreground")
_AS_MARKED = DeleteOptions()

OwnerState: TypeAlias = Literal["stands", "waits", "gone", "unknown"]
"""`waits`: it is being deleted, and goes when its dependents have gone. `unknown`: the server cannot tell, and so must
not delete."""


@dataclass(slots=True)
class _Search:
    """For owners by their UIDs; with each, the dependents and their references."""

    wanted: dict[str, list[tuple[Object, Object]]] = field(default_factory=dict[str, list[tuple[Object, Object]]])
    current: dict[str, list[tuple[Object, Object]]] = field(default_factory=dict[str, list[tuple[Object, Object]]])
    after: str = ""
    """How far the search for the current ones has come."""


class _OwnerStates:
    """How the owners of one object are. Each is looked at once, however many references lead to it."""

    def __init__(self, core: Core, namespace: str, kind: Callable[[Object], Served | None]) -> None:
        self._core = core
        self._namespace = namespace
        self._kind = kind
        self._kinds: dict[tuple[Any, Any], Served | None] = {}
        self._known: dict[str, tuple[str, bool]] = {}
        """UID by key, and whether the owner waits for its dependents."""
        self.has_unserved = False
        """Whether one is of a kind that is not served."""

    def of(self, reference: Object) -> OwnerState:
        kind = (reference.get("apiVersion"), reference.get("kind"))
        if kind not in self._kinds:
            self._kinds[kind] = self._kind(reference)
        served = self._kinds[kind]
        if served is None:
            self.has_unserved = True
            return "unknown"
        if served.resource.namespaced and not self._namespace:
            return "unknown"
        uid, waits = self._at(self._core.key(served.resource, self._namespace, str(reference.get("name") or "")))
        if not uid or uid != reference.get("uid"):
            return "gone"
        return "waits" if waits else "stands"

    def _at(self, key: str) -> tuple[str, bool]:
        if key not in self._known:
            record = self._core.store.head(key)
            owner = record.object if record is not None else None
            self._known[key] = ("", False) if owner is None else (objects.uid(owner), _waits(owner))
        return self._known[key]


class Garbage(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._housekeeping = Housekeeping(core, "generic-garbage-collector")
        self._reports = Reports(core, "garbage-collector-controller")
        self._owners: dict[str, tuple[str, ...]] = {}
        """Key of a dependent to the UIDs of its owners."""
        self._dependents: dict[str, set[str]] = {}
        """UID of an owner, whether it exists or not, to the keys of its dependents."""
        self._waiting: dict[str, str] = {}
        """UID to key of owners that wait for their dependents."""
        self._unresolved: set[str] = set()
        """Keys of dependents with an owner of a kind that is not served: they wait for its definition."""
        self._unseen: set[str] = set()
        """Keys of dependents whose owners have not been looked for yet."""
        self._sought: dict[str, _Search] = {}
        """Collections in which owners are looked for that are not where their dependents are."""
        self._definitions = core.prefix(CUSTOM_RESOURCE_DEFINITIONS)
        self._events = core.prefix(EVENTS)

    def load(self, records: Iterable[Record]) -> None:
        for index in (self._owners, self._dependents, self._waiting, self._unresolved, self._unseen, self._sought):
            index.clear()
        for record in records:
            self._put(record)
        self._unseen.clear()

    def observe(self, change: Change) -> None:
        record, previous = change.record, change.previous
        if record is not None:
            self._put(record)
            return
        self._index(change.key, ())
        self._unresolved.discard(change.key)
        self._unseen.discard(change.key)
        if previous is None:
            return
        uid = objects.uid(previous.object)
        self._waiting.pop(uid, None)
        for dependent in self._dependents.get(uid, ()):
            self.enqueue(dependent)

    def _put(self, record: Record) -> None:
        value = record.value
        if record.key.startswith(self._events):
            # They go by their age alone.
            return
        if _OWNED in value:
            owners = tuple(str(owner.get("uid") or "") for owner in objects.owner_references(record.object))
            if self._index(record.key, owners):
                self._unseen.add(record.key)
                self.enqueue(record.key)
            elif self._waiting:
                # A reference may have ceased to block.
                for uid in owners:
                    if uid in self._waiting:
                        self.enqueue(self._waiting[uid])
        elif record.key in self._owners:
            self._index(record.key, ())
        if _DELETED in value and not _PROPAGATING.isdisjoint(objects.finalizers(record.object)):
            self.enqueue(record.key)
        if self._unresolved and record.key.startswith(self._definitions):
            for key in self._unresolved:
                self.enqueue(key)

    def _index(self, key: str, owners: tuple[str, ...]) -> bool:
        """Whether the owners are others than before."""
        before = self._owners.get(key, ())
        if before == owners:
            return False
        after = frozenset(owners)
        for uid in before:
            if uid not in after:
                dependents = self._dependents.get(uid)
                if dependents is not None:
                    dependents.discard(key)
                    if not dependents:
                        del self._dependents[uid]
                if uid in self._waiting:
                    self.enqueue(self._waiting[uid])
        for uid in owners:
            self._dependents.setdefault(uid, set()).add(key)
        if owners:
            self._owners[key] = owners
        else:
            self._owners.pop(key, None)
        return True

    def process(self, item: str) -> None:
        if item in self._sought:
            self._search(item)
            return
        record = self._core.store.head(item)
        if record is None:
            return
        obj = record.object
        if objects.is_being_deleted(obj):
            finalizers = objects.finalizers(obj)
            if ORPHAN in finalizers:
                self._orphan(record)
            elif FOREGROUND in finalizers:
                self._wait_for_dependents(record)
        elif objects.owner_references(obj):
            self._collect(record)

    def _collect(self, record: Record) -> None:
        """Nothing is done while it is not known of every owner whether it exists."""
        obj = record.object
        references = objects.owner_references(obj)
        states = _OwnerStates(self._core, objects.namespace(obj), self._kind)
        owners = [(reference, states.of(reference)) for reference in references]
        is_new = record.key in self._unseen
        self._unseen.discard(record.key)
        if any(state == "unknown" for _, state in owners):
            if states.has_unserved:
                self._unresolved.add(record.key)
            return
        if is_new:
            self._look_elsewhere(obj, [reference for reference, state in owners if state == "gone"])
        standing = [reference for reference, state in owners if state == "stands"]
        if len(standing) == len(references):
            return
        if standing:
            self._set_owners(record, standing)
            return
        dependents = self._dependents.get(objects.uid(obj), ())
        if dependents and any(state == "waits" for _, state in owners):
            if any(self._is_waiting(key) for key in dependents) and self._unblock(record):
                self.enqueue(record.key)
            else:
                self._delete(record, _FOREGROUND)
            return
        finalizers = objects.finalizers(obj)
        self._delete(record, _BACKGROUND if _PROPAGATING.isdisjoint(finalizers) else _AS_MARKED)

    def _kind(self, reference: Object) -> Served | None:
        group, version = resources.split_api_version(str(reference.get("apiVersion") or ""))
        served = self._core.registry.of_kind(group, str(reference.get("kind") or ""))
        return self._core.registry.find(group, version, served.resource.plural) if served is not None else None

    def _look_elsewhere(self, dependent: Object, references: list[Object]) -> None:
        """An owner in another namespace is none; whoever wrote the reference is told why the object goes.

        The owners are looked for later, and those of many dependents together.
        """
        told = _identity(dependent)
        for reference in references:
            served = self._kind(reference)
            if served is not None and served.resource.namespaced:
                prefix = self._core.prefix(served.resource)
                if prefix not in self._sought:
                    self.enqueue(prefix)
                self._sought.setdefault(prefix, _Search()).wanted.setdefault(
                    str(reference.get("uid") or ""), []
                ).append((told, reference))

    def _search(self, prefix: str) -> None:
        """Goes through some of a collection; what is sought meanwhile is looked for from the beginning again."""
        search = self._sought[prefix]
        records = self._core.store.scan(prefix, after=search.after, limit=_AT_ONCE)
        if not search.after:
            search.current, search.wanted = search.wanted, {}
        for record in records:
            for uid in search.current.keys() & {each.decode() for each in _UID.findall(record.value)}:
                if objects.uid(record.object) == uid:
                    for dependent, reference in search.current.pop(uid):
                        self._report_misplaced(dependent, reference, keys.locate(record.key).namespace)
        search.after = records[-1].key if len(records) == _AT_ONCE and search.current else ""
        if search.after or search.wanted:
            self.enqueue(prefix)
        else:
            del self._sought[prefix]

    def _report_misplaced(self, dependent: Object, reference: Object, elsewhere: str) -> None:
        here = objects.namespace(dependent)
        if elsewhere == here:
            return
        owner = (
            f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {here}, "
            f"name: {reference.get('name')}, uid: {reference.get('uid')}]"
        )
        message = f'ownerRef {owner} does not exist in namespace "{here}"'
        self._reports.warn(dependent, "OwnerRefInvalidNamespace", message)

    def _is_waiting(self, key: str) -> bool:
        record = self._core.store.head(key)
        return record is not None and _waits(record.object)

    def _unblock(self, record: Record) -> bool:
        """Lets the object's owners go before it, which ends a circle of owners that wait for each other.

        False if it blocks none of them.
        """
        references = objects.owner_references(record.object)
        if not any(reference.get("blockOwnerDeletion") for reference in references):
            return False
        is_custom = self._is_custom(record)
        self._set_owners(
            record,
            [
                {**reference, "blockOwnerDeletion": False}
                if is_custom or reference.get("blockOwnerDeletion")
                else reference
                for reference in references
            ],
        )
        return True

    def _is_custom(self, record: Record) -> bool:
        place = keys.locate(record.key)
        served = self._core.registry.of_collection(place.group, place.plural)
        return served is not None and served.custom is not None

    def _wait_for_dependents(self, record: Record) -> None:
        uid = objects.uid(record.object)
        is_new = uid not in self._waiting
        self._waiting[uid] = record.key
        if not any(self._blocking(uid)):
            self._remove_finalizer(record, FOREGROUND)
        elif is_new:
            for dependent in self._dependents.get(uid, ()):
                self.enqueue(dependent)

    def _blocking(self, uid: str) -> Iterable[bool]:
        for key in self._dependents.get(uid, ()):
            record = self._core.store.head(key)
            if record is not None:
                for reference in objects.owner_references(record.object):
                    if reference.get("uid") == uid and reference.get("blockOwnerDeletion"):
                        yield True

    def _orphan(self, record: Record) -> None:
        uid = objects.uid(record.object)
        orphaned = 0
        for key in self._dependents.get(uid, ()):
            dependent = self._core.store.head(key)
            if dependent is not None:
                references = objects.owner_references(dependent.object)
                kept = [reference for reference in references if reference.get("uid") != uid]
                if len(kept) != len(references):
                    self._set_owners(dependent, kept)
                    orphaned += 1
                    if orphaned == _AT_ONCE:
                        self.enqueue(record.key)
                        return
        self._remove_finalizer(record, ORPHAN)

    def _set_owners(self, record: Record, owners: list[Object]) -> None:
        record = self._core.current(record)
        metadata = {**objects.metadata(record.object), "ownerReferences": owners}
        if not owners:
            del metadata["ownerReferences"]
        obj = record.object
        changed: Object = {**obj, "metadata": metadata}
        group, _ = resources.split_api_version(str(obj.get("apiVersion") or ""))
        served = self._core.registry.of_kind(group, str(obj.get("kind") or ""))
        if served is not None:
            changed = upkeep.tracked(self._core, served, obj, changed)
        self.write(self._core.put(record.key, changed, expect=record.revision), record.key)

    def _remove_finalizer(self, record: Record, finalizer: str) -> None:
        self.write(deleting.without_finalizer(self._core, record, finalizer), record.key)

    def close(self) -> None:
        self._housekeeping.close()
        self._reports.close()

    def _delete(self, record: Record, options: DeleteOptions) -> None:
        if self._housekeeping.takes(record, options, lambda: self.retry(record.key)):
            return
        write = deleting.start(self._core, record, options)
        if write is not None:
            self.write(write, record.key)


def _waits(owner: Object) -> bool:
    """Whether the object is being deleted in the foreground."""
    return objects.is_being_deleted(owner) and FOREGROUND in objects.finalizers(owner)


def _identity(obj: Object) -> Object:
    """What an event says of an object, without the rest of it."""
    metadata = {"name": objects.name(obj), "namespace": objects.namespace(obj), "uid": objects.uid(obj)}
    return {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}


_PROPAGATING = frozenset({FOREGROUND, ORPHAN})
