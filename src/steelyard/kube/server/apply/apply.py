"""Server-side apply, and the tracking of who changed what in every other write.

Two entry points, both pure. `apply` merges a manager's configuration into the live object; `track_update` records a
create, update or patch that has already been made. Both give a new object with its managed fields, and the live one
back unchanged where nothing changed, so that such a request writes nothing. The caller validates, defaults and
stores; where that turns a change into none, `managedfields.keep_times` says so.

Entries of another API version are treated as if their paths were of this one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from steelyard.kube import errors, objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.schema.model import Schema
from steelyard.kube.server.apply import (
    fieldset,
    lastapplied,
    managedfields,
    newfields,
    removal,
    shape,
    typecheck,
    typed,
)
from steelyard.kube.server.apply.fieldset import LEAF, FieldSet, Tree
from steelyard.kube.server.apply.managedfields import Entry, Identity, Managed
from steelyard.kube.server.apply.shape import Shape

NOTHING: Final = FieldSet()
EMPTY: Final[Object] = {}
STATUS: Final = FieldSet.of(("status",))
SPEC: Final = FieldSet.of(("spec",))
ALL_BUT_STATUS: Final = FieldSet.of(("metadata",), ("spec",))
ALL_BUT_METADATA: Final = FieldSet.of(("spec",), ("status",))
_SETTLED: Final = {
    "status": FieldSet.of(("spec",), ("status", "conditions")),
    "approval": FieldSet.of(("spec",), ("status", "certificate")),
}

_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_NEVER: Final = managedfields.NEVER_MANAGED.tree


def reset_fields(
    subresource: str, *, has_status: bool, open_metadata: bool = False, keeps_spec: bool = False
) -> FieldSet:
    """The fields that a write to this endpoint cannot change, and so does not manage.

    `open_metadata` says that a write to the status may change the metadata too, `keeps_spec` that the spec is settled
    by the server.
    """
    if keeps_spec:
        return _SETTLED.get(subresource, ALL_BUT_METADATA)
    if subresource == "status":
        return SPEC if open_metadata else ALL_BUT_STATUS
    return STATUS if has_status else NOTHING


def apply(
    schema: Schema,
    live: Object | None,
    applied: Object,
    *,
    manager: str,
    force: bool,
    api_version: str,
    now: str,
    blank: Object = EMPTY,
    subresource: str = "",
    ignored: FieldSet = NOTHING,
) -> Object:
    """The object after `manager` applied its configuration; `live` itself if that changes nothing.

    Fields that the manager applied before, leaves out now, and nobody else manages, are removed. A field whose value
    would change and that another manages is a conflict (`errors.Conflict`, with a cause for each), unless `force`,
    which takes it over. `blank` is an object of the kind in which nothing is set, from which a create starts.
    """
    kind = shape.of(schema)
    _check(kind, applied, api_version)
    # A spec of which nothing is there yet cannot be reset to what it was.
    reset = ignored.tree if live is not None else fieldset.intersection(ignored.tree, STATUS.tree)
    config = _configuration(applied, reset)
    before = _unmanaged(live) if live is not None else {**blank, "apiVersion": api_version, "kind": applied.get("kind")}
    was = {} if live is None else managedfields.stored(live)
    managed = _of_group(was, api_version) or (
        {} if live is None else _first_apply(kind, blank, before, api_version, now, subresource, ignored.tree)
    )

    identity = managedfields.identify(manager, "Apply", api_version, subresource)
    last = managed.get(identity)
    others = {key: entry for key, entry in managed.items() if key != identity}
    fields = fieldset.recursive_difference(typed.to_fieldset(kind, config), ignored.tree)
    merged = typed.merge(kind, before, config)
    if last is not None and fieldset.difference(last.fields, fields):
        everything = fields
        for entry in others.values():
            everything = fieldset.union(everything, entry.fields)
        merged = removal.prune(kind, merged, last.fields, everything)

    is_changed = merged is not before and (merged != before or not typed.same(merged, before))
    if is_changed and others:
        changes = typed.compare(kind, before, merged).without(ignored.tree)
        touched = fieldset.union(changes.added, changes.modified)
        if not force:
            conflicts = lastapplied.remaining(kind, manager, before, api_version, _conflicts(others, touched))
            if conflicts:
                raise _conflict(conflicts)
        others = _released(others, touched, changes.removed)

    own = fieldset.difference(fields, _NEVER)
    after = dict(others)
    if own:
        time = now if is_changed else last.time if last is not None else ""
        after[identity] = Entry(identity, api_version, time, own)
    result = lastapplied.refreshed(manager, merged if is_changed else before, applied)
    if live is not None and result is before and after == was:
        return live
    return managedfields.with_managed(result, managedfields.encode(after))


def track_update(
    schema: Schema,
    before: Object | None,
    after: Object,
    *,
    manager: str,
    api_version: str,
    now: str,
    blank: Object = EMPTY,
    subresource: str = "",
    ignored: FieldSet = NOTHING,
) -> Object:
    """`after` with the managed fields that result from this write; `before` is None for a create, and then `blank` is
    what the kind has when nothing is set: nobody manages a structure for its being there.

    An object that has no managed fields (someone reset them) stays without until it is first applied.
    """
    managed = _managed_before(before, after, subresource)
    if before is not None and not managed:
        return managedfields.with_managed(after, None) if "managedFields" in objects.metadata(after) else after
    kind = shape.of(schema)
    updated: Managed = {}
    if managed:
        changes = typed.compare(kind, blank if before is None else before, after).without(ignored.tree)
        touched = fieldset.union(changes.added, changes.modified)
        own = fieldset.difference(touched, _NEVER)
        updated = _released(_of_group(managed, api_version), touched, changes.removed)
    else:
        own = newfields.find(kind, blank, after, ignored)
    if own:
        identity = managedfields.identify(manager, "Update", api_version, subresource)
        previous = updated.get(identity)
        fields = own if previous is None else fieldset.union(own, previous.fields)
        updated = managedfields.cap({**updated, identity: Entry(identity, api_version, now, fields)})
    return managedfields.with_managed(after, managedfields.encode(updated))


def _managed_before(before: Object | None, after: Object, subresource: str) -> Managed:
    """The entries to start from: those a client sent if it may send any and they are valid, else those stored."""
    entries = objects.metadata(after).get("managedFields")
    if before is None:
        return (managedfields.sent(entries) or {}) if entries and not managedfields.resets(entries) else {}
    known = objects.metadata(before).get("managedFields")
    if subresource or entries is None or entries == known:
        return managedfields.stored(before)
    if managedfields.resets(entries):
        return {}
    return managedfields.sent(entries) or managedfields.stored(before)


def _of_group(managed: Managed, api_version: str) -> Managed:
    """Without entries of another group, whose fields may have other names: upstream cannot tell what they mean, and
    drops them. Events have two groups."""
    group = resources.split_api_version(api_version)[0]
    kept = {
        identity: entry
        for identity, entry in managed.items()
        if identity.subresource or resources.split_api_version(entry.api_version)[0] == group
    }
    return managed if len(kept) == len(managed) else kept


def _released(managed: Managed, touched: Tree, removed: Tree) -> Managed:
    """The entries without what another one now sets, or what is gone; an entry that has nothing left goes."""
    left: Managed = {}
    for identity, entry in managed.items():
        fields = fieldset.difference(fieldset.difference(entry.fields, touched), removed)
        if not fields:
            continue
        if fields is entry.fields:
            left[identity] = entry
        else:
            left[identity] = replace(entry, fields=fields)
    return left


def _first_apply(
    kind: Shape, blank: Object, before: Object, api_version: str, now: str, subresource: str, ignored: Tree
) -> Managed:
    """An object from before anyone tracked its fields: what it has is taken for an update by nobody in particular."""
    present = fieldset.recursive_difference(typed.compare(kind, blank, before).added, ignored)
    fields = fieldset.difference(present, _NEVER)
    if not fields:
        return {}
    identity = managedfields.identify(_BEFORE_FIRST_APPLY, "Update", api_version, subresource)
    return {identity: Entry(identity, api_version, now, fields)}


def _check(kind: Shape, applied: Object, api_version: str) -> None:
    group, version = resources.split_api_version(objects.text(applied, "apiVersion"))
    kind_text = f"{group}/{version}, Kind={objects.text(applied, 'kind')}"
    if applied.get("apiVersion") != api_version or not isinstance(applied.get("kind"), str):
        raise errors.BadRequest(f"invalid object type: {kind_text}")
    if isinstance(objects.metadata(applied).get("managedFields"), list):
        raise errors.BadRequest("metadata.managedFields must be nil")
    problems = typecheck.problems(kind, applied)
    if problems:
        listed = problems[0] if len(problems) == 1 else "\n  ".join(("errors:", *problems))
        metadata = objects.metadata(applied)
        where = f"{objects.text(metadata, 'namespace')}/{objects.text(metadata, 'name')}; {kind_text}"
        raise errors.Unclassified(f"failed to create typed patch object ({where}): {listed}")


def _configuration(applied: Object, ignored: Tree) -> Object:
    """What of the applied object counts: not the fields that this endpoint resets."""
    return {name: value for name, value in applied.items() if ignored.get("f:" + name) != LEAF}


def _unmanaged(live: Object) -> Object:
    metadata = objects.metadata(live)
    if "managedFields" not in metadata:
        return live
    return {**live, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _conflicts(others: Managed, touched: Tree) -> dict[Identity, Tree]:
    found = {identity: fieldset.intersection(entry.fields, touched) for identity, entry in others.items()}
    return {identity: found[identity] for identity in sorted(found, key=Identity.sort_key) if found[identity]}


def _conflict(conflicts: dict[Identity, Tree]) -> errors.Conflict:
    found = [(identity, fieldset.text(path)) for identity, tree in conflicts.items() for path in FieldSet(tree).paths()]
    causes = [errors.Cause(path, "FieldManagerConflict", f"conflict with {identity}") for identity, path in found]
    if len(found) == 1:
        identity, path = found[0]
        return errors.Conflict(f"Apply failed with 1 conflict: conflict with {identity}: {path}", causes=causes)
    lines: list[str] = []
    for identity in conflicts:
        lines.append(f"conflicts with {identity}:")
        lines += [f"- {path}" for owner, path in found if owner == identity]
    text = "\n".join(lines)
    return errors.Conflict(f"Apply failed with {len(found)} conflicts: {text}", causes=causes)
