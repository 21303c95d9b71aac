"""The life of CustomResourceDefinitions: serving what they define, and clearing up after one that is deleted.

A definition is served from the moment its write is acknowledged (`refresh`) and again after every restart (`load`).
While one is being deleted its objects are deleted first; a finalizer that it gets when it is created holds it that
long. What a definition describes is parsed once per content and shared by all servers of the process.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from typing import Final

import orjson

from steelyard.kube import objects
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server import columns, customresources, deleting, jsonpath, keys
from steelyard.kube.server.background import Work
from steelyard.kube.server.core import Core
from steelyard.kube.server.customresources import ScalePaths, ServedVersion
from steelyard.kube.server.options import DeleteOptions
from steelyard.kube.server.registry import Scale, Served, Subresource, opening
from steelyard.kube.store.record import Change, Record

_log = logging.getLogger(__name__)
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_BACKGROUND: Final = DeleteOptions(propagation="Background")
_AT_ONCE: Final = 500
_REMEMBERED: Final = 1024


class Definitions(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._prefix = core.prefix(CUSTOM_RESOURCE_DEFINITIONS)
        self._terminating: dict[str, str] = {}
        """Collections whose definition is being deleted, to its name."""

    def load(self, records: Iterable[Record]) -> None:
        for record in self._core.store.scan(self._prefix):
            self._put(record)

    def observe(self, change: Change) -> None:
        if change.key.startswith(self._prefix):
            if change.record is not None:
                self._put(change.record)
            else:
                self._gone(change.key.removeprefix(self._prefix), change.previous)
        elif change.record is None and self._terminating:
            definition = self._terminating.get(keys.collection_of(change.key))
            if definition is not None:
                self.enqueue(definition)

    def refresh(self, name: str) -> None:
        """Serves the definition as it is now stored."""
        record = self._core.store.get(self._prefix + name)
        self._core.registry.serve(name, served_by(record.object) if record is not None else ())

    def _put(self, record: Record) -> None:
        name = record.key.removeprefix(self._prefix)
        self._core.registry.serve(name, served_by(record.object))
        is_accepted = customresources.is_condition_true(record.object, "NamesAccepted")
        if objects.is_being_deleted(record.object):
            self._terminating[self._collection(record.object)] = name
            self.enqueue(name)
        elif not is_accepted:
            self.enqueue(name)

    def _gone(self, name: str, previous: Record | None) -> None:
        self._core.registry.serve(name, ())
        if previous is None:
            return
        self._terminating.pop(self._collection(previous.object), None)
        group = objects.at(previous.object, "spec", "group")
        for other in all_definitions(self._core):
            if objects.at(other, "spec", "group") == group:
                self.enqueue(objects.name(other))

    def _collection(self, definition: Object) -> str:
        group, plural = objects.at(definition, "spec", "group"), objects.at(definition, "spec", "names", "plural")
        return keys.collection(self._core.space, str(group), str(plural))

    def process(self, item: str) -> None:
        record = self._core.store.head(self._prefix + item)
        if record is None:
            return
        if objects.is_being_deleted(record.object):
            if FINALIZER in objects.finalizers(record.object):
                self._clear_up(record)
        elif not customresources.is_condition_true(record.object, "NamesAccepted"):
            self._accept(record)

    def _accept(self, record: Record) -> None:
        definition = objects.copy(record.object)
        if customresources.accept_names(definition, all_definitions(self._core), self._core.timestamp()):
            self.write(self._core.put(record.key, definition, expect=record.revision), objects.name(definition))

    def _clear_up(self, record: Record) -> None:
        name = objects.name(record.object)
        left = 0
        for listed in self._core.store.scan(self._collection(record.object))[:_AT_ONCE]:
            left += 1
            current = self._core.store.head(listed.key)
            write = deleting.start(self._core, current, _BACKGROUND) if current is not None else None
            if write is not None:
                self.write(write, name)
        if not left:
            self.write(deleting.without_finalizer(self._core, record, FINALIZER), name)
        elif not customresources.is_condition_true(record.object, "Terminating"):
            status = objects.mapping(record.object.get("status"))
            kept = [each for each in objects.sequence(status.get("conditions")) if each.get("type") != "Terminating"]
            terminating: Object = {
                "type": "Terminating",
                "status": "True",
                "lastTransitionTime": self._core.timestamp(),
                "reason": "InstanceDeletionInProgress",
                "message": "CustomResource deletion is in progress",
            }
            changed = {**record.object, "status": {**status, "conditions": [*kept, terminating]}}
            self.write(self._core.put(record.key, changed, expect=record.revision), name)


def all_definitions(core: Core) -> list[Object]:
    return [record.object for record in core.store.scan(core.prefix(CUSTOM_RESOURCE_DEFINITIONS))]


def establish(core: Core, definition: Object) -> list[Cause]:
    """Fills in, in the write that stores a definition, what upstream's controllers do after it; in place."""
    if not objects.is_being_deleted(definition):
        customresources.accept_names(definition, all_definitions(core), core.timestamp())
        metadata: Object = definition["metadata"]
        if FINALIZER not in objects.finalizers(definition):
            metadata["finalizers"] = [*objects.finalizers(definition), FINALIZER]
    return []


_served: dict[bytes, tuple[Served, ...]] = {}


def served_by(definition: Object) -> tuple[Served, ...]:
    """What a definition serves; the same content gives the same descriptions."""
    terminating = objects.is_being_deleted(definition)
    accepted = objects.at(definition, "status", "acceptedNames")
    established = customresources.is_condition_true(definition, "Established")
    content = orjson.dumps([definition.get("spec"), accepted, established, terminating])
    digest = hashlib.blake2b(content, digest_size=16).digest()
    found = _served.get(digest)
    if found is None:
        if len(_served) >= _REMEMBERED:
            del _served[next(iter(_served))]
        found = _served[digest] = _describe_all(definition, terminating=terminating)
    return found


def _describe_all(definition: Object, *, terminating: bool) -> tuple[Served, ...]:
    try:
        versions = customresources.served_versions(definition)
        return tuple(_describe(version, terminating=terminating) for version in versions)
    except Exception:
        # It was judged before it was stored; should that have missed something, the other kinds must go on.
        _log.exception("a definition cannot be served", extra={"definition": objects.name(definition)})
        return ()


def _describe(version: ServedVersion, *, terminating: bool) -> Served:
    resource = version.resource
    subresources: dict[str, Subresource] = {}
    if version.scale is not None:
        subresources["scale"] = Subresource("scale", "autoscaling", "v1", "Scale")
    if version.has_status:
        subresources["status"] = Subresource("status", resource.group, resource.version, resource.kind)
    return Served(
        resource,
        None,
        version.singular,
        version.list_kind or f"{resource.kind}List",
        version.short_names,
        version.categories,
        subresources=subresources,
        scale=_scale(version.scale),
        columns=columns.from_crd(version.printer_columns),
        fields={path.removeprefix("."): jsonpath.lenient(path) for path in version.selectable_fields},
        custom=version,
        storage_version=version.storage_version,
        deprecation=version.deprecation_warning,
        terminating=terminating,
        has_status=version.has_status,
        conversion=version.conversion,
        opening=opening(resource.api_version),
    )


def _scale(paths: ScalePaths | None) -> Scale | None:
    if paths is None:
        return None
    return Scale(_steps(paths.spec_replicas), _steps(paths.status_replicas), _steps(paths.label_selector))


def _steps(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split(".")))
