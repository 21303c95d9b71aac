"""The life of namespaces: the four that always exist, and emptying one that is being deleted.

A namespace under deletion takes no new objects (`writing` sees to that). Everything in it is deleted, and when the last
object is gone, so is the namespace; until then its conditions say what is left and which finalizers hold it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from steelyard.kube.server import deleting, keys, upkeep
from steelyard.kube.server.admission.housekeeping import Housekeeping
from steelyard.kube.server.background import Work
from steelyard.kube.server.core import Core
from steelyard.kube.server.options import DeleteOptions
from steelyard.kube.server.registry import Served, builtin
from steelyard.kube.store.record import Change, Record

SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
FINALIZER: Final = "kubernetes"
_BACKGROUND: Final = DeleteOptions(propagation="Background")
_PODS: Final = Resource("", "v1", "pods", "Pod")
_AT_ONCE: Final = 500
_DELETED: Final = b'"deletionTimestamp":"'
_WELL: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""What termination reports, in upstream's order, while nothing is amiss: reason and message."""


@dataclass
class _Content:
    """What is left in a namespace after everything that can go was told to go."""

    left: list[Record] = field(default_factory=list[Record])
    refusals: list[str] = field(default_factory=list[str])
    """Why webhooks do not let go: the first reason for each kind."""
    is_asked_about: bool = False
    """Webhooks have a say, and have not said all of it."""
    waits_for_pods: bool = False
    deletions: int = 0

    @property
    def is_gone(self) -> bool:
        return not self.left and not self.is_asked_about

    def troubles(self) -> dict[str, tuple[str, str]]:
        """The conditions that are not well, with reason and message. Pods that are left are not told of."""
        found: dict[str, tuple[str, str]] = {}
        if self.refusals:
            told = ", ".join(sorted(self.refusals))
            message = f"Failed to delete all resource types, {len(self.refusals)} remaining: {told}"
            found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if not self.left or self.waits_for_pods:
            return found
        kinds = Counter(f"{_resource(each)} has" for each in self.left)
        content = ", ".join(f"{kind} {count} resource instances" for kind, count in sorted(kinds.items()))
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {content}")
        finalizers = Counter(finalizer for each in self.left for finalizer in objects.finalizers(each.object))
        if finalizers:
            names = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
            message = f"Some content in the namespace has finalizers remaining: {names}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return found


class Namespaces(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._housekeeping = Housekeeping(core, "namespace-controller")
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

    def close(self) -> None:
        self._housekeeping.close()

    def process(self, item: str) -> None:
        record = self._core.store.head(self._prefix + item)
        if record is None or not objects.is_being_deleted(record.object):
            return
        if not objects.sequence(objects.at(record.object, "spec", "finalizers")):
            return
        content = _Content()
        if not self._empty(item, content):
            self.enqueue(item)
        elif not self._report(record, content) and content.is_gone:
            self._finish(record)

    def _empty(self, namespace: str, content: _Content) -> bool:
        """Starts the deletion of everything and notes what is left then; False if there is more than fits into one go.

        Pods go first: while there are some, nothing else does.
        """
        kinds = sorted(self._core.registry.collections(), key=lambda each: each.resource.plural != "pods")
        for served in kinds:
            if not served.resource.namespaced:
                continue
            if not self._empty_collection(namespace, served, content):
                return False
            if served.resource == _PODS and not content.is_gone:
                content.waits_for_pods = True
                return True
        return True

    def _empty_collection(self, namespace: str, served: Served, content: _Content) -> bool:
        refusals: list[str] = []
        left: list[Record] = []
        for listed in self._core.store.scan(self._core.prefix(served.resource, namespace)):
            current = self._core.store.head(listed.key)
            if current is None:
                continue
            if self._housekeeping.takes(current, _BACKGROUND, functools.partial(self.retry, namespace)):
                content.is_asked_about = True
                refusals += filter(None, (self._housekeeping.refusal(listed.key),))
                continue
            write = deleting.start(self._core, current, _BACKGROUND)
            if write is not None:
                self.write(write, namespace)
                content.deletions += 1
                if content.deletions == _AT_ONCE:
                    return False
            held = self._core.store.head(listed.key)
            if held is not None:
                left.append(held)
        if refusals:
            content.refusals.append(refusals[0])
        else:
            content.left += left
        return True

    def _finish(self, record: Record) -> None:
        """Lets go of a namespace that is empty; finalizers of others may hold it still."""
        obj = record.object
        spec = objects.mapping(obj.get("spec"))
        before = objects.sequence(spec.get("finalizers"))
        if FINALIZER not in before:
            return
        finalizers = sorted(each for each in before if each != FINALIZER)
        emptied = {**obj, "spec": {**spec, "finalizers": finalizers}}
        if not finalizers:
            emptied["spec"] = {key: value for key, value in spec.items() if key != "finalizers"}
        tracked = upkeep.tracked(self._core, _namespaces(), obj, emptied, "finalize")
        self.write(deleting.replace(self._core, record, tracked), objects.name(obj))

    def _report(self, record: Record, content: _Content) -> bool:
        """Whether it wrote: only what differs, or a namespace that waits would never be at rest."""
        status = objects.mapping(record.object.get("status"))
        before = [objects.mapping(each) for each in objects.sequence(status.get("conditions"))]
        after = self._conditions(before, content.troubles())
        if after == before:
            return False
        changed = {**record.object, "status": {**status, "phase": "Terminating", "conditions": after}}
        tracked = upkeep.tracked(self._core, _namespaces(), record.object, changed, "status")
        self.write(self._core.put(record.key, tracked, expect=record.revision), objects.name(record.object))
        return True

    def _conditions(self, before: list[Object], held: dict[str, tuple[str, str]]) -> list[Object]:
        """All that termination reports, those that are well included; others stay where they are."""
        after = {str(each.get("type")): each for each in before}
        for type_, (reason, message) in _WELL.items():
            status = "True" if type_ in held else "False"
            reason, message = held.get(type_, (reason, message))
            known = after.get(type_, {})
            since = known["lastTransitionTime"] if known.get("status") == status else self._core.timestamp()
            after[type_] = {
                "type": type_,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        return list(after.values())


def _namespaces() -> Served:
    return builtin()["", "v1", NAMESPACES.plural]


def _resource(record: Record) -> str:
    place = keys.locate(record.key)
    return f"{place.plural}.{place.group}" if place.group else f"{place.plural}."
