"""A request body, or what a patch made of an object, as a candidate for being stored: of its kind, and pruned.

What a schema does not know is dropped, and told of where `fieldValidation` asks for that. `completing` does the rest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from steelyard.kube import errors, fields, objects
from steelyard.kube.builtin import encoding, types
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.schema import default, embedded, prune
from steelyard.kube.server.bodies import decoding, gotimes, strictness
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.call import Payload
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import ordered
from steelyard.kube.server.patch import structs
from steelyard.kube.server.patch.patching import Patched
from steelyard.kube.server.strategies import metadata

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
