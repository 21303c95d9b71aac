"""The scale subresource: one shape for how many replicas anything has.

Reading makes a Scale (autoscaling/v1) from the object; writing one changes the object's replica count and goes the way
of every update, so that validation, generation and managed fields are those of the object.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.builtin import tables
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server import bodies, decoding, drafts, scales, writing
from steelyard.kube.server import options as parameters
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.core import Core, shown, view
from steelyard.kube.server.patch import patching
from steelyard.kube.server.patch.patching import Target
from steelyard.kube.server.registry import Served

_SCALE: Final = Resource("autoscaling", "v1", "scales", "Scale")
_SCALE_SCHEMA: Final = tables.schema("autoscaling", "v1", "Scale")
_MAX_REPLICAS = 2**31 - 1


async def get_scale(core: Core, served: Served, call: Call) -> Reply:
    record = core.store.get(core.key(served.resource, call.namespace, call.name))
    if record is None:
        raise errors.not_found(served.group_resource, call.name)
    return Reply(200, scales.of(served, (await shown(core, served, record)).object))


async def update_scale(core: Core, served: Served, call: Call) -> Reply:
    wanted = parameters.write_options(call.options, "UpdateOptions")
    scale = decoding.read(_SCALE, call)
    return await writing.retried(served, call, lambda: _set(core, served, call, scale, wanted))


async def patch_scale(core: Core, served: Served, call: Call) -> Reply:
    bodies.settle_patch_type(call, mergeable=not served.custom)
    wanted = parameters.write_options(call.options, "PatchOptions", patch=call.patch_type)
    target = Target(_SCALE, _SCALE_SCHEMA)

    async def attempt() -> Reply:
        if call.patch_type == "apply":
            bodies.read_applied(call)
        record = await shown(core, served, core.head(served.resource, call.namespace, call.name))
        current = scales.of(served, record.object)
        if call.patch_type == "apply":
            spec = objects.mapping(objects.mapping(call.body).get("spec"))
            return await _set(core, served, call, {**current, "spec": spec}, wanted)
        patched = patching.apply(target, call, current, wanted)
        try:
            decoding.check(_SCALE, patched.document)
        except decoding.Undecodable as error:
            raise patched.refused(error.reason) from None
        return await _set(core, served, call, patched.document, wanted)

    return await writing.retried(served, call, attempt)


async def _set(core: Core, served: Served, call: Call, scale: Object, wanted: parameters.WriteOptions) -> Reply:
    scales.paths(served)
    metadata = objects.mapping(scale.get("metadata"))
    if metadata.get("name") not in (None, "", call.name):
        raise errors.BadRequest(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({call.name})"
        )
    replicas = objects.at(scale, "spec", "replicas")
    replicas = 0 if replicas is None else replicas
    if not 0 <= replicas <= _MAX_REPLICAS:
        cause = errors.Cause(
            "spec.replicas",
            "FieldValueInvalid",
            f"Invalid value: {replicas}: must be greater than or equal to 0",
        )
        raise errors.invalid("autoscaling", "Scale", call.name, [cause])
    record = await shown(core, served, core.head(served.resource, call.namespace, call.name))
    obj = objects.copy(view(record, served))
    own: Object = obj["metadata"]
    own["resourceVersion"] = metadata.get("resourceVersion") or own["resourceVersion"]
    own["uid"] = metadata.get("uid") or own["uid"]
    scales.put(served, obj, replicas)
    draft = drafts.decode(served, obj, wanted)
    as_update = Call(
        "update", call.group, call.version, call.plural, call.user, call.namespace, call.name, "scale", call.options
    )
    reply = await writing.replace(core, served, as_update, record, draft, wanted)
    result = reply.record.object if reply.record is not None else objects.mapping(reply.body)
    return Reply(200, scales.of(served, result), warnings=reply.warnings)
