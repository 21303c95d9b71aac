"""One patch from the body of a request to the patched document, and the words for what goes wrong on the way.

What comes out still has to be decoded as an object of its kind. A document that cannot be is the patch's fault, and is
answered with 422 and the document (or, for a strategic merge patch, the patch) in the message: `Patched.refused`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, fields
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.schema.model import Schema
from steelyard.kube.server.bodies import bodies, strictness, typechecks
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.call import Call, Payload
from steelyard.kube.server.patch import jsonpatch, mergepatch, quoting, strategic, structs

_MAP: Final = "map[string]interface {}"


@frozen
class Target:
    """What is patched: `resource` names its Go type, unless it is `custom` and has none."""

    resource: Resource
    schema: Schema
    custom: bool = False

    @property
    def type_name(self) -> str | None:
        resource = self.resource
        return None if self.custom else tables.type_name(resource.group, resource.version, resource.kind)


@frozen
class Patched:
    document: Any
    """It shares parts with the current object and with the patch: decode it before changing anything."""
    quoted: Callable[[], str]
    complaints: list[str] = field(default_factory=list[str])
    """What `fieldValidation` has to say about the patch itself."""
    is_converted: bool = False
    """Its types have been checked: it is the result of a strategic merge patch."""

    def refused(self, reason: str) -> errors.Invalid:
        return errors.invalid("", "", "", [fields.invalid("patch", self.quoted(), reason)])


def apply(target: Target, call: Call, current: Object, wanted: WriteOptions) -> Patched:
    """Raises BadRequest for what is no patch, Invalid for one that does not fit."""
    is_strict = wanted.field_validation != "Ignore"
    match call.patch_type:
        case "json":
            return _json_patch(target, call, current, is_strict=is_strict)
        case "merge":
            return _merge_patch(target, call, current, is_strict=is_strict)
        case _:
            return _strategic_patch(target, call, current, is_strict=is_strict)


def _json_patch(target: Target, call: Call, current: Object, *, is_strict: bool) -> Patched:
    try:
        bodies.read_patch(call)
    except bodies.Unreadable as error:
        raise errors.BadRequest(f"error decoding patch: {error}" if is_strict else str(error)) from None
    operations = jsonpatch.operations(call.body, is_strict=is_strict)
    complaints: list[str] = []
    if is_strict and (jsonpatch.has_other_fields(operations) or _is_repetitive(call)):
        complaints = strictness.of_json_patch(call.payload, operations)
    patched = jsonpatch.apply(current, operations)

    def quoted() -> str:
        original = _in_order(target, current)
        return quoting.document(original, jsonpatch.apply(original, operations), operations)

    return Patched(patched, quoted, complaints)


def _merge_patch(target: Target, call: Call, current: Object, *, is_strict: bool) -> Patched:
    try:
        bodies.read_patch(call)
    except bodies.Unreadable as error:
        raise errors.BadRequest(f"error decoding patch: {error}" if is_strict else mergepatch.INVALID) from None
    patch = call.body
    if is_strict and patch is not None and not isinstance(patch, dict):
        what = typechecks.describe(patch)
        raise errors.BadRequest(f"error decoding patch: json: cannot unmarshal {what} into Go value of type {_MAP}")
    complaints = strictness.of_untyped(call.payload) if is_strict and _is_repetitive(call) else []
    patched = mergepatch.apply(current, patch)

    def quoted() -> str:
        original = _in_order(target, current)
        return quoting.document(original, mergepatch.apply(original, patch))

    return Patched(patched, quoted, complaints)


def _strategic_patch(target: Target, call: Call, current: Object, *, is_strict: bool) -> Patched:
    try:
        bodies.read_patch(call)
    except bodies.Unreadable as error:
        raise errors.BadRequest(str(error)) from None
    patch = cast(Any, {}) if call.body is None else call.body
    if not isinstance(patch, dict):
        what = typechecks.describe(patch)
        raise errors.BadRequest(f"json: cannot unmarshal {what} into Go value of type {_MAP}")
    complaints = strictness.of_untyped(call.payload) if is_strict and _is_repetitive(call) else []
    document = strategic.apply(target.schema, current, cast(Object, patch))
    name = target.type_name
    try:
        converted = structs.convert(name, document) if name is not None else document
    except structs.Inconvertible as error:
        reason = str(error)
        raise Patched(document, lambda: fields.go_value(patch)).refused(reason) from None
    return Patched(converted, lambda: fields.go_value(patch), complaints, is_converted=True)


def _is_repetitive(call: Call) -> bool:
    payload: Payload | None = call.payload
    return payload is not None and strictness.is_repetitive(payload, orjson.dumps(call.body))


def _in_order(target: Target, current: Object) -> Object:
    """As upstream writes the object before it is patched."""
    name = target.type_name
    if name is None:
        return cast(Object, orjson.loads(orjson.dumps(current, option=orjson.OPT_SORT_KEYS)))
    return quoting.in_go_order(name, cast(Object, orjson.loads(orjson.dumps(current))))
