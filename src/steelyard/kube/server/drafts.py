"""A request body on its way to becoming a stored object: decoded, pruned, defaulted, filled in, validated.

Everything here is a function of its arguments. The steps and their order are upstream's: what a schema does not know is
dropped (and told of), defaults are filled in, the kind's own rules adjust the object, the server owns its part of the
metadata, the fields' managers are recorded, and only then is the result judged.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from steelyard.kube import errors, objectmeta, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES
from steelyard.kube.schema import default, prune, validate
from steelyard.kube.server import customresources
from steelyard.kube.server.apply import apply, managedfields
from steelyard.kube.server.core import ordered
from steelyard.kube.server.options import WriteOptions
from steelyard.kube.server.registry import Served

_OWNED_BY_SERVER: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "uid")


@dataclass(slots=True)
class Draft:
    obj: Object
    warnings: tuple[str, ...] = ()


def decode(served: Served, body: Any, wanted: WriteOptions) -> Draft:
    """The body as an object of the served version, which nobody else holds. Raises BadRequest."""
    if not isinstance(body, dict):
        raise errors.BadRequest(f"the object provided is unrecognized (must be of type {served.resource.kind})")
    try:
        obj = objects.copy(cast(Object, body))
    except (TypeError, ValueError) as error:
        raise errors.BadRequest(f"the object is not JSON: {error}") from None
    return check(served, obj, wanted)


def check(served: Served, obj: Object, wanted: WriteOptions) -> Draft:
    """Like `decode`, for an object that is already ours."""
    resource = served.resource
    kind, api_version, metadata = obj.get("kind"), obj.get("apiVersion"), obj.get("metadata")
    if not kind and served.custom:
        raise errors.BadRequest(f"Object 'Kind' is missing in '{orjson.dumps(obj).decode()[:200]}'")
    if kind and kind != resource.kind:
        raise errors.BadRequest(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"the kind in the data does not match the expected kind"
        )
    if api_version and api_version != resource.api_version:
        raise errors.BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
        )
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise errors.BadRequest(f"{resource.kind} cannot be read: metadata must be an object")
    draft = Draft(ordered(obj, resource.api_version, resource.kind, cast(Object, metadata)))
    _check_types(served, cast(Object, metadata))
    removed = prune.prune(served.schema, draft.obj)
    if removed and wanted.field_validation != "Ignore":
        unknown = [f'unknown field "{path}"' for path in removed]
        if wanted.field_validation == "Strict":
            raise errors.BadRequest(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: strict decoding error: {", ".join(unknown)}'
            )
        draft.warnings = tuple(unknown)
    return draft


def _check_types(served: Served, metadata: Object) -> None:
    for name in [name for name, value in metadata.items() if value is None]:
        del metadata[name]
    wrong = validate.validate(objectmeta.SCHEMA, metadata, "metadata")
    if wrong:
        listed = ", ".join(f"{cause.field}: {cause.message}" for cause in wrong)
        raise errors.BadRequest(f"{served.resource.kind} cannot be read: {listed}")


def new(served: Served, draft: Draft, wanted: WriteOptions, now: str, *, track: bool = True) -> Object:
    """The object to store for a create. Raises Invalid.

    Without `track` the draft says itself who manages its fields.
    """
    obj = draft.obj
    metadata: Object = obj["metadata"]
    default.apply_defaults(served.schema, obj)
    registers_with_its_status = served.resource == NODES
    if served.has_status and not registers_with_its_status:
        obj.pop("status", None)
    for name in _OWNED_BY_SERVER:
        metadata.pop(name, None)
    metadata.pop("selfLink", None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now
    metadata["generation"] = 1
    if served.resource == CUSTOM_RESOURCE_DEFINITIONS:
        customresources.prepare_create(obj)
    if served.resource == NAMESPACES:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    if track:
        obj = apply.track_update(
            served.schema,
            None,
            obj,
            manager=wanted.manager,
            api_version=served.resource.api_version,
            now=now,
            ignored=apply.reset_fields("", has_status=served.has_status),
        )
    causes = validate.validate(served.schema, obj)
    if causes:
        raise errors.invalid(served.resource.group, served.resource.kind, objects.name(obj), causes)
    return obj


def changed(
    served: Served,
    old: Object,
    draft: Draft,
    wanted: WriteOptions,
    now: str,
    subresource: str = "",
    *,
    track: bool = True,
) -> Object:
    """The object to store for an update; `old` itself if the update changes nothing. Raises Invalid.

    Without `track` the draft says itself who manages its fields.
    """
    obj = draft.obj
    metadata: Object = obj["metadata"]
    default.apply_defaults(served.schema, obj)
    obj = _within_reach(served, old, obj, subresource)
    metadata = obj["metadata"]
    before = objects.metadata(old)
    for name in (*_OWNED_BY_SERVER, "resourceVersion", "namespace"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    metadata.pop("selfLink", None)
    if served.resource == CUSTOM_RESOURCE_DEFINITIONS and not subresource:
        customresources.prepare_update(obj, old)
    if metadata.get("generation") and _is_specified_anew(served, old, obj):
        metadata["generation"] = before["generation"] + 1
    if track:
        obj = apply.track_update(
            served.schema,
            old,
            obj,
            manager=wanted.manager,
            api_version=served.resource.api_version,
            now=now,
            subresource=subresource,
            ignored=apply.reset_fields(subresource, has_status=served.has_status),
        )
    obj = managedfields.keep_times(old, obj)
    if obj is old:
        return old
    causes = validate.validate(served.schema, obj, old=old)
    if causes:
        raise errors.invalid(served.resource.group, served.resource.kind, objects.name(obj), causes)
    return obj


def _within_reach(served: Served, old: Object, obj: Object, subresource: str) -> Object:
    """What this endpoint may change, on top of what it may not."""
    if subresource == "status":
        metadata = {**objects.metadata(old)}
        if "managedFields" in objects.metadata(obj):
            metadata["managedFields"] = objects.metadata(obj)["managedFields"]
        result = {**old, "metadata": metadata}
        if "status" in obj:
            result["status"] = obj["status"]
        else:
            result.pop("status", None)
        return result
    if served.has_status:
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)
    return obj


def _is_specified_anew(served: Served, old: Object, obj: Object) -> bool:
    """Whether anything but metadata and status differs: that is what a generation counts."""
    apart = ("metadata", "status") if served.has_status or not served.custom else ("metadata",)
    names = (old.keys() | obj.keys()).difference(apart)
    return any(old.get(name) != obj.get(name) for name in names)


def stored(served: Served, obj: Object) -> Object:
    """The object as it is stored: in the storage version."""
    if obj["apiVersion"] == served.storage_version:
        return obj
    return {**obj, "apiVersion": served.storage_version}
