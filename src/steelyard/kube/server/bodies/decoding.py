"""Tells what a decoded body says it is, and refuses one that is no object of the kind that was asked for.

The order of the checks and all texts are those of upstream's decoders: first the kind, then the types of the fields. A
custom resource has Go types in its metadata alone; the rest is judged by its schema, later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from steelyard.kube import errors, fields
from steelyard.kube.builtin import tables, types
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.bodies import bodies, syntax, typechecks
from steelyard.kube.server.call import Call, Payload

_SCHEME: Final = "pkg/runtime/scheme.go:110"
"""What upstream's registry of kinds calls itself in messages."""
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_OWN_SCHEMES: Final = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
"""Groups whose servers know no kinds but their own."""


class Undecodable(Exception):
    """Why a value is no object of its kind. `kind` and `version` are what it says it is, empty if that is unclear."""

    def __init__(self, reason: str, kind: str = "", version: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind
        self.version = version


class KindMissing(Undecodable):
    """A custom resource that does not say what it is. Where odd fields are ignored it counts as the expected kind."""


def read(resource: Resource, call: Call) -> Object:
    """The body of a create as an object of a built-in kind. Raises BadRequest and UnsupportedMediaType."""
    bodies.read_object(call, resource.kind)
    try:
        check(resource, call.body)
    except Undecodable as error:
        raise refusal(resource, error, call.payload, call.body) from None
    return cast(Object, call.body or {})


def refusal(
    resource: Resource, error: Undecodable, payload: Payload | None = None, value: Any = None
) -> errors.BadRequest:
    """The answer to a create or update; `value` is what was decoded from the payload."""
    if not error.kind:
        return bodies.unrecognized(resource.kind, error.reason, payload)
    reason = _as_written(resource, error.reason, payload, value)
    return errors.BadRequest(
        f'{error.kind} in version "{error.version}" cannot be handled as a {resource.kind}: {reason}'
    )


def _as_written(resource: Resource, reason: str, payload: Payload | None, value: Any) -> str:
    """Decoding has turned `1e3` into 1000.0, but upstream quotes the body. YAML it reads by way of sorted JSON."""
    name = tables.type_name(resource.group, resource.version, resource.kind)
    if payload is None or name is None:
        return reason
    if payload.form == "yaml":
        in_order = orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
        return typechecks.problem(name, in_order) or reason
    if payload.form != "json" or "unmarshal number " not in reason:
        return reason
    written = syntax.reread(payload.data, parse_float=typechecks.Literal)
    return typechecks.problem(name, written) or reason


def interpret(value: Any) -> tuple[str, str, str]:
    """The group, version and kind that a value names, each empty where it does not. Raises Undecodable."""
    if value is None:
        return "", "", ""
    if not isinstance(value, dict):
        raise _untold(f"{typechecks.describe(value)} into Go value of type {_TYPE_META}")
    fields = cast(Object, value)
    for name, item in fields.items():
        if name in ("apiVersion", "kind") and item is not None and not isinstance(item, str):
            raise _untold(f"{typechecks.describe(item)} into Go struct field .{name} of type string")
    api_version = str(fields.get("apiVersion") or "")
    group, _, version = api_version.rpartition("/")
    if "/" in group:
        raise Undecodable(f"unexpected GroupVersion string: {api_version}")
    return group, version, str(fields.get("kind") or "")


def _untold(what: str) -> Undecodable:
    return Undecodable(f"couldn't get version/kind; json parse error: json: cannot unmarshal {what}")


def check(resource: Resource, value: Any) -> None:
    """Raises Undecodable for what is no object of a built-in kind, and BadRequest for one of another version of it."""
    group, version, kind = interpret(value)
    kind = kind or resource.kind
    if not version:
        group, version = group or resource.group, resource.version
    name = _registered(resource, group, version, kind)
    if name is None:
        raise Undecodable(unregistered(group, version, kind), kind, version)
    problem = typechecks.problem(name, value) if types.exists(name) else ""
    if problem:
        raise Undecodable(problem, kind, version)
    if (group, version, kind) == (resource.group, resource.version, resource.kind):
        return
    is_event = kind == resource.kind == "Event"
    if is_event or (group, kind) == (resource.group, resource.kind):
        # The events of both groups are the same thing inside.
        raise other_version(f"{group}/{version}" if group else version, resource)
    own = tables.type_name(resource.group, resource.version, resource.kind) or ""
    internal = f"{own.partition('/')[0]}.{resource.kind}"
    raise Undecodable(f"converting ({version}.{kind}) to ({internal}): unknown conversion", kind, version)


def unregistered(group: str, version: str, kind: str) -> str:
    api_version = f"{group}/{version}" if group else version
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{_SCHEME}"'


def unregistered_type(name: str) -> str:
    return f'no kind is registered for the type {name} in scheme "{_SCHEME}"'


def _registered(resource: Resource, group: str, version: str, kind: str) -> str | None:
    """The type behind a kind, if upstream's decoder of this resource knows the kind."""
    is_foreign = group != resource.group and bool({group, resource.group} & _OWN_SCHEMES)
    if is_foreign or not tables.serves(group, version):
        return None
    item = kind.removesuffix("List")
    name = tables.type_name(group, version, kind)
    return name or (f"{item}List" if tables.type_name(group, version, item) else None)


def other_version(api_version: str, resource: Resource) -> errors.BadRequest:
    return errors.BadRequest(
        f"the API version in the data ({api_version}) does not match the expected API version ({resource.api_version})"
    )


def check_custom(resource: Resource, value: Any, quoted: Callable[[], str]) -> None:
    """The same for a custom resource, whose apiVersion and kind are judged by `candidates`. `quoted` gives its text."""
    _, version, kind = interpret(value)
    if not kind:
        raise KindMissing(f"Object 'Kind' is missing in '{quoted()}'")
    metadata: Any = cast(Object, value).get("metadata")
    problem = typechecks.problem(types.OBJECT_META, metadata)
    if problem and isinstance(metadata, dict):
        # Upstream encodes metadata on its way from one form to the other, which sorts it.
        problem = typechecks.problem(types.OBJECT_META, dict(sorted(cast(Object, metadata).items())))
    if problem:
        raise Undecodable(problem, kind, version)


def check_embedded(resource: Resource, place: str, value: Object) -> None:
    """An object inside a custom resource has Go types in its metadata as well. Raises Undecodable."""
    for key in ("apiVersion", "kind", "metadata"):
        if key not in value:
            continue
        if key == "metadata":
            problem = typechecks.problem(types.OBJECT_META, value[key])
        else:
            problem = "" if isinstance(value[key], str) else "must be a string"
        if problem:
            cause = fields.invalid(f"{place}.{key}", value[key], problem)
            raise Undecodable(f"{cause.field}: {cause.message}", resource.kind, resource.version)


def text_of(value: Any, payload: Payload | None) -> str:
    """The body as it was sent, for a message that quotes it."""
    return payload.data.decode("utf-8", "replace") if payload is not None else orjson.dumps(value).decode()
