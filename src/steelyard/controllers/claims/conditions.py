"""The words in which a claim reports: Synced, whether it was applied, and Ready, whether what it asks for
can be used.

Types and reasons are Crossplane's where it has them, since tools and people wait for those.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from steelyard.api import state
from steelyard.api.clusterapi import wellknown
from steelyard.compose.composed import Condition, Refusal
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions
from steelyard.plan import drift
from steelyard.plan.changes import Change

SYNCED = "Synced"
READY = "Ready"

APPLIED = Condition(SYNCED, "True", "ReconcileSuccess")
UP_TO_DATE = "UpToDate"
PAUSED_ANNOTATIONS = ("crossplane.io/paused", wellknown.PAUSED_ANNOTATION)


def paused(annotation: str) -> Condition:
    return Condition(
        SYNCED, "False", state.PAUSED_REASON, f"the claim has the annotation {annotation}; take it off to go on"
    )


def failed(what: str, error: errors.ApiError, *, to_install: str = "") -> Condition:
    """`to_install` is what defines the kind, where it is other people's."""
    return Condition(SYNCED, "False", state.ERROR_REASON, f"{what}: {error.message}{_advice(error, to_install)}")


def refused(refusal: Refusal) -> Condition:
    return Condition(SYNCED, "False", refusal.reason, refusal.message)


def drifted(claim: Object, resource: Resource, held: Sequence[Change]) -> Condition:
    """What was changed by hand and stays so, and how to agree to its being put back."""
    told: list[str] = []
    for change in held:
        would = "; ".join(map(str, change.effects))
        told.append(f"{change.entry} was changed by hand, and putting it back would disrupt what runs ({would})")
    tokens = ",".join(
        drift.token(change.entry.resource_name, change.observed) for change in held if change.observed is not None
    )
    command = (
        f"kubectl annotate --overwrite {resource.group_resource} -n {objects.namespace(claim)} {objects.name(claim)} "
        f"{drift.AGREED}={tokens}"
    )
    return Condition(
        SYNCED,
        "False",
        state.DRIFTED,
        f"{'. '.join(told)}; until somebody agrees it stays as it is. To have it put back: {command}",
    )


def forbidden(message: str) -> Condition:
    return Condition(SYNCED, "False", "ConnectionSecretForbidden", message)


def not_to_be_copied(message: str) -> Condition:
    return Condition(SYNCED, "False", "CloneForbidden", message)


def deleting(message: str) -> Condition:
    return Condition(READY, "False", state.DELETING, message)


def is_loss(before: Object, now: Condition) -> bool:
    """Whether what could be used no longer can be, or cannot for another cause than before."""
    is_other_cause = now.reason == state.DEGRADED and before.get("message") != now.message
    return is_other_cause or (before.get("status") == "True" and now.reason == state.RECOVERING)


def paused_by(claim: Object) -> str:
    """The annotation that pauses the claim, or an empty string.

    Crossplane asks for the value "true"; to Cluster API any value will do.
    """
    annotations = objects.annotations(claim)
    crossplane, cluster_api = PAUSED_ANNOTATIONS
    if annotations.get(crossplane) == "true":
        return crossplane
    return cluster_api if cluster_api in annotations else ""


def written(
    claim: Object, wanted: Sequence[Condition], *, now: datetime.datetime, others_stay: bool = False
) -> list[Object]:
    """As they go into the status. All of a claim's conditions are ours, so those of other types go unless they stay."""
    types = {condition.type for condition in wanted}
    before = [condition for condition in conditions.of(claim) if others_stay or condition.get("type") in types]
    generation = objects.generation(claim)
    updates: list[Object] = [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            **({"observedGeneration": generation} if generation else {}),
        }
        for condition in wanted
    ]
    return conditions.merge(before, updates, now=now)


def summary(wanted: Sequence[Condition]) -> str:
    """One line: what hinders the claim, else how far it has come."""
    by_type = {condition.type: condition for condition in wanted}
    synced, ready = by_type.get(SYNCED), by_type.get(READY)
    if synced is not None and synced.status == "False":
        return synced.message
    return ready.message if ready is not None else ""


def _advice(error: errors.ApiError, to_install: str) -> str:
    match error:
        case errors.NotFound() if error.kind == "namespaces":
            return f"; create the namespace {error.name}, or name another one in the claim"
        case errors.NotFound():
            return f"; the API does not serve this kind: install {to_install or 'its definition'}"
        case errors.Forbidden():
            return "; grant it to the claims controller"
        case errors.Invalid():
            return "; change the claim's parameters to what is allowed"
        case _:
            return ""
