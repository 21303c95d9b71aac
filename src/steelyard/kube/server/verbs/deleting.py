"""delete and deletecollection: an object goes at once unless something still holds it.

What holds an object is its finalizers (for a namespace those in its spec as well). Then it is only marked, and goes
with the update that removes the last of them. Propagation is expressed as finalizers too, which `garbage` works off.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Final

import orjson

from steelyard.kube import errors, objects, turns
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from steelyard.kube.server.admission import passage
from steelyard.kube.server.bodies import bodies
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.bodies.options import DeleteOptions
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, durable, shown, shown_all, view
from steelyard.kube.server.definitions import crdstatus
from steelyard.kube.server.verbs import reading, selection
from steelyard.kube.store.record import Record

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
PROTECTED: Final = frozenset({"default", "kube-public", "kube-system"})
"""Namespaces that clients rely on, and that nobody may delete."""
_ORPHANING: Final = frozenset({"jobs.batch", "replicationcontrollers"})
"""Kinds whose dependents stay if nobody says what is to become of them."""
_CHILDLESS: Final = frozenset({"events", "events.events.k8s.io"})
"""Kinds that can own nothing, so that no deletion of theirs waits for dependents."""
_BYTES_AT_ONCE: Final = 2 * 1024 * 1024
"""Of stored JSON whose deletions are started before any is waited for."""
_RETURNED: Final = frozenset(
    {
        "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas",
        "serviceaccounts", "services", "csidrivers.storage.k8s.io", "csinodes.storage.k8s.io",
        "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io",
        "deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io",
        "resourceslices.resource.k8s.io",
    }
)  # fmt: skip
"""Kinds of which a deletion answers with the object that went, not with a Status."""
_JOB_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


async def delete(core: Core, served: Served, call: Call) -> Reply:
    bodies.read_delete_options(call)
    wanted = parameters.delete_options(call.options, call.body)
    record, warnings = await _admitted(core, served, call, wanted, call.namespace, call.name)
    reply = await _delete(core, served, call, wanted, record)
    reply.warnings = _advice(served, wanted) + warnings
    return reply


def _advice(served: Served, wanted: DeleteOptions) -> tuple[str, ...]:
    is_job = not wanted.propagation and served.group_resource == "jobs.batch"
    return (_JOB_WARNING,) if is_job else ()


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
        raise errors.forbidden("namespaces", name, "this namespace may not be deleted")


async def _delete(core: Core, served: Served, call: Call, wanted: DeleteOptions, record: Record) -> Reply:
    wanted = _settled(served, record, wanted)
    code = 202 if wanted.is_told_not_to_orphan else 200
    if wanted.dry_run:
        state = next_state(core, record, wanted)
        if state is None:
            return _gone(core, served, await shown(core, served, record), call)
        marked = Record(record.key, record.revision, orjson.dumps(state), state)
        return reading.of_record(core, served, await shown(core, served, marked), call, code)
    remaining = start(core, record, wanted)
    if remaining is None:
        await core.settle(record)
        return reading.of_record(core, served, await shown(core, served, record), call, code)
    is_gone = core.store.head(record.key) is None
    result = await durable(remaining)
    if is_gone:
        return _gone(core, served, await shown(core, served, result), call)
    return reading.of_record(core, served, await shown(core, served, result), call, code)


def _settled(served: Served, record: Record, wanted: DeleteOptions) -> DeleteOptions:
    """What is to become of the dependents: as the client says, else as the object's finalizers, else as its kind."""
    if served.custom is not None:
        return wanted
    if served.group_resource in _CHILDLESS:
        return dataclasses.replace(wanted, propagation="Background")
    if served.resource == NAMESPACES and wanted.is_told_not_to_orphan:
        return dataclasses.replace(wanted, propagation="Foreground")
    if wanted.propagation or served.group_resource not in _ORPHANING:
        return wanted
    return (
        wanted if FOREGROUND in objects.finalizers(record.object) else dataclasses.replace(wanted, propagation="Orphan")
    )


async def delete_collection(core: Core, served: Served, call: Call) -> Reply:
    """Deletes what the selectors choose; objects that go meanwhile are no error."""
    bodies.read_delete_options(call)
    wanted = parameters.delete_options(call.options, call.body)
    chosen = selection.of(call, served)
    listed = await shown_all(core, served, core.store.scan(core.prefix(served.resource, call.namespace)))
    records = await chosen.choose(listed) if chosen else listed
    warnings = _advice(served, wanted)
    if core.webhooks.plan(served, "", "DELETE") is not None:
        warnings += await _delete_each(core, served, call, records, wanted)
    elif not wanted.dry_run:
        await _delete_all(core, served, records, wanted)
    metadata: Object = {"resourceVersion": str(core.store.revision)}
    if served.custom:
        metadata["continue"] = ""
    listing = reading.whole(served, records, metadata)
    # The store has let go of them by now.
    listing.has_own_records = True
    return Reply(200, listing=listing, warnings=warnings)


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


async def _delete_all(core: Core, served: Served, records: Sequence[Record], wanted: DeleteOptions) -> None:
    """Starts many deletions before waiting for any: they share commits. What is marked is in memory until then."""
    writes: list[asyncio.Future[Record]] = []
    size = 0
    pause = turns.Pause()
    for listed in records:
        await pause.if_due()
        record = core.store.head(listed.key)
        if record is None or objects.uid(record.object) != objects.uid(listed.object):
            continue
        check_preconditions(served, record, wanted)
        if (write := start(core, record, _settled(served, record, wanted))) is not None:
            writes.append(write)
            size += record.size
        if size > _BYTES_AT_ONCE:
            for write in writes:
                await durable(write)
            writes.clear()
            size = 0
    for write in writes:
        await durable(write)


def start(core: Core, record: Record, wanted: DeleteOptions) -> asyncio.Future[Record] | None:
    """Removes or marks the object, whose newest state the record must be; None if it is marked already."""
    record = core.current(record)
    state = next_state(core, record, wanted)
    if state is None:
        return core.drop(record, expect=record.revision)
    return core.put(record.key, state, expect=record.revision) if state is not record.object else None


def next_state(core: Core, record: Record, wanted: DeleteOptions) -> Object | None:
    """What a deletion makes of the object: nothing, or the object as it is marked; the same if it is marked already."""
    obj = record.object
    if _is_namespace(obj):
        return _next_of_namespace(core, obj, wanted)
    metadata = objects.metadata(obj)
    if _is_definition(obj) and not metadata.get("deletionTimestamp"):
        return crdstatus.marked_for_deletion(obj, core.timestamp())
    finalizers = _with_propagation(objects.finalizers(obj), wanted)
    if not finalizers:
        return None
    if metadata.get("deletionTimestamp") and finalizers == objects.finalizers(obj):
        return obj
    marked: Object = {**metadata, "finalizers": finalizers}
    if not metadata.get("deletionTimestamp"):
        marked["deletionTimestamp"] = core.timestamp()
        marked["deletionGracePeriodSeconds"] = 0
        if metadata.get("generation"):
            marked["generation"] = metadata["generation"] + 1
    return {**obj, "metadata": marked}


def _next_of_namespace(core: Core, obj: Object, wanted: DeleteOptions) -> Object | None:
    """A namespace is marked first, whatever it holds, without a period of grace, and tells of it in its phase."""
    metadata = objects.metadata(obj)
    if metadata.get("deletionTimestamp"):
        return obj if is_held(obj) else None
    marked: Object = {**metadata, "deletionTimestamp": core.timestamp()}
    if finalizers := _with_propagation(objects.finalizers(obj), wanted):
        marked["finalizers"] = finalizers
    else:
        marked.pop("finalizers", None)
    return {**obj, "metadata": marked, "status": {**objects.mapping(obj.get("status")), "phase": "Terminating"}}


def without_finalizer(core: Core, record: Record, finalizer: str) -> asyncio.Future[Record]:
    """Takes one finalizer off an object that is being deleted, and removes it if that was the last."""
    record = core.current(record)
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
        # The record may be in another version than the stored one.
        newest = core.current(core.store.head(record.key) or record)
        return core.drop(newest, expect=record.revision)
    return core.put(record.key, obj, expect=record.revision, charged=True)


def is_over(obj: Object) -> bool:
    """Whether writing this state removes the object."""
    return objects.is_being_deleted(obj) and not is_held(obj)


def is_held(obj: Object) -> bool:
    return bool(objects.finalizers(obj)) or _spec_finalizers(obj)


def check_preconditions(served: Served, record: Record, wanted: DeleteOptions) -> None:
    metadata = objects.metadata(record.object)
    for what, given, known, happened in (
        ("UID", wanted.uid, str(metadata.get("uid")), "deleted and then recreated"),
        ("ResourceVersion", wanted.resource_version, str(record.revision), "modified"),
    ):
        if not given or given == known:
            continue
        resource = served.resource
        if resource == NAMESPACES:
            place = served.group_resource
            message = f"Precondition failed: {what} in precondition: {given}, {what} in object meta: {known}"
        else:
            place = f"{resource.kind}.{served.home_group}" if served.home_group else resource.kind
            message = (
                f"the {what} in the precondition ({given}) does not match the {what} in record ({known}). "
                f"The object might have been {happened}"
            )
        raise errors.conflict(place, str(metadata.get("name")), message)


def _with_propagation(finalizers: list[str], wanted: DeleteOptions) -> list[str]:
    """Without a policy the finalizers that an earlier deletion or the creator put there decide."""
    if not wanted.propagation:
        return finalizers
    kept = [finalizer for finalizer in finalizers if finalizer not in {FOREGROUND, ORPHAN}]
    match wanted.propagation:
        case "Foreground":
            kept.append(FOREGROUND)
        case "Orphan":
            kept.append(ORPHAN)
        case _:
            pass
    return finalizers if set(kept) == set(finalizers) else kept


def _spec_finalizers(obj: Object) -> bool:
    return _is_namespace(obj) and bool(objects.at(obj, "spec", "finalizers"))


def _is_namespace(obj: Object) -> bool:
    return obj.get("kind") == NAMESPACES.kind and obj.get("apiVersion") == NAMESPACES.api_version


def _is_definition(obj: Object) -> bool:
    definition = CUSTOM_RESOURCE_DEFINITIONS
    return obj.get("kind") == definition.kind and obj.get("apiVersion") == definition.api_version


def _gone(core: Core, served: Served, record: Record, call: Call) -> Reply:
    """The answer to a deletion that is over; the record is the object's last state."""
    if served.custom is None and served.group_resource in _RETURNED:
        return reading.of_record(core, served, record, call)
    obj = record.object
    details: Object = {"name": objects.name(obj), "kind": served.resource.plural, "uid": objects.uid(obj)}
    if served.resource.group:
        details["group"] = served.resource.group
    return Reply(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
