"""Asking the webhooks about one request: the mutating ones in turn, the validating ones at once.

A webhook that cannot be asked fails the request or is passed over, as its failurePolicy says; one that denies always
fails it. Mutating webhooks that want it are asked once more when a later one has changed the object.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from steelyard.kube import errors, fields
from steelyard.kube.errors import ApiError
from steelyard.kube.objects import Object
from steelyard.kube.server.admission import asking, review
from steelyard.kube.server.admission.review import Verdict
from steelyard.kube.server.catalogue import matching
from steelyard.kube.server.catalogue.configurations import Plan
from steelyard.kube.server.catalogue.matching import Attributes, Hook
from steelyard.kube.server.catalogue.registry import Served
from steelyard.kube.server.core import Core
from steelyard.kube.server.definitions.counterparts import Counterpart
from steelyard.kube.server.expressions import matchconditions
from steelyard.kube.server.patch import jsonpatch
from steelyard.kube.server.webhooks import conversion
from steelyard.kube.server.webhooks.calling import CallFailed

_HARMLESS: Final = ("None", "NoneOnDryRun")


@dataclass(slots=True)
class Outcome:
    """What the webhooks said besides yes."""

    warnings: list[str] = field(default_factory=list[str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    """For the audit log, each under the name of its webhook."""

    def take(self, hook: Hook, verdict: Verdict) -> None:
        self.warnings += verdict.warnings
        self.annotations.update({f"{hook.name}/{key}": str(value) for key, value in verdict.annotations.items()})


async def mutate(core: Core, plan: Plan, attributes: Attributes, outcome: Outcome) -> None:
    """Lets the mutating webhooks change `attributes.obj`, which is replaced and never changed in place."""
    invoked: set[Hook] = set()
    again: set[Hook] = set()
    is_changed = await _round(core, plan, attributes, outcome, invoked, again, only=None)
    if is_changed and again:
        await _round(core, plan, attributes, outcome, invoked, again, only=again)


async def _round(
    core: Core,
    plan: Plan,
    attributes: Attributes,
    outcome: Outcome,
    invoked: set[Hook],
    again: set[Hook],
    *,
    only: set[Hook] | None,
) -> bool:
    """`invoked` are the hooks that want to know of later changes, `again` those for whom there were some."""
    is_changed = False
    for hook, target in plan.mutating:
        if only is not None and hook not in only:
            continue
        if not matching.selects(hook.criteria, attributes, core.namespace):
            continue
        verdict = await _ask(core, hook, target, attributes, mutating=True)
        if verdict is None:
            continue
        outcome.take(hook, verdict)
        if not verdict.allowed:
            raise review.denial(hook.name, verdict.result)
        if verdict.patch and await _patch(core, hook, target, attributes, verdict):
            is_changed = True
            again |= invoked
            invoked.clear()
        if hook.reinvoked:
            invoked.add(hook)
    return is_changed


async def _patch(core: Core, hook: Hook, target: Served, attributes: Attributes, verdict: Verdict) -> bool:
    """Whether the patch changed the object."""
    before = attributes.obj
    if before is None:
        raise errors.internal(
            f"admission webhook {fields.quote(hook.name)} attempted to modify the object, "
            "which is not supported for this operation"
        )
    shown = await in_version(core, attributes, target, before)
    try:
        patched = jsonpatch.apply(shown or {}, verdict.patch)
    except ApiError as error:
        raise errors.internal(jsonpatch.told(error)) from None
    if patched == shown:
        return False
    attributes.obj = await _converted(core, attributes.served, attributes.subresource, patched)
    return True


async def validate(core: Core, plan: Plan, attributes: Attributes, outcome: Outcome) -> None:
    chosen = [
        (hook, target)
        for hook, target in plan.validating
        if matching.selects(hook.criteria, attributes, core.namespace)
    ]
    if not chosen:
        return
    answers = await asyncio.gather(
        *(_ask(core, hook, target, attributes, mutating=False) for hook, target in chosen), return_exceptions=True
    )
    failure: BaseException | None = None
    for (hook, _), answer in zip(chosen, answers, strict=True):
        if isinstance(answer, BaseException):
            failure = failure or answer
        elif answer is not None:
            outcome.take(hook, answer)
            if not answer.allowed:
                failure = failure or review.denial(hook.name, answer.result)
    if failure is not None:
        raise failure


async def _ask(core: Core, hook: Hook, target: Served, attributes: Attributes, *, mutating: bool) -> Verdict | None:
    """None if the webhook is not concerned, or could not be asked and need not be."""
    obj = await in_version(core, attributes, target, attributes.obj)
    old = await in_version(core, attributes, target, attributes.old)
    if hook.conditions and not _is_concerned(core, hook, attributes, review.content(attributes, target), obj, old):
        return None
    if attributes.dry_run and hook.side_effects not in _HARMLESS:
        raise errors.BadRequest(f"admission webhook {fields.quote(hook.name)} does not support dry run")
    try:
        sent = review.request(attributes, target, obj, old, review.version_for(hook.review_versions))
        try:
            answer = await core.caller.post(hook.client_config, sent, hook.timeout)
        except CallFailed as error:
            raise CallFailed(f"failed to call webhook: {error}") from None
        return review.verify(sent, answer, mutating=mutating)
    except CallFailed as error:
        if hook.ignores_failure:
            return None
        raise errors.internal(f"failed calling webhook {fields.quote(hook.name)}: {error}") from None


def _is_concerned(
    core: Core, hook: Hook, attributes: Attributes, request: Object, obj: Object | None, old: Object | None
) -> bool:
    try:
        rights = asking.rights(core.authorizer, attributes)
        scope = {"object": obj, "oldObject": old, "request": request, "authorizer": rights}
        return matchconditions.hold(hook.conditions, scope)
    except matchconditions.NotEvaluated as error:
        if hook.ignores_failure:
            return False
        raise errors.forbidden(attributes.served.group_resource, attributes.name, str(error)) from None


async def in_version(core: Core, attributes: Attributes, target: Served, obj: Object | None) -> Object | None:
    """The object as whoever wants to see the request in that version is shown it."""
    if obj is None or target is attributes.served:
        return obj
    return await _converted(core, target, attributes.subresource, obj)


async def _converted(core: Core, served: Served, subresource: str, obj: Object) -> Object:
    wanted = served.resource.api_version
    if subresource == "scale" or obj.get("apiVersion") == wanted:
        return obj
    if served.conversion is None:
        return {**obj, "apiVersion": wanted}
    if isinstance(served.conversion, Counterpart):
        return served.conversion.renamed(obj)
    return (await conversion.convert(core.caller, served.conversion, [obj], wanted))[0]
