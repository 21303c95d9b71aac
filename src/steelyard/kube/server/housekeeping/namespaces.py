"""The life of namespaces: the four that always exist, and emptying one that is being deleted.

A namespace under deletion takes no new objects (`writing` sees to that). Everything in it is deleted, and when the last
object is gone, so is the namespace; until then its conditions say what is left and which finalizers hold it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from steelyard.kube.server.bodies.options import DeleteOptions
from steelyard.kube.server.catalogue.registry import Served, builtin
from steelyard.kube.server.core import Core
from steelyard.kube.server.housekeeping import upkeep
from steelyard.kube.server.housekeeping.deletions import Housekeeping
from steelyard.kube.server.space import keys
from steelyard.kube.server.space.background import Work
from steelyard.kube.server.verbs import deleting
from steelyard.kube.store.record import Change, Record

SYSTEM: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
FINALIZER: Final = "kubernetes"
_BACKGROUND: Final = DeleteOptions(propagation="Background")
_PODS: Final = Resource("", "v1", "pods", "Pod")
_AT_ONCE: Final = 20
_DONE: Final = object()
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

    left: Counter[str] = field(default_factory=Counter[str])
    """How many objects of which kind."""
    finalizers: Counter[str] = field(default_factory=Counter[str])
    """What holds them."""
    refusals: list[str] = field(default_factory=list[str])
    """Why webhooks do not let go: the first reason for each kind."""
    is_asked_about: bool = False
    """Webhooks have a say, and have not said all of it."""
    waits_for_pods: bool = False

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
        kinds = sorted((f"{kind} has", count) for kind, count in self.left.items())
        content = ", ".join(f"{kind} {count} resource instances" for kind, count in kinds)
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {content}")
        if self.finalizers:
            counted = sorted(self.finalizers.items())
            names = ", ".join(f"{name} in {count} resource instances" for name, count in counted)
            message = f"Some content in the namespace has finalizers remaining: {names}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return found


_Pass: TypeAlias = tuple[_Content, Iterator[None]]


class Namespaces(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._housekeeping = Housekeeping(core, "namespace-controller")
        self._prefix = core.prefix(NAMESPACES)
        self._terminating: set[str] = set()
        self._passes: dict[str, _Pass] = {}
        """What goes on in namespaces with many objects."""

    def load(self, records: Iterable[Record]) -> None:
        self._terminating.clear()
        self._passes.clear()
        for record in self._core.store.scan(self._prefix):
            self._put(record)

    def observe(self, change: Change) -> None:
        if change.key.startswith(self._prefix):
            if change.record is not None:
                self._put(change.record)
            else:
                self._terminating.discard(change.key.removeprefix(self._prefix))
                self._passes.pop(change.key.removeprefix(self._prefix), None)
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
        content, going_on = self._passes.pop(item, None) or self._start(item)
        if next(going_on, _DONE) is not _DONE:
            self._passes[item] = (content, going_on)
            self.enqueue(item)
        elif not self._report(record, content) and content.is_gone:
            self._finish(record)

    def _start(self, namespace: str) -> _Pass:
        content = _Content()
        return content, self._empty(namespace, content)

    def _empty(self, namespace: str, content: _Content) -> Iterator[None]:
        """Starts the deletion of everything and notes what is left then, stopping after every few objects.

        Pods go first: while there are some, nothing else does.
        """
        kinds = sorted(self._core.registry.collections(), key=lambda each: each.resource.plural != "pods")
        for served in kinds:
            if not served.resource.namespaced:
                continue
            yield from self._empty_collection(namespace, served, content)
            if served.resource == _PODS and not content.is_gone:
                content.waits_for_pods = True
                return

    def _empty_collection(self, namespace: str, served: Served, content: _Content) -> Iterator[None]:
        refusals: list[str] = []
        left: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        for number, listed in enumerate(self._core.store.scan(self._core.prefix(served.resource, namespace)), 1):
            if number % _AT_ONCE == 0:
                yield
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
            held = self._core.store.head(listed.key)
            if held is not None:
                left[_resource(held)] += 1
                finalizers.update(objects.finalizers(held.object))
        if refusals:
            content.refusals.append(refusals[0])
        else:
            content.left += left
            content.finalizers += finalizers

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
