"""The eviction subresource of pods: a deletion that a PodDisruptionBudget can refuse.

    POST /api/v1/namespaces/a/pods/b/eviction {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "b"}}

Budgets are counted by a controller that watches pods; here one is asked, and told in its status which pod goes. Nothing
is awaited between asking and telling, so that two evictions never share what one of them was allowed. A pod goes as
with any deletion: at once, unless finalizers hold it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from steelyard.kube import errors, fields, objects, selectors
from steelyard.kube.builtin import tables
from steelyard.kube.errors import Cause
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.admission import passage
from steelyard.kube.server.bodies import bodies
from steelyard.kube.server.bodies import options as parameters
from steelyard.kube.server.bodies.options import DeleteOptions, WriteOptions
from steelyard.kube.server.call import Call, Reply
from steelyard.kube.server.candidates import candidates, completing
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core, durable
from steelyard.kube.server.verbs import deleting
from steelyard.kube.store.record import Record

_EVICTIONS: Final = Resource("policy", "v1", "evictions", "Eviction")
_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
_OLD_VERSION: Final = "policy/v1beta1"
_OTHER_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"
_OTHER_NAME: Final = "name in URL does not match name in Eviction object"
_SEVERAL: Final = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_VIOLATION: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_IGNORING_ERRORS: Final = "ignoreStoreReadErrorWithClusterBreakingPotential"
_UNGUARDED: Final = ("Succeeded", "Failed", "Pending")
_MOST_DISRUPTED: Final = 2000
_RETRY_SECONDS: Final = 10


async def evict(core: Core, pods: Served, call: Call) -> Reply:
    wanted = parameters.write_options(call.options)
    served = _evictions()
    bodies.read_object(call, _EVICTIONS.kind)
    body = call.body
    if isinstance(body, dict) and objects.mapping(body).get("apiVersion") == _OLD_VERSION:
        body = {**objects.mapping(body), "apiVersion": _EVICTIONS.api_version}
    candidate = candidates.decode(served, body, wanted, call.payload)
    with candidates.warned(candidate):
        if candidate.obj["metadata"].setdefault("namespace", call.namespace) != call.namespace:
            raise errors.BadRequest(_OTHER_NAMESPACE)
        admission = passage.of_write(core, pods, call, wanted, "CREATE", shape=served)
        if admission is not None:
            completing.prepare_new(served, candidate, wanted, core.timestamp(), "eviction")
            await admission.mutate(candidate)
        options = _options(candidate.obj, call, wanted)
        if admission is not None:
            await admission.validate(candidate.obj, candidate)
        return Reply(201, await _evicted(core, pods, call, options), warnings=candidate.warnings)


@functools.cache
def _evictions() -> Served:
    go_type = tables.type_name(_EVICTIONS.group, _EVICTIONS.version, _EVICTIONS.kind)
    schema = tables.schema(_EVICTIONS.group, _EVICTIONS.version, _EVICTIONS.kind)
    return Served(_EVICTIONS, schema, go_type=go_type or "", storage_version=_EVICTIONS.api_version)


def _options(eviction: Object, call: Call, wanted: WriteOptions) -> DeleteOptions:
    if objects.name(eviction) != call.name:
        raise errors.BadRequest(_OTHER_NAME)
    given = objects.mapping(eviction.get("deleteOptions"))
    if given.get(_IGNORING_ERRORS):
        text = "can not be set for pod eviction, try after removing the option"
        cause = fields.invalid(f"deleteOptions.{_IGNORING_ERRORS}", True, text)
        raise errors.invalid(_EVICTIONS.group, _EVICTIONS.kind, call.name, [cause])
    options = parameters.delete_options({}, {key: value for key, value in given.items() if value is not None})
    return replace(options, dry_run=options.dry_run or wanted.dry_run)


async def _evicted(core: Core, pods: Served, call: Call, options: DeleteOptions) -> Object:
    """Ends the pod or raises why not."""
    record = core.head(pods.resource, call.namespace, call.name)
    pod, writes = record.object, list[asyncio.Future[Record]]()
    is_guarded = not objects.is_being_deleted(pod) and objects.at(pod, "status", "phase") not in _UNGUARDED
    budgets = _budgets(core, pod) if is_guarded else []
    if len(budgets) > 1:
        raise errors.Unclassified(_SEVERAL)
    counting = [each for each in budgets if not _is_unhealthy_and_may_go(pod, each.object)]
    counted = [_decremented(each.object, objects.name(pod), core.timestamp()) for each in counting]
    deleting.check_preconditions(pods, record, options)
    if not options.dry_run:
        for budget, state in zip(counting, counted, strict=True):
            writes.append(core.put(budget.key, state, expect=budget.revision))
        writes += _deletion(core, record, options)
    for write in writes:
        await durable(write)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _deletion(core: Core, record: Record, options: DeleteOptions) -> Sequence[asyncio.Future[Record]]:
    """Says in the pod's status why it goes, for those who watch it, and lets it go."""
    told = core.put(record.key, _told(record.object, core.timestamp()), expect=record.revision)
    newest = core.store.head(record.key)
    assert newest is not None
    gone = deleting.start(core, newest, options)
    return [told] if gone is None else [told, gone]


def _told(pod: Object, now: str) -> Object:
    """The condition as Go shows it, with the times that nobody sets."""
    condition: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = objects.mapping(pod.get("status"))
    known = [objects.mapping(each) for each in objects.sequence(status.get("conditions"))]
    before = next((each for each in known if each.get("type") == condition["type"]), None)
    if before is not None and before.get("status") == condition["status"]:
        condition["lastTransitionTime"] = before.get("lastTransitionTime")
    changed = [condition if each is before else each for each in known]
    if before is None:
        changed.append(condition)
    return {**pod, "metadata": {**objects.metadata(pod)}, "status": {**status, "conditions": changed}}


def _budgets(core: Core, pod: Object) -> list[Record]:
    """Those that select the pod. One with a selector that cannot be read selects nothing."""
    found: list[Record] = []
    for record in core.store.heads(core.prefix(_BUDGETS, objects.namespace(pod))):
        selector = objects.at(record.object, "spec", "selector")
        try:
            if selectors.from_object(selector).matches(objects.labels(pod)):
                found.append(record)
        except errors.BadRequest:
            continue
    return found


def _is_unhealthy_and_may_go(pod: Object, budget: Object) -> bool:
    """A pod that is not ready counts for no budget, unless there are too few that are."""
    conditions = map(objects.mapping, objects.sequence(objects.at(pod, "status", "conditions")))
    if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
        return False
    if objects.at(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return _number(budget, "currentHealthy") >= _number(budget, "desiredHealthy") > 0


def _decremented(budget: Object, pod_name: str, now: str) -> Object:
    """The budget with this pod counted. Raises TooManyRequests while it allows none, or has not been counted yet."""
    name = objects.name(budget)
    if _number(budget, "observedGeneration") < objects.generation(budget):
        raise _violation(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)
    allowed = _number(budget, "disruptionsAllowed")
    disrupted = objects.mapping(objects.at(budget, "status", "disruptedPods"))
    why = ""
    if allowed < 0:
        why = "pdb disruptions allowed is negative"
    elif len(disrupted) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
    if why:
        raise errors.forbidden("poddisruptionbudget.policy", name, why)
    if allowed == 0:
        needed, healthy = _number(budget, "desiredHealthy"), _number(budget, "currentHealthy")
        raise _violation(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
    status: Object = {**objects.mapping(budget.get("status"))}
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        status["conditions"] = _exhausted(status, now)
    status["disruptedPods"] = {**disrupted, pod_name: now}
    return {**budget, "metadata": {**objects.metadata(budget)}, "status": status}


def _exhausted(status: Object, now: str) -> list[Object]:
    known = [objects.mapping(each) for each in objects.sequence(status.get("conditions"))]
    before = next((each for each in known if each.get("type") == "DisruptionAllowed"), None)
    was_so = before is not None and before.get("status") == "False"
    condition: Object = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status.get("observedGeneration") or 0,
        "lastTransitionTime": before.get("lastTransitionTime") if before is not None and was_so else now,
        "reason": "InsufficientPods",
        "message": "",
    }
    return [condition if each is before else each for each in known] if before is not None else [*known, condition]


def _violation(cause: str, retry_after: int = 0) -> errors.TooManyRequests:
    return errors.TooManyRequests(_VIOLATION, causes=[Cause("", "DisruptionBudget", cause)], retry_after=retry_after)


def _number(budget: Object, field: str) -> int:
    return int(objects.at(budget, "status", field) or 0)
