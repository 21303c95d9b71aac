"""The objects of one resource as a watch and our own writes tell of them, with indexes.

Two sources meet here: the watch, which is ordered but late, and the answers to this process's own writes, which are
early but arrive in any order. The newer resourceVersion wins, whichever source it comes from, so a reader that has
written reads its own write, and an older event never brings back an older state: what a name shows never goes back in
time, not even across objects that had the name one after the other. Resource versions are compared as numbers, as both
Steelyard's server and etcd make them: one counter for all objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from steelyard.kube import objects
from steelyard.kube.objects import Object, Uid
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.keys import Key

Handler: TypeAlias = Callable[[Object | None, Object | None], None]
IndexFunction: TypeAlias = Callable[[Object], Iterable[str]]

_log = logs.get(__name__)


def version_of(obj: Object) -> int:
    text = objects.metadata(obj).get("resourceVersion")
    return int(text) if text else 0


class _Index:
    __slots__ = ("buckets", "function")

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self.buckets: dict[str, dict[Key, Object]] = {}

    def replace(self, key: Key, old: Object | None, new: Object | None) -> None:
        before = set(self.function(old)) if old is not None else set[str]()
        after = set(self.function(new)) if new is not None else set[str]()
        for value in before - after:
            bucket = self.buckets.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del self.buckets[value]
        if new is not None:
            for value in after:
                self.buckets.setdefault(value, {})[key] = new


class _Gone(NamedTuple):
    """Who had a name last, and the newest version seen of it, until the watch has come to its deletion."""

    uid: Uid
    version: int

    def covers(self, obj: Object) -> bool:
        """Whether this is history: the object itself, or one that had the name before."""
        return objects.uid(obj) == self.uid or version_of(obj) <= self.version


class Cache:
    def __init__(self, kept: Callable[[Object], Object] | None = None) -> None:
        """`kept` is what is kept of an object: all of it where nothing is said."""
        self._kept = kept
        self._objects: dict[Key, Object] = {}
        self._namespaces = _Index(lambda obj: (objects.namespace(obj),))
        self._indexes: dict[str, _Index] = {}
        self._handlers: list[Handler] = []
        self._gone: dict[Key, _Gone] = {}
        self.revision = 0
        """How far the watch has come: everything up to this resourceVersion has been seen."""

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def remembered(self) -> int:
        """How many deletions are known whose events have not arrived."""
        return len(self._gone)

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def list(self, namespace: str = "") -> list[Object]:
        if namespace:
            return list(self._namespaces.buckets.get(namespace, {}).values())
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[Object]:
        return list(self._indexes[index].buckets.get(value, {}).values())

    def has_index(self, name: str) -> bool:
        return name in self._indexes

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Adding an index again under its name replaces it. The function must look at nothing but the object."""
        index = _Index(function)
        for key, obj in self._objects.items():
            index.replace(key, None, obj)
        self._indexes[name] = index

    def on_change(self, handler: Handler) -> None:
        """Calls `handler(old, new)` for every change; at once with (None, object) for what is here already."""
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            _call(handler, None, obj)

    def observe(self, obj: Object) -> None:
        """The answer to an own write. Ignored when the watch has already gone past it."""
        was_deleted_since = Key.of(obj) not in self._objects and version_of(obj) <= self.revision
        if not was_deleted_since:
            self._take(obj)

    def observe_deleted(self, key: Key, uid: str = "") -> None:
        """The server said the object is gone: events of it still on their way must not bring it back."""
        current = self._objects.get(key)
        if current is None or (uid and objects.uid(current) != uid):
            return
        self._set(key, current, None)
        self._gone[key] = _Gone(objects.uid(current), version_of(current))

    def apply_event(self, kind: str, obj: Object) -> None:
        """One event of the watch, in the watch's order."""
        version = version_of(obj)
        self.revision = max(self.revision, version)
        if kind == "BOOKMARK":
            return
        if kind != "DELETED":
            self._take(obj)
            return
        key = Key.of(obj)
        current, gone = self._objects.get(key), self._gone.get(key)
        if current is not None and (objects.uid(current) == objects.uid(obj) or version > version_of(current)):
            self._set(key, current, None)
        if gone is not None and (gone.uid == objects.uid(obj) or version > gone.version):
            del self._gone[key]

    def replace(self, listed: Iterable[Object], revision: int) -> None:
        """A fresh list: tells handlers the differences alone, and drops what is missing unless it was written later."""
        found: dict[Key, Object] = {Key.of(obj): obj for obj in listed}
        for key, gone in list(self._gone.items()):
            if key not in found and gone.version <= revision:
                del self._gone[key]
        for key, current in list(self._objects.items()):
            if key not in found and version_of(current) <= revision:
                self._set(key, current, None)
        for obj in found.values():
            self._take(obj)
        self.revision = max(self.revision, revision)

    def _take(self, obj: Object) -> None:
        """Shows the object, if that is news."""
        key = Key.of(obj)
        current, gone = self._objects.get(key), self._gone.get(key)
        if (current is not None and version_of(obj) <= version_of(current)) or (gone is not None and gone.covers(obj)):
            return
        self._gone.pop(key, None)
        self._set(key, current, obj if self._kept is None else self._kept(obj))

    def _set(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = new
        self._namespaces.replace(key, old, new)
        for index in self._indexes.values():
            index.replace(key, old, new)
        for handler in self._handlers:
            _call(handler, old, new)


def _call(handler: Handler, old: Object | None, new: Object | None) -> None:
    try:
        handler(old, new)
    except Exception:
        # One handler that fails must not keep a change from the others, nor end the watch that feeds them.
        _log.exception("change handler failed", object=objects.qualified_name(new or old or {}))
