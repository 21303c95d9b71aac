"""The objects of one resource as a watch and our own writes tell of them, with indexes.

Two sources meet here: the watch, which is ordered but late, and the answers to this process's own writes, which are
early but arrive in any order. The newer resourceVersion wins, whichever source it comes from, so a reader that has
written reads its own write, and an older event never brings back an older state. Resource versions are compared as
numbers, as both Steelyard's server and etcd make them: one counter for all objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

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


class Cache:
    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self._namespaces = _Index(lambda obj: (objects.namespace(obj),))
        self._indexes: dict[str, _Index] = {}
        self._handlers: list[Handler] = []
        self._gone: set[Uid] = set()
        self.revision = 0
        """How far the watch has come: everything up to this resourceVersion has been seen."""

    def __len__(self) -> int:
        return len(self._objects)

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
        key = Key.of(obj)
        version = version_of(obj)
        current = self._objects.get(key)
        if current is None:
            was_deleted_since = version <= self.revision
            if was_deleted_since or objects.uid(obj) in self._gone:
                return
        elif version <= version_of(current):
            return
        self._set(key, current, obj)

    def observe_deleted(self, key: Key, uid: str = "") -> None:
        """The server said the object is gone: events of it still on their way must not bring it back."""
        current = self._objects.get(key)
        if current is None or (uid and objects.uid(current) != uid):
            return
        self._gone.add(objects.uid(current))
        self._set(key, current, None)

    def apply_event(self, kind: str, obj: Object) -> None:
        """One event of the watch, in the watch's order."""
        version = version_of(obj)
        self.revision = max(self.revision, version)
        if kind == "BOOKMARK":
            return
        key = Key.of(obj)
        current = self._objects.get(key)
        if kind == "DELETED":
            self._gone.discard(objects.uid(obj))
            if current is not None and (objects.uid(current) == objects.uid(obj) or version > version_of(current)):
                self._set(key, current, None)
            return
        is_news = current is None or version > version_of(current)
        if is_news and objects.uid(obj) not in self._gone:
            self._set(key, current, obj)

    def replace(self, listed: Iterable[Object], revision: int) -> None:
        """A fresh list: tells handlers the differences alone, and drops what is missing unless it was written later."""
        found: dict[Key, Object] = {Key.of(obj): obj for obj in listed}
        self._gone &= {objects.uid(obj) for obj in found.values()}
        for key, current in list(self._objects.items()):
            if key not in found and version_of(current) <= revision:
                self._set(key, current, None)
        for key, obj in found.items():
            current = self._objects.get(key)
            is_news = current is None or version_of(obj) > version_of(current)
            if is_news and objects.uid(obj) not in self._gone:
                self._set(key, current, obj)
        self.revision = max(self.revision, revision)

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
