"""The life of CustomResourceDefinitions: serving what they define, and clearing up after one that is deleted.

As upstream does it, a definition is written, then its names are accepted, then it is established, each in a write of
its own; the first is acknowledged when all are done (`settle`). It is served again after every restart (`load`). While
one is being deleted its objects are deleted first; a finalizer that the deletion adds holds it that long.

What a definition describes is parsed once per content and shared by all servers of the process that have it; it goes
with the last of them, but for the newest.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterable, Iterator
from typing import Final
from weakref import ref

import orjson

from steelyard.kube import jsonpath, objects
from steelyard.kube.objects import Object
from steelyard.kube.remembering import Kept
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.apply import apply
from steelyard.kube.server.bodies.options import DeleteOptions
from steelyard.kube.server.catalogue.registry import Scale, Served, Subresource, opening
from steelyard.kube.server.core import Core
from steelyard.kube.server.definitions import crdstatus, customresources
from steelyard.kube.server.definitions.customresources import ScalePaths, ServedVersion
from steelyard.kube.server.fairness import lane
from steelyard.kube.server.fairness.shares import Flow
from steelyard.kube.server.printing import columns
from steelyard.kube.server.space import keys
from steelyard.kube.server.space.background import Work
from steelyard.kube.server.verbs import deleting
from steelyard.kube.store.errors import StoreFailed
from steelyard.kube.store.record import Change, Record

_log = logging.getLogger(__name__)
_MANAGER: Final = "kube-apiserver"
"""Upstream's controllers for definitions run in kube-apiserver, and write under its name."""
_BACKGROUND: Final = DeleteOptions(propagation="Background")
_AT_ONCE: Final = 20
_KEPT_BYTES: Final = 8 * 1024 * 1024
_BYTES_DESCRIBED: Final = 20
"""What a description takes for each byte of its definition, about."""


class Definitions(Work):
    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._prefix = core.prefix(CUSTOM_RESOURCE_DEFINITIONS)
        self._terminating: dict[str, str] = {}
        """Collections whose definition is being deleted, to its name."""
        self._outlines: dict[str, tuple[int, Object]] = {}
        """By key, with the revision of which they are."""
        self._cleared: dict[str, str] = {}
        """How far a large one of them has been gone through."""
        self._looked_at: dict[str, int] = {}
        """By name, the revision that was looked at last."""

    def load(self, records: Iterable[Record]) -> None:
        for record in self._core.store.scan(self._prefix):
            self._put(record, record.revision)

    def observe(self, change: Change) -> None:
        if change.key.startswith(self._prefix):
            if change.record is not None:
                self._put(change.record, self._core.store.newest)
            else:
                self._gone(change.key.removeprefix(self._prefix), change.previous)
        elif change.record is None and self._terminating:
            definition = self._terminating.get(keys.collection_of(change.key))
            if definition is not None:
                self.enqueue(definition)

    async def settle(self, name: str) -> None:
        """Brings a definition that was just written to where it is served, as far as that is possible at once.

        The answer to the write shows what was asked for; with this, its kind can be used as soon as one has it.
        """
        self.process(name)
        try:
            await self._core.store.settled(self._prefix + name)
        except StoreFailed:
            self.retry(name)
        # It may have changed, or gone, meanwhile.
        self._core.registry.serve(name, self._served_now(name), self._core.store.newest)

    async def make_ready(self, served: Served, flow: Flow | None) -> None:
        """Gets ready what a schema is checked with, for somebody who is about to write an object of the kind: in
        another thread, since a large one takes a while, and not before, since of many kinds few are used."""
        group, _, version = served.storage_version.partition("/")
        for each in (served, self._core.registry.find(group, version, served.resource.plural)):
            if each is not None and each.custom is not None and not each.custom.described.is_prepared:
                with contextlib.suppress(Exception):  # what is wrong with it is told where it is needed
                    await lane.SHARED.run(flow, each.custom.described.prepare)

    def _served_now(self, name: str) -> tuple[Served, ...]:
        record = self._core.store.get(self._prefix + name)
        return served_by(record.read()) if record is not None else ()

    def _put(self, record: Record, since: int) -> None:
        name = record.key.removeprefix(self._prefix)
        if self._looked_at.get(name) == record.revision:
            return
        self._looked_at[name] = record.revision
        definition = record.read()
        self._core.registry.serve(name, served_by(definition), since)
        if objects.is_being_deleted(definition):
            self._terminating[self._collection(definition)] = name
            self.enqueue(name)
        elif not crdstatus.is_settled(definition):
            self.enqueue(name)

    def _gone(self, name: str, previous: Record | None) -> None:
        self._outlines.pop(self._prefix + name, None)
        self._looked_at.pop(name, None)
        self._core.registry.serve(name, ())
        for stream in [each for each in self._core.streams if each.kind == name]:
            stream.close()
        if previous is not None:
            self._terminating.pop(self._collection(previous.object), None)
            self._reconsider_group(previous.object)

    def _reconsider_group(self, definition: Object) -> None:
        """Others of the group may have waited for a name that has become free."""
        group = objects.at(definition, "spec", "group")
        for other in self._all():
            if objects.at(other, "spec", "group") == group and not crdstatus.is_settled(other):
                self.enqueue(objects.name(other))

    def _collection(self, definition: Object) -> str:
        group, plural = objects.at(definition, "spec", "group"), objects.at(definition, "spec", "names", "plural")
        return keys.collection(self._core.space, str(group), str(plural))

    def process(self, item: str) -> None:
        record = self._core.store.head(self._prefix + item)
        if record is None:
            return
        if objects.is_being_deleted(record.object):
            if crdstatus.FINALIZER in objects.finalizers(record.object):
                self._clear_up(record)
            return
        if not crdstatus.is_settled(record.object):
            named = self._report(record, crdstatus.accept_names(record.object, self._others(item), self._now()))
            if named is not record:
                self._reconsider_group(named.object)
            known = self._report(named, crdstatus.established(named.object, self._now()))
            self._report(known, crdstatus.judged_by_policy(known.object, self._now()))

    def _others(self, name: str) -> list[Object]:
        return [other for other in self._all() if objects.name(other) != name]

    def _all(self) -> Iterator[Object]:
        """Outlines of all definitions as they are now; each is read once, and none of them kept whole."""
        for record in self._core.store.scan(self._prefix):
            known = self._outlines.get(record.key)
            if known is None or known[0] != record.revision:
                known = self._outlines[record.key] = (record.revision, _outline(record.read()))
            yield known[1]

    def _now(self) -> str:
        return self._core.timestamp()

    def _report(self, record: Record, status: Object) -> Record:
        """Writes a status that differs, as a controller of kube-apiserver does; the newest state."""
        before = record.object
        if status == before.get("status"):
            return record
        definitions = self._core.registry.find("apiextensions.k8s.io", "v1", CUSTOM_RESOURCE_DEFINITIONS.plural)
        assert definitions is not None
        after = apply.track_update(
            definitions.schema,
            before,
            {**before, "metadata": {**objects.metadata(before)}, "status": status},
            manager=_MANAGER,
            api_version=CUSTOM_RESOURCE_DEFINITIONS.api_version,
            now=self._now(),
            subresource="status",
            ignored=apply.reset_fields("status", has_status=True),
        )
        self.write(self._core.put(record.key, after, expect=record.revision), objects.name(before))
        newest = self._core.store.head(record.key)
        assert newest is not None
        return newest

    def _clear_up(self, record: Record) -> None:
        name = objects.name(record.object)
        record = self._report(record, crdstatus.deletion_in_progress(record.object, self._now()))
        collection = self._collection(record.object)
        left = self._core.store.scan(collection, after=self._cleared.pop(name, ""), limit=_AT_ONCE)
        for listed in left:
            current = self._core.store.head(listed.key)
            write = deleting.start(self._core, current, _BACKGROUND) if current is not None else None
            if write is not None:
                self.write(write, name)
        if len(left) == _AT_ONCE:
            self._cleared[name] = left[-1].key
            self.enqueue(name)
        elif not self._core.store.count(collection):
            self.write(deleting.without_finalizer(self._core, record, crdstatus.FINALIZER), name)


def _outline(definition: Object) -> Object:
    """What others of the group need to know of a definition: all but what it describes."""
    spec = objects.mapping(definition.get("spec"))
    names = {"group": spec.get("group"), "names": spec.get("names")}
    approval = {key: value for key, value in objects.annotations(definition).items() if key == crdstatus.APPROVAL}
    metadata = {"name": objects.name(definition), "annotations": approval}
    return {"metadata": metadata, "spec": names, "status": definition.get("status")}


_living: Final[dict[bytes, tuple[ref[Served], ...]]] = {}
"""What any server of the process serves."""
_newest: Final[Kept[bytes, tuple[Served, ...]]] = Kept(_KEPT_BYTES)


def served_by(definition: Object) -> tuple[Served, ...]:
    """What a definition serves; the same content gives the same descriptions."""
    terminating = objects.is_being_deleted(definition)
    accepted = objects.at(definition, "status", "acceptedNames")
    is_ready = crdstatus.is_accepted(definition)
    content = orjson.dumps([definition.get("spec"), accepted, is_ready, terminating])
    digest = hashlib.blake2b(content, digest_size=16).digest()
    known = [served for each in _living.get(digest, ()) if (served := each()) is not None]
    if known and len(known) == len(_living[digest]):
        return tuple(known)
    found = _describe_all(definition, terminating=terminating)
    if found:
        _living[digest] = tuple(ref(served, lambda _: _living.pop(digest, None)) for served in found)
        _newest.put(digest, found, len(content) * _BYTES_DESCRIBED)
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
