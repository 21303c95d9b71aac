"""A request body on its way to becoming a stored object: decoded, pruned, defaulted, prepared, judged.

The steps and their order are upstream's. What a schema does not know is dropped (and told of), defaults are filled in,
the kind's own rules adjust the object, the server puts in its part of the metadata, the managers of the fields are
recorded, and then the result is judged. An update that comes out as what is stored already is no update.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from steelyard.kube import errors, fields, objects, uids
from steelyard.kube.builtin import encoding, types
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, embedded, prune, validate
from steelyard.kube.server.apply import apply, managedfields
from steelyard.kube.server.apply.fieldset import FieldSet
from steelyard.kube.server.bodies import decoding, gotimes, strictness
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.call import Payload
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import ordered
from steelyard.kube.server.definitions import customresources
from steelyard.kube.server.fairness import budgets
from steelyard.kube.server.patch import structs
from steelyard.kube.server.patch.patching import Patched
from steelyard.kube.server.strategies import metadata

Finish = Callable[[Object], list[Cause]]
"""The last touch to an object, which depends on others of the server; in place."""

_TIMES: Final = ("creationTimestamp", "deletionTimestamp")


@dataclass(slots=True)
class Candidate:
    obj: Object
    """Nobody else's: everything here changes it in place."""
    warnings: tuple[str, ...] = ()
    is_tracked: bool = False
    """Its managed fields are right already, because it was made by server-side apply."""


@contextlib.contextmanager
def warned(candidate: Candidate) -> Generator[None]:
    """What was to be warned of is told also when the write is refused after all."""
    try:
        yield
    except errors.ApiError as error:
        error.warnings = (*candidate.warnings, *error.warnings)
        raise


def decode(served: Served, body: Any, wanted: WriteOptions, payload: Payload | None = None) -> Candidate:
    """The body of a create or update as an object of the served version. Raises BadRequest."""
    try:
        candidate, complaints = _decoded(served, body, payload, wanted)
    except decoding.Undecodable as error:
        if isinstance(error, decoding.KindMissing) and wanted.field_validation == "Ignore":
            error.kind, error.version = served.resource.kind, served.resource.version
        raise decoding.refusal(served.resource, error, payload, body) from None
    if complaints and wanted.field_validation == "Strict":
        raise metadata.strict_error(served.resource, complaints)
    candidate.warnings = strictness.warnings(complaints)
    if served.custom and candidate.obj["apiVersion"] != served.resource.api_version:
        raise decoding.other_version(str(candidate.obj["apiVersion"] or ""), served.resource)
    return candidate


def decode_patched(served: Served, patched: Patched, wanted: WriteOptions) -> Candidate:
    """A patched document as an object of the served version. Raises Invalid."""
    try:
        candidate, complaints = _decoded(served, patched.document, None, wanted, patched)
    except decoding.Undecodable as error:
        raise patched.refused(_reason_in_order(served, patched) or error.reason) from None
    complaints = [*patched.complaints, *complaints]
    if complaints and wanted.field_validation == "Strict":
        raise patched.refused(f"strict decoding error: {', '.join(complaints)}")
    candidate.warnings = strictness.warnings(complaints)
    return candidate


def _reason_in_order(served: Served, patched: Patched) -> str:
    """Why a document cannot be decoded if it is read in the order in which it is quoted."""
    if served.custom or patched.is_converted:
        return ""
    try:
        decoding.check(served.resource, orjson.loads(patched.quoted()))
    except decoding.Undecodable as error:
        return error.reason
    return ""


def _decoded(
    served: Served, body: Any, payload: Payload | None, wanted: WriteOptions, patched: Patched | None = None
) -> tuple[Candidate, list[str]]:
    """The candidate, and what `fieldValidation` complains of. Raises Undecodable."""
    resource = served.resource
    try:
        encoded = orjson.dumps(body)
    except TypeError as error:
        if "ecursion" in str(error):
            raise
        raise errors.BadRequest(f"the object is not JSON: {error}") from None
    value = orjson.loads(encoded)
    if served.custom:
        decoding.check_custom(resource, value, lambda: _text(value, payload, patched))
    elif patched is None or not patched.is_converted:
        decoding.check(resource, value)
    obj = cast(Object, {} if value is None else value)
    given = obj.get("metadata")
    meta = cast(Object, given) if given is not None else {}
    said = obj.get("apiVersion"), obj.get("kind")
    obj = ordered(obj, resource.api_version, resource.kind, meta)
    if served.custom and said != (resource.api_version, resource.kind):
        # Not known by the schema, so nothing is pruned: it is refused for what it says it is.
        obj["apiVersion"], obj["kind"] = said
        return Candidate(obj), []
    removed = prune.prune(served.schema, obj)
    if served.custom:
        for place, inner in embedded.found_in(served.schema, obj):
            decoding.check_embedded(resource, place, inner)
        encoding.settle(types.OBJECT_META, meta)
        if b"null" in encoded:
            default.drop_nulls(served.schema, obj)
    else:
        encoding.settle(served.go_type, obj)
    if wanted.field_validation == "Ignore":
        return Candidate(obj), []
    is_repetitive = strictness.is_repetitive(payload, encoded)
    if not removed and not is_repetitive:
        return Candidate(obj), []
    return Candidate(obj), _complaints(served, body, removed, payload if is_repetitive else None, payload, patched)


def merged(served: Served, obj: Object, applied: Object) -> Object:
    """A copy of what server-side apply made of what was applied, as its kind is read. Raises Unclassified."""
    copy = objects.copy(obj)
    if not served.custom:
        try:
            copy = structs.convert(served.go_type, copy)
        except structs.Inconvertible as error:
            resource = served.resource
            kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
            meta = objects.metadata(applied)
            where = f"{objects.text(meta, 'namespace')}/{objects.text(meta, 'name')}; {kind}"
            raise errors.Unclassified(
                f"failed to convert new object ({where}) to proper version: "
                f"unable to convert unstructured object to {kind}: {error}"
            ) from None
    meta: Object = copy.setdefault("metadata", {})
    prune.prune(served.schema, copy)
    for name in _TIMES:
        # An applied custom object may have anything here, for its schema does not say what a time is.
        if name in meta and not _is_time(meta[name]):
            del meta[name]
    encoding.settle(served.go_type or types.OBJECT_META, copy if served.go_type else meta)
    return ordered(copy, served.resource.api_version, served.resource.kind, meta)


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and not gotimes.problem(value)


def _complaints(
    served: Served,
    body: Any,
    removed: list[str],
    repetitive: Payload | None,
    payload: Payload | None,
    patched: Patched | None,
) -> list[str]:
    if served.custom:
        return strictness.of_custom(removed, repetitive)
    if patched is not None and patched.is_converted:
        return [f'unknown field "{path}"' for path in removed]
    written = body if patched is None else orjson.loads(patched.quoted())
    return strictness.of_builtin(served.go_type, written, payload)


def _text(value: Any, payload: Payload | None, patched: Patched | None) -> str:
    return patched.quoted() if patched is not None else decoding.text_of(value, payload)


def check_kind(served: Served, obj: Object) -> None:
    """Raises Invalid for a custom resource that says it is something else."""
    resource = served.resource
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    if served.custom is None or (api_version, kind) == (resource.api_version, resource.kind):
        return
    causes: list[Cause] = []
    if kind != resource.kind:
        causes.append(fields.invalid("kind", kind, f"must be {resource.kind}"))
    if api_version != resource.api_version:
        causes.append(fields.invalid("apiVersion", api_version, f"must be {resource.api_version}"))
    raise errors.invalid(api_version.rpartition("/")[0], kind, objects.name(obj), causes)


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
        candidate.obj = _tracked(served, None, candidate.obj, wanted, now, subresource)
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
        tracked = _tracked(served, old, reached, wanted, now, subresource)
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
        obj = _tracked(served, None, obj, wanted, now, "")
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
        tracked = _tracked(served, old, asked, wanted, now, subresource)
        obj = managedfields.with_managed(obj, objects.metadata(tracked).get("managedFields"))
    elif not candidate.is_tracked:
        if meta == old["metadata"]:
            # The same object is compared at once, an equal one field by field.
            obj["metadata"] = old["metadata"]
        obj = _tracked(served, old, obj, wanted, now, subresource)
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


def _tracked(
    served: Served, before: Object | None, after: Object, wanted: WriteOptions, now: str, subresource: str
) -> Object:
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
