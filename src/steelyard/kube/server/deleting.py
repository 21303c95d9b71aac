"""delete and deletecollection: an object goes at once unless something still holds it.

What holds an object is its finalizers (for a namespace those in its spec as well). Then it is only marked, and goes
with the update that removes the last of them. Propagation is expressed as finalizers too, which `garbage` works off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from steelyard.kube.server import crdstatus, reading, selection
from steelyard.kube.server import options as parameters
from steelyard.kube.server.admission import passage
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.core import Core, durable, shown, shown_all, view
from steelyard.kube.server.options import DeleteOptions
from steelyard.kube.server.registry import Served
from steelyard.kube.store.record import Record

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
PROTECTED: Final = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that clients rely on, and that nobody may delete."""


async def delete(core: Core, served: Served, call: Call) -> Reply:
    wanted = parameters.delete_options(call.options, call.body)
    record, warnings = await _admitted(core, served, call, wanted, call.namespace, call.name)
    reply = await _delete(core, served, call, wanted, record)
    reply.warnings = warnings
    return reply


async def _admitted(
    core: Core, served: Served, call: Call, wanted: DeleteOptions, namespace: str, name: str
) -> tuple[Record, tuple[str, ...]]:
    """The newest state of an object that may be deleted. Webhooks that were asked about it saw exactly that state."""
    while True:
        record = core.head(served.resource, namespace, name)
        _check_allowed(served, record, wanted, name)
        if core.webhooks.plan(served, "", "DELETE") is None:
            return record, ()
        old = view(await shown(core, served, record), served)
        admission = passage.of_deletion(core, served, call, wanted, old)
        warnings = await admission.delete() if admission is not None else ()
        if core.store.head(record.key) is record:
            return record, warnings


def _check_allowed(served: Served, record: Record, wanted: DeleteOptions, name: str) -> None:
    check_preconditions(served, record, wanted)
    if served.resource == NAMESPACES and name in PROTECTED:
        raise errors.Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            kind="namespaces",
            name=name,
        )


async def _delete(core: Core, served: Served, call: Call, wanted: DeleteOptions, record: Record) -> Reply:
    if wanted.dry_run:
        return _success(served, record)
    remaining = start(core, record, wanted)
    if remaining is None:
        await core.settle(record)
        return reading.of_record(core, served, await shown(core, served, record), call)
    is_gone = core.store.head(record.key) is None
    result = await durable(remaining)
    if is_gone:
        return _success(served, result)
    return reading.of_record(core, served, await shown(core, served, result), call)


async def delete_collection(core: Core, served: Served, call: Call) -> Reply:
    """Deletes what the selectors choose; objects that go meanwhile are no error.

    Only within one namespace: nothing as short as a forgotten path segment may empty all of them.
    """
    if served.resource.namespaced and not call.namespace:
        message = "the server does not allow this method on the requested resource"
        raise errors.MethodNotAllowed(message)
    wanted = parameters.delete_options(call.options, call.body)
    chosen = selection.of(call, served)
    listed = await shown_all(core, served, core.store.scan(core.prefix(served.resource, call.namespace)))
    records = [record for record in listed if not chosen or chosen.matches(record)]
    warnings: tuple[str, ...] = ()
    if core.webhooks.plan(served, "", "DELETE") is not None:
        warnings = await _delete_each(core, served, call, records, wanted)
    elif not wanted.dry_run:
        await delete_all(core, records, wanted)
    metadata: Object = {"resourceVersion": str(core.store.revision)}
    items = [view(record, served) for record in records]
    if not served.custom:
        items = [{key: item[key] for key in item if key not in {"apiVersion", "kind"}} for item in items]
    return Reply(
        200,
        {"kind": served.list_kind, "apiVersion": served.resource.api_version, "metadata": metadata, "items": items},
        warnings=warnings,
    )


async def _delete_each(
    core: Core, served: Served, call: Call, records: Sequence[Record], wanted: DeleteOptions
) -> tuple[str, ...]:
    """One after the other, as webhooks allow; the first that they do not ends it."""
    warnings: tuple[str, ...] = ()
    for listed in records:
        try:
            name, namespace = objects.name(listed.object), objects.namespace(listed.object)
            record, more = await _admitted(core, served, call, wanted, namespace, name)
        except errors.NotFound:
            continue
        warnings += more
        if objects.uid(record.object) == objects.uid(listed.object):
            await _delete(core, served, call, wanted, record)
    return warnings


async def delete_all(core: Core, records: Sequence[Record], wanted: DeleteOptions) -> None:
    """Starts all deletions before waiting for any: they share commits."""
    writes: list[asyncio.Future[Record]] = []
    for listed in records:
        record = core.store.head(listed.key)
        is_the_same = record is not None and objects.uid(record.object) == objects.uid(listed.object)
        if record is not None and is_the_same and (write := start(core, record, wanted)) is not None:
            writes.append(write)
    for write in writes:
        await durable(write)


def start(core: Core, record: Record, wanted: DeleteOptions) -> asyncio.Future[Record] | None:
    """Removes or marks the object, whose newest state the record must be; None if it is marked already."""
    obj = record.object
    metadata = objects.metadata(obj)
    if _is_definition(obj) and not metadata.get("deletionTimestamp"):
        return core.put(record.key, crdstatus.marked_for_deletion(obj, core.timestamp()), expect=record.revision)
    finalizers = _with_propagation(objects.finalizers(obj), wanted)
    if not finalizers and not _spec_finalizers(obj):
        return core.drop(record.key, obj, expect=record.revision)
    if metadata.get("deletionTimestamp") and finalizers == objects.finalizers(obj):
        return None
    marked: Object = {**metadata}
    if finalizers:
        marked["finalizers"] = finalizers
    else:
        marked.pop("finalizers", None)
    if not metadata.get("deletionTimestamp"):
        marked["deletionTimestamp"] = core.timestamp()
        if not _is_namespace(obj):
            # Upstream marks namespaces in a way of their own, without a period of grace.
            marked["deletionGracePeriodSeconds"] = 0
        if metadata.get("generation"):
            marked["generation"] = metadata["generation"] + 1
    changed = {**obj, "metadata": marked}
    if _is_namespace(obj):
        changed["status"] = {**objects.mapping(obj.get("status")), "phase": "Terminating"}
    return core.put(record.key, changed, expect=record.revision)


def without_finalizer(core: Core, record: Record, finalizer: str) -> asyncio.Future[Record]:
    """Takes one finalizer off an object that is being deleted, and removes it if that was the last."""
    metadata = {**objects.metadata(record.object)}
    kept = [each for each in objects.finalizers(record.object) if each != finalizer]
    metadata["finalizers"] = kept
    if not kept:
        del metadata["finalizers"]
    return replace(core, record, {**record.object, "metadata": metadata})


def replace(core: Core, record: Record, obj: Object) -> asyncio.Future[Record]:
    """Writes the object's next state; one that is being deleted and no longer held is removed instead.

    Watchers of the removal see the last state that was stored, not the one that would have been.
    """
    if is_over(obj):
        return core.drop(record.key, record.object, expect=record.revision)
    return core.put(record.key, obj, expect=record.revision)


def is_over(obj: Object) -> bool:
    """Whether writing this state removes the object."""
    return objects.is_being_deleted(obj) and not is_held(obj)


def is_held(obj: Object) -> bool:
    return bool(objects.finalizers(obj)) or _spec_finalizers(obj)


def check_preconditions(served: Served, record: Record, wanted: DeleteOptions) -> None:
    metadata = objects.metadata(record.object)
    name = str(metadata.get("name"))
    if wanted.uid and wanted.uid != metadata.get("uid"):
        message = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {metadata.get('uid')}"
        raise errors.conflict(served.group_resource, name, message)
    if wanted.resource_version and wanted.resource_version != str(record.revision):
        message = (
            f"Precondition failed: ResourceVersion in precondition: {wanted.resource_version}, "
            f"ResourceVersion in object meta: {record.revision}"
        )
        raise errors.conflict(served.group_resource, name, message)


def _with_propagation(finalizers: list[str], wanted: DeleteOptions) -> list[str]:
    """Without a policy the finalizers that an earlier deletion or the creator put there decide."""
    if not wanted.propagation:
        return finalizers
    kept = [finalizer for finalizer in finalizers if finalizer not in {FOREGROUND, ORPHAN}]
    match wanted.propagation:
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Orphan":
            return [*kept, ORPHAN]
        case _:
            return kept


def _spec_finalizers(obj: Object) -> bool:
    return _is_namespace(obj) and bool(objects.at(obj, "spec", "finalizers"))


def _is_namespace(obj: Object) -> bool:
    return obj.get("kind") == NAMESPACES.kind and obj.get("apiVersion") == NAMESPACES.api_version


def _is_definition(obj: Object) -> bool:
    definition = CUSTOM_RESOURCE_DEFINITIONS
    return obj.get("kind") == definition.kind and obj.get("apiVersion") == definition.api_version


def _success(served: Served, record: Record) -> Reply:
    obj = record.object
    details: Object = {"name": objects.name(obj), "kind": served.resource.plural, "uid": objects.uid(obj)}
    if served.resource.group:
        details["group"] = served.resource.group
    return Reply(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
