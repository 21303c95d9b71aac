"""From a candidate to the object that is stored: defaulted, prepared, judged.

The steps and their order are upstream's. Defaults are filled in, the kind's own rules adjust the object, the server
puts in its part of the metadata, the managers of the fields are recorded, and then the result is judged. An update that
comes out as what is stored already is no update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from steelyard.kube import errors, objects, uids
from steelyard.kube.builtin import encoding
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, validate
from steelyard.kube.server.apply import apply, managedfields
from steelyard.kube.server.apply.fieldset import FieldSet
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.candidates.candidates import Candidate
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.definitions import customresources
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.strategies import metadata

Finish = Callable[[Object], list[Cause]]
"""The last touch to an object, which depends on others of the server; in place."""


def _fill(served: Served, obj: Object) -> None:
    try:
        default.fill(served.schema, obj, budgets.MAX_VALUES)
    except default.Overgrown:
        raise budgets.too_many_values() from None


def prepare_new(served: Served, candidate: Candidate, wanted: WriteOptions, now: str, subresource: str = "") -> None:
    """What webhooks are shown of a create: defaults are in, and who manages what is settled before they change it."""
    _fill(served, candidate.obj)
    served.strategy.prepare_create(candidate.obj)
    if not candidate.is_tracked:
        candidate.obj = track(served, None, candidate.obj, wanted, now, subresource)
        candidate.is_tracked = True


def prepare_changed(
    served: Served, old: Object, candidate: Candidate, wanted: WriteOptions, now: str, subresource: str = ""
) -> None:
    """The same for an update; `changed` then keeps the result within what the endpoint may change."""
    _fill(served, candidate.obj)
    metadata.keep_owned(candidate.obj, old)
    candidate.obj["metadata"]["resourceVersion"] = objects.metadata(old).get("resourceVersion")
    if not subresource:
        served.strategy.prepare_update(candidate.obj, old)
    if not candidate.is_tracked:
        reached = _within_reach(served, old, candidate.obj, subresource)
        tracked = track(served, old, reached, wanted, now, subresource)
        candidate.obj = managedfields.with_managed(candidate.obj, objects.metadata(tracked).get("managedFields"))
        candidate.is_tracked = True


def new(served: Served, candidate: Candidate, wanted: WriteOptions, now: str, finish: Finish | None = None) -> Object:
    """The object to store for a create. Raises Invalid."""
    obj = candidate.obj
    strategy = served.strategy
    if served.has_status and not strategy.keeps_status:
        _copy_field(objects.copy(served.blank), obj, "status")
    _fill(served, obj)
    strategy.prepare_create(obj)
    metadata.fill_create(obj, now, uids.new())
    if served.custom or strategy.tracks_generation:
        obj["metadata"]["generation"] = 1
    if not candidate.is_tracked:
        obj = track(served, None, obj, wanted, now)
    obj = _as_stored(served, obj)
    strategy.complete_create(obj)
    causes: list[Cause] = []
    if not strategy.judges_metadata:
        causes += metadata.validate_create(obj["metadata"], served.resource, custom=served.custom is not None)
    if served.custom:
        causes += customresources.validate_object(served.custom, obj, found=causes)
        candidate.warnings += metadata.finalizer_warnings(obj) if not causes else ()
    else:
        wrong = validate.validate(served.schema, _body(obj)) if strategy.is_judged_by_schema else []
        causes += wrong or strategy.validate_create(obj)
        candidate.warnings += strategy.warnings(obj) if not causes else ()
    if finish is not None and not causes:
        causes = finish(obj)
    _refuse(served, obj, causes)
    return obj


def changed(
    served: Served,
    old: Object,
    candidate: Candidate,
    wanted: WriteOptions,
    now: str,
    subresource: str = "",
    finish: Finish | None = None,
) -> Object:
    """The object to store for an update; `old` itself if the update changes nothing. Raises Invalid."""
    strategy = served.strategy
    _fill(served, candidate.obj)
    obj = _within_reach(served, old, candidate.obj, subresource)
    meta: Object = obj["metadata"]
    metadata.keep_owned(obj, old)
    meta["resourceVersion"] = objects.metadata(old).get("resourceVersion")
    if subresource:
        strategy.prepare_part(obj, old, subresource)
    else:
        strategy.prepare_update(obj, old)
    tracks_generation = bool(served.custom) or strategy.tracks_generation
    if tracks_generation and subresource not in ("status", "approval") and _is_specified_anew(served, old, obj):
        meta["generation"] = objects.generation(old) + 1
    if not candidate.is_tracked and served.custom and subresource == "status":
        asked = {**candidate.obj, "metadata": {**candidate.obj["metadata"]}}
        metadata.keep_owned(asked, old)
        tracked = track(served, old, asked, wanted, now, subresource)
        obj = managedfields.with_managed(obj, objects.metadata(tracked).get("managedFields"))
    elif not candidate.is_tracked:
        if meta == old["metadata"]:
            # The same object is compared at once, an equal one field by field.
            obj["metadata"] = old["metadata"]
        obj = track(served, old, obj, wanted, now, subresource)
    obj = _as_stored(served, obj)
    if not subresource:
        strategy.complete_update(obj, old)
    is_unchanged = finish is None and _is_unchanged(old, obj, subresource)
    is_custom = served.custom is not None
    causes = metadata.validate_update(
        obj["metadata"], objects.metadata(old), served.resource, custom=is_custom, subresource=subresource
    )
    if served.custom:
        unchanged: list[str] = []
        causes += customresources.validate_object(
            served.custom, obj, old, unchanged, subresource=subresource, found=causes
        )
        candidate.warnings += (*unchanged, *metadata.finalizer_warnings(obj, old)) if not causes else ()
    else:
        wrong: list[Cause] = []
        if strategy.is_judged_by_schema:
            wrong = validate.validate(served.schema, _body(obj), old=_body(old))
        if not wrong:
            is_whole = not subresource
            wrong = strategy.validate_update(obj, old) if is_whole else strategy.validate_part(obj, old, subresource)
        causes += wrong
        candidate.warnings += strategy.warnings(obj, old) if not causes else ()
    if finish is not None and not causes:
        causes = finish(obj)
    _refuse(served, obj, causes)
    if is_unchanged:
        return old
    return managedfields.keep_times(old, obj) if finish is not None else obj


def finish(served: Served, obj: Object, last: Finish | None) -> None:
    """The last touch, where `new` or `changed` ran beside the event loop and had to leave it out. Raises Invalid."""
    if last is not None:
        _refuse(served, obj, last(obj))


_NO_METADATA: Final[Object] = {}


def _body(obj: Object) -> Object:
    """The object without what is in its metadata, which has rules that no schema can say."""
    return {**obj, "metadata": _NO_METADATA}


def _is_unchanged(old: Object, obj: Object, subresource: str) -> bool:
    """Whether the two differ in nothing but the times of their managers; those that a Scale gives back count."""
    return obj == old if subresource == "scale" else managedfields.keep_times(old, obj) is old


def track(
    served: Served, before: Object | None, after: Object, wanted: WriteOptions, now: str, subresource: str = ""
) -> Object:
    """`after` with the managed fields that result from this write; `before` is None for a create."""
    return apply.track_update(
        served.schema,
        before,
        after,
        blank=served.blank,
        manager=wanted.manager,
        api_version=served.resource.api_version,
        now=now,
        subresource=subresource,
        ignored=reset_fields(served, subresource),
    )


def _as_stored(served: Served, obj: Object) -> Object:
    return encoding.stored(served.go_type, obj) if served.go_type else obj


def _refuse(served: Served, obj: Object, causes: list[Cause]) -> None:
    if causes:
        raise errors.invalid(served.home_group, served.resource.kind, objects.name(obj), causes)


_CLOSED_METADATA: Final = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", "resourceclaims.resource.k8s.io",
        "servicecidrs.networking.k8s.io", "validatingadmissionpolicies.admissionregistration.k8s.io",
        "volumeattachments.storage.k8s.io",
    }
)  # fmt: skip
"""Built-in kinds whose metadata a write to the status leaves alone; that of the others it may change."""
_KEPT_BY_STATUS: Final = {"deployments.apps": "labels", "pods": "ownerReferences"}


def _within_reach(served: Served, old: Object, obj: Object, subresource: str) -> Object:
    """What this endpoint may change, on top of what it may not."""
    match subresource:
        case "status" | "approval":
            return _with_status_of(served, old, obj)
        case "finalize":
            finalizers = objects.sequence(objects.at(obj, "spec", "finalizers"))
            return {**old, "metadata": {**obj["metadata"]}, "spec": {"finalizers": finalizers} if finalizers else {}}
        case _:
            if served.has_status:
                _copy_field(old, obj, "status")
            return obj


def reset_fields(served: Served, subresource: str) -> FieldSet:
    """What a write to this endpoint of the resource cannot change, and so does not manage.

    Upstream forgets the metadata of custom resources: who writes it with their status manages it, to no effect.
    """
    open_metadata = served.custom is not None or _has_open_metadata(served)
    return apply.reset_fields(
        subresource,
        has_status=served.has_status,
        open_metadata=open_metadata,
        keeps_spec=served.strategy.keeps_spec,
    )


def _has_open_metadata(served: Served) -> bool:
    return served.custom is None and served.group_resource not in _CLOSED_METADATA


def _with_status_of(served: Served, old: Object, obj: Object) -> Object:
    if not _has_open_metadata(served):
        meta = {**objects.metadata(old)}
        _copy_field(obj["metadata"], meta, "managedFields")
    else:
        meta = {**obj["metadata"]}
        if kept := _KEPT_BY_STATUS.get(served.group_resource):
            _copy_field(objects.metadata(old), meta, kept)
    result = {**old, "metadata": meta}
    _copy_field(obj, result, "status")
    return result


def _copy_field(source: Object, target: Object, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _is_specified_anew(served: Served, old: Object, obj: Object) -> bool:
    """Whether anything but metadata and status differs: that is what a generation counts."""
    if served.strategy.counts_annotations and objects.annotations(old) != objects.annotations(obj):
        return True
    apart = ("metadata", "status") if served.has_status or not served.custom else ("metadata",)
    names = (old.keys() | obj.keys()).difference(apart)
    return not all(objects.same(old.get(name), obj.get(name)) for name in names)
