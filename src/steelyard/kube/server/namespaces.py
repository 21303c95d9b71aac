"""The life of namespaces: the four that always exist, and emptying one that is being deleted.

A namespace under deletion takes no new objects (`writing` sees to that). Everything in it is deleted, and when the last
object is gone, so is the namespace; until then its conditions say what is left and which finalizers hold it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES
from steelyard.kube.server import deleting, keys
from steelyard.kube.server.background import Work
from steelyard.kube.server.core import Core
from steelyard.kube.server.options import DeleteOptions
from steelyard.kube.store.record import Change, Record

SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
FINALIZER: Final = "kubernetes"
_BACKGROUND: Final = DeleteOptions(propagation="Background")
_AT_ONCE: Final = 500
_DELETED: Final = b'"deletionTimestamp":"'


class Namespaces(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._prefix = core.prefix(NAMESPACES)
        self._terminating: set[str] = set()

    def load(self, records: Iterable[Record]) -> None:
        self._terminating.clear()
        for record in self._core.store.scan(self._prefix):
            self._put(record)

    def observe(self, change: Change) -> None:
        if change.key.startswith(self._prefix):
            if change.record is not None:
                self._put(change.record)
            else:
                self._terminating.discard(change.key.removeprefix(self._prefix))
        elif change.record is None and self._terminating:
            namespace = keys.locate(change.key).namespace
            if namespace in self._terminating:
                self.enqueue(namespace)

    def _put(self, record: Record) -> None:
        if _DELETED in record.value and objects.is_being_deleted(record.object):
            name = record.key.removeprefix(self._prefix)
            self._terminating.add(name)
            self.enqueue(name)

    def process(self, item: str) -> None:
        record = self._core.store.head(self._prefix + item)
        if record is None or not objects.is_being_deleted(record.object):
            return
        if FINALIZER not in objects.sequence(objects.at(record.object, "spec", "finalizers")):
            return
        left: list[Record] = []
        deletions = 0
        for served in self._core.registry.collections():
            if not served.resource.namespaced:
                continue
            for listed in self._core.store.scan(self._core.prefix(served.resource, item)):
                current = self._core.store.head(listed.key)
                if current is None:
                    continue
                write = deleting.start(self._core, current, _BACKGROUND)
                if write is not None:
                    self.write(write, item)
                    deletions += 1
                    if deletions == _AT_ONCE:
                        self.enqueue(item)
                        return
                held = self._core.store.head(listed.key)
                if held is not None:
                    left.append(held)
        if left:
            self._report(record, left)
        else:
            self._finish(record)

    def _finish(self, record: Record) -> None:
        obj = record.object
        spec = objects.mapping(obj.get("spec"))
        finalizers = [each for each in objects.sequence(spec.get("finalizers")) if each != FINALIZER]
        emptied = {**obj, "spec": {**spec, "finalizers": finalizers}}
        if not finalizers:
            emptied["spec"] = {key: value for key, value in spec.items() if key != "finalizers"}
        self.write(deleting.replace(self._core, record, emptied), objects.name(obj))

    def _report(self, record: Record, left: list[Record]) -> None:
        """Writes only what differs, or a namespace that waits would never be at rest."""
        kinds = Counter(f"{_resource(each)} has" for each in left)
        finalizers = Counter(finalizer for each in left for finalizer in objects.finalizers(each.object))
        content = ", ".join(f"{kind} {count} resource instances" for kind, count in sorted(kinds.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        status = objects.mapping(record.object.get("status"))
        before = [objects.mapping(each) for each in objects.sequence(status.get("conditions"))]
        after = [
            self._condition(
                before, "NamespaceContentRemaining", "SomeResourcesRemain", f"Some resources are remaining: {content}"
            ),
            self._condition(
                before,
                "NamespaceFinalizersRemaining",
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {held}",
            ),
        ]
        if after != before:
            changed = {**record.object, "status": {**status, "phase": "Terminating", "conditions": after}}
            write = self._core.put(record.key, changed, expect=record.revision)
            self.write(write, objects.name(record.object))

    def _condition(self, before: list[Object], type_: str, reason: str, message: str) -> Object:
        known = next((each for each in before if each.get("type") == type_), None)
        since = known["lastTransitionTime"] if known else self._core.timestamp()
        return {"type": type_, "status": "True", "lastTransitionTime": since, "reason": reason, "message": message}


def _resource(record: Record) -> str:
    place = keys.locate(record.key)
    return f"{place.plural}.{place.group}" if place.group else f"{place.plural}."
