"""create, update, patch and apply: from a request body to a stored object.

Every write is decided on the object's newest state (`store.head`) and queued in the same step of the event loop, so a
conflict is always one between clients and never one with a write that is still on its way to the disk. Where webhooks
are asked in between, the write expects the state that it was decided on, and is decided anew if there is another
(`retried`). So it is with large objects, whose pure stages are gone through beside the event loop (`lane`). What
changes nothing writes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from steelyard.kube import errors, fields, objects, uids
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from steelyard.kube.server.admission import passage
from steelyard.kube.server.admission.passage import Overtaken
from steelyard.kube.server.apply import apply
from steelyard.kube.server.bodies import bodies, strictness
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.candidates import candidates, completing, plain
from steelyard.kube.server.candidates.candidates import Candidate
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, durable, shown, stored, view
from steelyard.kube.server.fairness import budgets, lane
from steelyard.kube.server.patch import patching
from steelyard.kube.server.patch.patching import Target
from steelyard.kube.server.space import keys
from steelyard.kube.server.strategies import metadata as naming
from steelyard.kube.server.verbs import deleting, reading
from steelyard.kube.server.verbs.addresses import Services
from steelyard.kube.store.errors import Mismatch
from steelyard.kube.store.record import Record

_ATTEMPTS: Final = 8
_OTHER_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"
_OVERTAKEN: Final = 32
"""How often a write is decided anew before its client is told of the conflict."""
_FEW_COPIES: Final = 200
"""Bytes of a JSON patch that holds one copy or two at most."""
MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


async def retried(served: Served, call: Call, attempt: Callable[[], Awaitable[Reply]]) -> Reply:
    """Makes an attempt until none comes in between: that can happen only while webhooks are asked."""
    for _ in range(_OVERTAKEN):
        try:
            return await attempt()
        except (Mismatch, Overtaken):
            continue
    raise errors.conflict(served.group_resource, call.name, MODIFIED)


async def create(core: Core, served: Served, call: Call) -> Reply:
    wanted = parameters.write_options(call.options)
    bodies.read_object(call, served.resource.kind)
    if served.strategy.holds_texts and core.webhooks.plan(served, "", "CREATE") is None:
        obj = plain.new(served, call, wanted, core.timestamp())
        if obj is not None:
            return await _insert_plain(core, served, call, obj, wanted)

    async def attempt() -> Reply:
        candidate = (
            candidates.decode(served, call.body, wanted, call.payload)
            if call.is_light
            else await lane.SHARED.run(call.flow, candidates.decode, served, call.body, wanted, call.payload)
        )
        with candidates.warned(candidate):
            return await insert(core, served, call, candidate, wanted)

    return await retried(served, call, attempt)


async def _insert_plain(core: Core, served: Served, call: Call, obj: Object, wanted: WriteOptions) -> Reply:
    """What is left of `insert` for an object with which nothing is wrong and that nobody else is asked about."""
    metadata: Object = obj["metadata"]
    _check_namespace(core, served, metadata)
    core.guard(served, call, obj, None)
    key = core.key(served.resource, call.namespace, metadata["name"])
    _check_absent(core, served, key, metadata["name"])
    if wanted.dry_run:
        return reading.of_object(core, served, obj, call, 201)
    record = await durable(core.put(key, obj, expect=0, charged=True))
    return reading.of_record(core, served, record, call, 201)


def _check_absent(core: Core, served: Served, key: str, name: str) -> None:
    present = core.store.head(key)
    if present is not None:
        is_going = objects.is_being_deleted(present.object)
        raise errors.already_exists(served.resource.group_resource, name, is_going=is_going)


async def insert(core: Core, served: Served, call: Call, candidate: Candidate, wanted: WriteOptions) -> Reply:
    resource = served.resource
    metadata: Object = candidate.obj["metadata"]
    if call.name:
        metadata.setdefault("name", call.name)
    _settle_namespace(served, metadata, call.namespace)
    _check_namespace(core, served, metadata)
    candidates.check_kind(served, candidate.obj)
    _weigh_definition(served, call)
    if served.custom is not None and core.stamps:
        _stamp(core, served, call, candidate.obj, None)
    admission = passage.of_write(core, served, call, wanted, "CREATE")
    if admission is not None:
        if call.is_light:
            completing.prepare_new(served, candidate, wanted, core.timestamp())
        else:
            await lane.SHARED.run(call.flow, completing.prepare_new, served, candidate, wanted, core.timestamp())
        await admission.mutate(candidate)
        metadata = candidate.obj["metadata"]
        _settle_namespace(served, metadata, call.namespace)
        _check_namespace(core, served, metadata)
    if served.terminating:
        message = "create not allowed while custom resource definition is terminating"
        raise errors.forbidden(resource.group_resource, str(metadata.get("name") or ""), message)
    core.guard(served, call, candidate.obj, None)
    _generate_name(core, served, call.namespace, metadata)
    if admission is not None:
        admission.name(str(metadata.get("name") or ""))
    key = core.key(resource, call.namespace, str(metadata.get("name") or ""))
    finish = _finish(core, served)
    stamp = str(metadata.get("resourceVersion") or "")
    if call.is_light:
        obj = completing.new(served, candidate, wanted, core.timestamp(), finish)
    else:
        obj = await lane.SHARED.run(call.flow, _new, served, candidate, wanted, core.timestamp())
        completing.finish(served, obj, finish)
    if served.strategy.involves_caller:
        served.strategy.involve(obj, None, call, core)
    if admission is not None:
        await admission.validate(obj, candidate)
    if parameters.is_revision(stamp) and not wanted.dry_run:
        raise errors.Unclassified("resourceVersion should not be set on objects to be created")
    _check_absent(core, served, key, metadata["name"])
    if wanted.dry_run:
        if stamp:
            # Nothing gives it another version, so it is shown with the one that it came with.
            obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": stamp}}
        return _reply(core, served, obj, call, candidate, 201)
    state = await stored(core, served, obj)
    if admission is not None or served.conversion is not None or not call.is_light:
        _check_namespace(core, served, metadata)
        _check_allocations(finish, obj)
    record = await durable(core.put(key, state, expect=0, charged=True))
    return _reply(core, served, await shown(core, served, record), call, candidate, 201)


def _check_allocations(finish: completing.Finish | None, obj: Object) -> None:
    """What an object was given before webhooks were asked must still be free."""
    if finish is not None and finish(obj):
        raise Overtaken


async def update(core: Core, served: Served, call: Call) -> Reply:
    wanted = parameters.write_options(call.options, "UpdateOptions")
    bodies.read_object(call, served.resource.kind)

    async def attempt() -> Reply:
        candidate = (
            candidates.decode(served, call.body, wanted, call.payload)
            if call.is_light
            else await lane.SHARED.run(call.flow, candidates.decode, served, call.body, wanted, call.payload)
        )
        with candidates.warned(candidate):
            check_identity(served, candidate.obj, call)
            record = core.store.head(core.key(served.resource, call.namespace, call.name))
            if record is None and served.strategy.creates_on_update and not call.subresource:
                _check_uid(served, call, candidate.obj, "")
                _forget_version(candidate.obj["metadata"], wanted)
                return await insert(core, served, call, candidate, wanted)
            record = await shown(core, served, core.head(served.resource, call.namespace, call.name))
            return await replace(core, served, call, record, candidate, wanted)

    return await retried(served, call, attempt)


def _forget_version(metadata: Object, wanted: WriteOptions) -> None:
    """What an update creates gets a version of its own; a dry run leaves the one that it came with."""
    if problem := parameters.unsigned_problem(str(metadata.get("resourceVersion") or "0")):
        raise errors.Unclassified(problem)
    if not wanted.dry_run:
        metadata.pop("resourceVersion", None)


async def patch(core: Core, served: Served, call: Call) -> Reply:
    bodies.settle_patch_type(call, mergeable=not served.custom)
    wanted = parameters.write_options(call.options, "PatchOptions", patch=call.patch_type)
    target = Target(served.resource, served.schema, custom=served.custom is not None)

    async def attempt() -> Reply:
        if call.patch_type == "apply":
            return await _apply(core, served, call, wanted)
        record = await shown(core, served, core.head(served.resource, call.namespace, call.name))
        _weigh(call, record)
        candidate = (
            _patched(served, target, call, record, wanted)
            if call.is_light
            else await lane.SHARED.run(call.flow, _patched, served, target, call, record, wanted)
        )
        with candidates.warned(candidate):
            check_identity(served, candidate.obj, call)
            return await replace(core, served, call, record, candidate, wanted)

    return await retried(served, call, attempt)


def _patched(served: Served, target: Target, call: Call, record: Record, wanted: WriteOptions) -> Candidate:
    patched = patching.apply(target, call, view(record, served), wanted)
    if not call.is_light:
        budgets.check_object(patched.document)
    return candidates.decode_patched(served, patched, wanted)


def _weigh(call: Call, record: Record) -> None:
    """A small patch of a large object is as much work as the object, and one that copies may make a large one."""
    if not call.is_light:
        return
    if record.size > budgets.LIGHT_BYTES:
        call.is_light = budgets.is_light(record.value)
    if call.patch_type == "json" and call.payload is not None and len(call.payload.data) > _FEW_COPIES:
        call.is_light = call.is_light and not any(mark in call.payload.data for mark in (b"copy", b"\\u"))


def _weigh_definition(served: Served, call: Call) -> None:
    """To judge a small definition may take seconds; those that the platform brings are known not to."""
    if served.resource == CUSTOM_RESOURCE_DEFINITIONS and call.flow is not None:
        call.is_light = False


def _new(served: Served, candidate: Candidate, wanted: WriteOptions, now: str) -> Object:
    obj = completing.new(served, candidate, wanted, now)
    budgets.check_object(obj)
    return obj


def _changed(
    served: Served, old: Object, candidate: Candidate, wanted: WriteOptions, now: str, subresource: str
) -> Object:
    obj = completing.changed(served, old, candidate, wanted, now, subresource)
    if obj is not old:
        budgets.check_object(obj)
    return obj


async def replace(
    core: Core, served: Served, call: Call, record: Record, candidate: Candidate, wanted: WriteOptions
) -> Reply:
    """Makes the candidate the object's next state. The record must be the newest, in the served version; should it no
    longer be when webhooks have answered, this raises Mismatch.
    """
    _weigh_definition(served, call)
    _weigh(call, record)
    _check_preconditions(served, call, record, candidate.obj)
    candidates.check_kind(served, candidate.obj)
    old = view(record, served)
    if served.custom is not None and core.stamps:
        _stamp(core, served, call, candidate.obj, old)
    admission = passage.of_write(core, served, call, wanted, "UPDATE", old)
    if admission is not None:
        prepared = (served, old, candidate, wanted, core.timestamp(), call.subresource)
        if call.is_light:
            completing.prepare_changed(*prepared)
        else:
            await lane.SHARED.run(call.flow, completing.prepare_changed, *prepared)
        await admission.mutate(candidate)
    core.guard(served, call, candidate.obj, old)
    finish = None if call.subresource else _finish(core, served)
    if call.is_light:
        obj = completing.changed(served, old, candidate, wanted, core.timestamp(), call.subresource, finish)
    else:
        changed = (served, old, candidate, wanted, core.timestamp(), call.subresource)
        obj = await lane.SHARED.run(call.flow, _changed, *changed)
        if obj is not old:
            completing.finish(served, obj, finish)
    if call.payload is not None and record.size + len(call.payload.data) > budgets.MAX_BODY_BYTES:
        budgets.check_object(obj)
    if served.strategy.involves_caller:
        served.strategy.involve(obj, old, call, core)
    if admission is not None:
        await admission.validate(obj, candidate)
    if obj is old and _is_as_stored(core, served, record):
        core.check_newest(record)
        await core.settle(record)
        return _reply(core, served, record, call, candidate)
    if obj is old:
        obj = {**obj, "metadata": {**objects.metadata(obj)}}
    if wanted.dry_run:
        return _reply(core, served, obj, call, candidate)
    state = await stored(core, served, obj)
    if admission is not None or not call.is_light:
        core.check_newest(record)
        _check_allocations(finish, obj)
    written = await durable(deleting.replace(core, record, state))
    if deleting.is_over(state):
        # The client asked for this state, so it gets it, though it was never stored and has no revision of its own.
        unstored = {**obj, "metadata": {**objects.metadata(obj), "resourceVersion": str(record.revision)}}
        return _reply(core, served, unstored, call, candidate)
    return _reply(core, served, await shown(core, served, written), call, candidate)


def _stamp(core: Core, served: Served, call: Call, obj: Object, old: Object | None) -> None:
    stamp = core.stamps.get((served.resource.group, served.resource.plural))
    if stamp is not None and not call.subresource:
        stamp(obj, old, call.user.name, call.user.groups)


def _is_as_stored(core: Core, served: Served, record: Record) -> bool:
    """Whether to store it again would change nothing: its definition may have changed since."""
    return served.custom is None or served.conversion is not None or core.store.head(record.key) is record


def _finish(core: Core, served: Served) -> completing.Finish | None:
    """What makes an object of this kind depend on others: addresses of services."""
    if served.custom:
        return None
    match served.resource.plural:
        case "services":
            return lambda obj: served.strategy.allocate(obj, Services(core, objects.uid(obj)))
        case _:
            return None


async def _apply(core: Core, served: Served, call: Call, wanted: WriteOptions) -> Reply:
    bodies.read_applied(call)
    configuration = applied(served, call.body)
    record = core.store.head(core.key(served.resource, call.namespace, call.name))
    record = await shown(core, served, record) if record is not None else None
    if record is None and call.subresource:
        raise errors.not_found(served.group_resource, call.name)
    live = view(record, served) if record is not None else None
    if record is not None:
        _weigh(call, record)
    applying = (served, live, configuration, wanted, core.timestamp(), call.subresource)
    is_same, obj = _merged(*applying) if call.is_light else await lane.SHARED.run(call.flow, _merged, *applying)
    candidate = Candidate(obj, _repeated(call, wanted), is_tracked=True)
    metadata: Object = candidate.obj["metadata"]
    if record is None and metadata.get("uid"):
        message = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        raise errors.conflict(served.group_resource, call.name, message)
    check_identity(served, candidate.obj, call)
    if record is None:
        # Upstream creates what is not there, whichever revision the applier believed it to have.
        _forget_version(metadata, wanted)
        return await insert(core, served, call, candidate, wanted)
    is_unchanged = is_same and _is_as_stored(core, served, record)
    if is_unchanged and core.webhooks.plan(served, call.subresource, "UPDATE") is None:
        core.check_newest(record)
        await core.settle(record)
        return _reply(core, served, record, call, candidate)
    return await replace(core, served, call, record, candidate, wanted)


def _merged(
    served: Served, live: Object | None, configuration: Object, wanted: WriteOptions, now: str, subresource: str
) -> tuple[bool, Object]:
    """Whether the live object is what was applied already, and what comes of applying it."""
    merged = apply.apply(
        served.schema,
        live,
        configuration,
        blank=served.blank,
        manager=wanted.manager,
        force=wanted.force,
        api_version=served.resource.api_version,
        now=now,
        subresource=subresource,
        ignored=completing.reset_fields(served, subresource),
    )
    return merged is live, candidates.merged(served, merged, configuration)


def applied(served: Served, body: Any) -> Object:
    """What was applied, as it was sent: it must say itself what it is, and means only what it mentions."""
    try:
        configuration = objects.copy(cast(Object, body))
    except TypeError as error:
        raise errors.BadRequest(f"the object is not JSON: {error}") from None
    api_version, kind = objects.text(configuration, "apiVersion"), objects.text(configuration, "kind")
    if (api_version, kind) != (served.resource.api_version, served.resource.kind):
        group_version = api_version if "/" in api_version else f"/{api_version}"
        raise errors.BadRequest(f"invalid object type: {group_version}, Kind={kind}")
    return configuration


def _repeated(call: Call, wanted: WriteOptions) -> tuple[str, ...]:
    """Warnings of the keys that an applied object gives twice; judged last, as upstream does."""
    if call.payload is None or not call.payload.repeated or wanted.field_validation == "Ignore":
        return ()
    complaints = strictness.of_yaml(call.payload)
    if wanted.field_validation == "Strict":
        raise errors.BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {complaints[0]}")
    return strictness.warnings(complaints)


def _generate_name(core: Core, served: Served, namespace: str, metadata: Object) -> None:
    prefix = metadata.get("generateName")
    if metadata.get("name"):
        return
    if not prefix:
        if served.strategy.names_itself:
            metadata["name"] = uids.new()
        return
    for _ in range(_ATTEMPTS):
        suffix = "".join(random.choices(naming.SUFFIX_ALPHABET, k=naming.SUFFIX_LENGTH))  # noqa: S311 no secret
        metadata["name"] = naming.generate_name(str(prefix), suffix)
        if core.store.head(core.key(served.resource, namespace, metadata["name"])) is None:
            return


def _settle_namespace(served: Served, metadata: Object, namespace: str) -> None:
    """The object takes the namespace of the request, or none if its kind has none; a differing one is refused."""
    given = metadata.get("namespace")
    if not served.resource.namespaced:
        metadata.pop("namespace", None)
        return
    if given and given != namespace:
        raise errors.BadRequest(_OTHER_NAMESPACE)
    if not namespace:
        raise errors.BadRequest("an empty namespace may not be set during creation")
    metadata["namespace"] = namespace


def _check_namespace(core: Core, served: Served, metadata: Object) -> None:
    if not served.resource.namespaced:
        return
    name = metadata["namespace"]
    namespace = core.namespace(name)
    if namespace is None:
        raise errors.not_found("namespaces", name)
    if objects.is_being_deleted(namespace):
        message = f"unable to create new content in namespace {name} because it is being terminated"
        cause = Cause("metadata.namespace", "NamespaceTerminating", f"namespace {name} is being terminated")
        raise errors.forbidden(served.resource.group_resource, str(metadata.get("name") or ""), message, [cause])


def check_identity(served: Served, obj: Object, call: Call) -> None:
    metadata: Object = obj["metadata"]
    name = metadata.get("name")
    if not name:
        raise errors.BadRequest(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise errors.BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    namespace = metadata.get("namespace")
    if served.resource.namespaced and namespace and namespace != call.namespace:
        if call.verb == "patch":
            raise errors.BadRequest(_OTHER_NAMESPACE)
        raise errors.BadRequest(
            f"the namespace of the object ({namespace}) does not match the namespace on the request ({call.namespace})"
        )


def _check_preconditions(served: Served, call: Call, record: Record, obj: Object) -> None:
    """The uid and resourceVersion that the object brings must be those of the stored one, as far as it has to have any.

    The uid of an update says which object is meant; that of a patch is a change like any other.
    """
    metadata: Object = obj["metadata"]
    name = objects.name(record.object)
    if call.verb != "patch":
        _check_uid(served, call, obj, objects.uid(record.object))
    version = str(metadata.get("resourceVersion") or "")
    if version and version != str(record.revision):
        if problem := parameters.unsigned_problem(version):
            raise errors.Unclassified(problem)
        if int(version):
            raise errors.conflict(served.group_resource, name, MODIFIED)
        version = ""
    is_conditional = served.custom is not None or served.resource.plural in _CONDITIONAL
    if not version and is_conditional and call.subresource != "scale" and call.patch_type != "apply":
        cause = fields.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise errors.invalid(served.resource.group, served.resource.plural, name, [cause])


_CONDITIONAL: Final = frozenset({
    "apiservices", "csidrivers", "csinodes", "csistoragecapacities", "customresourcedefinitions", "leases",
    "mutatingwebhookconfigurations", "poddisruptionbudgets", "runtimeclasses", "validatingadmissionpolicies",
    "validatingadmissionpolicybindings", "validatingwebhookconfigurations", "volumeattachments",
})  # fmt: skip
"""Built-in kinds that are updated only by who knows the version to be replaced. So are all custom ones."""


def _check_uid(served: Served, call: Call, obj: Object, current: str) -> None:
    uid = objects.metadata(obj).get("uid")
    if not uid or uid == current:
        return
    place = keys.upstream(served.resource, call.namespace, call.name, custom=served.custom is not None)
    refusal = f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0"
    message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
    raise errors.conflict(served.group_resource, call.name, f"{refusal}, AdditionalErrorMsg: {message}")


def _reply(
    core: Core, served: Served, result: Record | Object, call: Call, candidate: Candidate, code: int = 200
) -> Reply:
    if isinstance(result, Record):
        reply = reading.of_record(core, served, result, call, code)
    else:
        reply = reading.of_object(core, served, result, call, code)
    reply.warnings = candidate.warnings
    return reply
