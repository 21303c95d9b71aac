"""What is told of a delivery: its conditions, and the words for everything that can keep it from its place. Pure."""

from __future__ import annotations

import datetime
from typing import Final

from steelyard.api.secretdelivery import LET_GO, SecretDeliverySpec
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions

READY: Final = "Ready"
SYNCED: Final = "Synced"
SHOWN: Final = 500
"""Characters of what a cluster says: whose API it is may say anything."""


@frozen
class Told:
    """What became of one look at it. Synced is whether anything went wrong; who only waits has done nothing wrong."""

    ready: bool
    synced: bool = True
    message: str = ""
    paused: bool = False


class NotYet(Exception):
    """It is not where it should be, and why; with `look_again` it is worth another look after that many seconds,
    whatever happens. With `is_unknown` it may well be there: what was last told still stands."""

    def __init__(
        self, message: str, *, synced: bool = False, look_again: float | None = None, is_unknown: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.synced = synced
        self.look_again = look_again
        self.is_unknown = is_unknown


def reported(delivery: Object, told: Told, now: datetime.datetime) -> list[Object]:
    """The conditions, as Crossplane's managed resources have them."""
    has_been_there = objects.at(delivery, "status", "delivered") is not None
    reason = "Available" if told.ready else "Unavailable" if has_been_there else "Creating"
    if objects.is_being_deleted(delivery):
        reason = "Deleting"
    went_well = "ReconcilePaused" if told.paused else "ReconcileSuccess" if told.synced else "ReconcileError"
    about = objects.generation(delivery)
    found = conditions.set_(delivery, READY, told.ready, reason, told.message, now=now, observed_generation=about)
    return conditions.set_(
        found,
        SYNCED,
        told.synced and not told.paused,
        went_well,
        told.message if not told.synced or told.paused else "",
        now=now,
        observed_generation=about,
    )


def called(spec: SecretDeliverySpec) -> str:
    return f"cluster {spec.cluster.name} of namespace {spec.cluster.namespace}"


def no_cluster(spec: SecretDeliverySpec) -> NotYet:
    return NotYet(f"there is no {called(spec)}; make it, or take this out of deliverTo", synced=True)


def cluster_goes(spec: SecretDeliverySpec) -> NotYet:
    return NotYet(f"{called(spec)} is being deleted; take this out of deliverTo", synced=True)


def cluster_comes(spec: SecretDeliverySpec) -> NotYet:
    return NotYet(f"waiting for {called(spec)} to be there", synced=True)


def no_data() -> NotYet:
    return NotYet("waiting for the connection data", synced=True)


def no_namespace(spec: SecretDeliverySpec, look_again: float) -> NotYet:
    return NotYet(f"create namespace {spec.target.namespace} in {called(spec)}", look_again=look_again)


def no_kind(spec: SecretDeliverySpec, look_again: float) -> NotYet:
    return NotYet(f"install External Secrets in {called(spec)}: it knows no ExternalSecret", look_again=look_again)


def not_ours(spec: SecretDeliverySpec, kind: str, look_again: float) -> NotYet:
    return NotYet(
        f"{kind} {spec.target.namespace}/{spec.target.name} in {called(spec)} is somebody else's and stays as it is; "
        "delete it there, or choose another name in deliverTo",
        look_again=look_again,
    )


def goes_there(spec: SecretDeliverySpec, kind: str, look_again: float) -> NotYet:
    return NotYet(
        f"{kind} {spec.target.namespace}/{spec.target.name} in {called(spec)} is being deleted, and something holds it",
        look_again=look_again,
    )


def forbidden(spec: SecretDeliverySpec, user: str, look_again: float) -> NotYet:
    return NotYet(
        f"{user} may not read Secret {spec.cluster.name}-kubeconfig in namespace {spec.cluster.namespace}, and so not "
        f"deliver into that cluster. Allow {user} to, grant claims in {spec.delivered_for.namespace} the clusters in "
        f"{spec.cluster.namespace} (connectionSecrets.grants in the platform file), or take it out of deliverTo",
        look_again=look_again,
    )


def unreachable(spec: SecretDeliverySpec, why: str, look_again: float) -> NotYet:
    return NotYet(f"{called(spec)} cannot be reached: {shown(why)}", look_again=look_again)


def connecting(spec: SecretDeliverySpec, look_again: float) -> NotYet:
    """As after each start of the platform. Where it lasts, the connection has a problem to tell of."""
    return NotYet(f"connecting to {called(spec)}", synced=True, look_again=look_again, is_unknown=True)


def of_error(spec: SecretDeliverySpec, error: errors.ApiError | TimeoutError, look_again: float) -> NotYet:
    """Every error of a cluster's API but those that mean something to who asked: NotFound and Conflict."""
    if isinstance(error, errors.ServiceUnavailable | errors.Timeout | errors.TooManyRequests):
        return unreachable(spec, error.message, look_again)
    if isinstance(error, TimeoutError):
        return unreachable(spec, "it did not answer in time", look_again)
    return NotYet(f"{called(spec)} refuses it: {shown(error.message)}", look_again=look_again)


def external_secret_waits(observed: Object) -> str:
    """Why External Secrets has not fetched it; empty where it has, or has not said yet."""
    found = conditions.find(observed, READY)
    if found is None or found.get("status") != "False":
        return ""
    return f"External Secrets has not fetched it there: {shown(str(found.get('message') or 'it does not say why'))}"


def cannot_be_removed(delivery: Object, why: str, until: datetime.datetime) -> str:
    return (
        f"{why}. It is tried until {clocks.rfc3339(until)}. To leave it there now: kubectl annotate secretdelivery "
        f"{objects.name(delivery)} {LET_GO}=true"
    )


def shown(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= SHOWN else f"{plain[:SHOWN]}…"
