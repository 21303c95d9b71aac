"""The scale subresource: one shape for how many replicas anything has.

Reading makes a Scale (autoscaling/v1) from the object; writing one is decided on the Scale (its type, its managers),
then changes the object's replica count and goes the way of every update, so that validation and generation are those of
the object.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube import errors, fields, objects
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.apply import apply, managedfields, scaling
from steelyard.kube.server.apply.fieldset import FieldSet
from steelyard.kube.server.bodies import bodies, decoding
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.candidates import candidates
from steelyard.kube.server.candidates.candidates import Candidate
from steelyard.kube.server.catalogue import scales
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, shown, view
from steelyard.kube.server.patch import patching
from steelyard.kube.server.patch.patching import Target
from steelyard.kube.server.verbs import writing
from steelyard.kube.store.record import Record

_SCALE: Final = Served(
    Resource("autoscaling", "v1", "scales", "Scale"),
    tables.schema("autoscaling", "v1", "Scale"),
    go_type="autoscaling/v1.Scale",
)
_UNSET: Final = -(1 << 31)
"""What upstream puts into the Scale of a custom resource that has no replicas yet, to see whether a write sets them."""


async def get_scale(core: Core, served: Served, call: Call) -> Reply:
    record = core.store.get(core.key(served.resource, call.namespace, call.name))
    if record is None:
        raise errors.not_found(served.group_resource, call.name)
    obj = (await shown(core, served, record)).object
    if served.custom and objects.at(obj, *scales.paths(served).spec_replicas) is None:
        raise errors.internal(f"the spec replicas field {fields.quote(_path(served))} does not exist")
    return Reply(200, scales.of(served, obj))


async def update_scale(core: Core, served: Served, call: Call) -> Reply:
    wanted = parameters.write_options(call.options, "UpdateOptions")

    async def attempt() -> Reply:
        candidate = _decoded(served, call, wanted)
        writing.check_identity(served, candidate.obj, call)
        record = await _head(core, served, call)
        scale = _tracked(_current(served, record), candidate.obj, wanted, core.timestamp())
        return await _set(core, served, call, record, Candidate(scale, candidate.warnings), wanted)

    return await writing.retried(served, call, attempt)


def _decoded(served: Served, call: Call, wanted: WriteOptions) -> Candidate:
    try:
        bodies.read_object(call, _SCALE.resource.kind)
        return candidates.decode(_SCALE, call.body, wanted, call.payload)
    except errors.BadRequest:
        if served.custom is None:
            raise
        # Upstream's server of custom resources has no name for the type when it comes to telling what is wrong.
        raise errors.BadRequest(decoding.unregistered_type("v1.Scale")) from None


async def patch_scale(core: Core, served: Served, call: Call) -> Reply:
    bodies.settle_patch_type(call, mergeable=not served.custom)
    wanted = parameters.write_options(call.options, "PatchOptions", patch=call.patch_type)
    target = Target(_SCALE.resource, _SCALE.schema)

    async def attempt() -> Reply:
        if call.patch_type == "apply":
            bodies.read_applied(call)
        record = await _head(core, served, call)
        current = _current(served, record)
        if call.patch_type == "apply":
            configuration = writing.applied(_SCALE, call.body)
            merged = apply.apply(
                _SCALE.schema,
                current,
                configuration,
                blank=_SCALE.blank,
                manager=wanted.manager,
                force=wanted.force,
                api_version=scaling.API_VERSION,
                now=core.timestamp(),
                subresource="scale",
            )
            candidate = Candidate(candidates.merged(_SCALE, merged, configuration))
        else:
            candidate = candidates.decode_patched(_SCALE, patching.apply(target, call, current, wanted), wanted)
            candidate.obj = _tracked(current, candidate.obj, wanted, core.timestamp())
        writing.check_identity(served, candidate.obj, call)
        return await _set(core, served, call, record, candidate, wanted)

    return await writing.retried(served, call, attempt)


async def _head(core: Core, served: Served, call: Call) -> Record:
    """The object to scale; an update misses one of a built-in kind by the name of the subresource."""
    try:
        return await shown(core, served, core.head(served.resource, call.namespace, call.name))
    except errors.NotFound:
        if served.custom or call.verb == "patch":
            raise
        raise errors.not_found(_group_resource(served), call.name) from None


def _group_resource(served: Served) -> str:
    plural, dot, group = served.group_resource.partition(".")
    return f"{plural}/scale{dot}{group}"


def _path(served: Served) -> str:
    return "." + ".".join(scales.paths(served).spec_replicas)


def _current(served: Served, record: Record) -> Object:
    """The Scale before the write, with its managers."""
    obj = view(record, served)
    scale = scales.of(served, obj)
    if served.custom and objects.at(obj, *scales.paths(served).spec_replicas) is None:
        scale["spec"] = {"replicas": _UNSET}
    entries = scaling.to_scale(managedfields.stored(obj), FieldSet.of(scales.paths(served).spec_replicas))
    return managedfields.with_managed(scale, entries)


def _tracked(current: Object, scale: Object, wanted: WriteOptions, now: str) -> Object:
    return apply.track_update(
        _SCALE.schema,
        current,
        scale,
        manager=wanted.manager,
        api_version=scaling.API_VERSION,
        now=now,
        subresource="scale",
    )


async def _set(core: Core, served: Served, call: Call, record: Record, scale: Candidate, wanted: WriteOptions) -> Reply:
    replicas = objects.at(scale.obj, "spec", "replicas") or 0
    _judge(served, call, record, scale.obj, replicas)
    obj = objects.copy(view(record, served))
    own, given = objects.metadata(obj), objects.metadata(scale.obj)
    own["resourceVersion"] = given.get("resourceVersion") or own["resourceVersion"]
    own["uid"] = given.get("uid") or own["uid"]
    scales.put(served, obj, replicas)
    entries = scaling.to_parent(
        managedfields.stored(obj),
        managedfields.stored(scale.obj),
        FieldSet.of(scales.paths(served).spec_replicas),
        served.resource.api_version,
    )
    candidate = Candidate(managedfields.with_managed(obj, entries), scale.warnings, is_tracked=True)
    as_update = Call(
        "update", call.group, call.version, call.plural, call.user, call.namespace, call.name, "scale", call.options
    )
    reply = await writing.replace(core, served, as_update, record, candidate, wanted)
    result = reply.record.object if reply.record is not None else objects.mapping(reply.body)
    return Reply(200, scales.of(served, result), warnings=reply.warnings)


def _judge(served: Served, call: Call, record: Record, scale: Object, replicas: int) -> None:
    if served.custom:
        if replicas == _UNSET:
            raise errors.BadRequest(f"the spec replicas field {fields.quote(_path(served))} cannot be empty")
        return
    if replicas < 0:
        cause = fields.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("autoscaling", "Scale", call.name, [cause])
    uid, current = objects.uid(scale), objects.uid(record.object)
    if call.verb == "patch" and uid and uid != current:
        message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise errors.conflict(_group_resource(served), call.name, message)
