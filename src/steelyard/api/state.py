"""How a claim is, in one word and one sentence: the same for `get`, `describe`, `status`, the demo and kubectl.

The claims controller writes the word into `status.state`, where the listing of any client finds it; those who have the
whole claim ask here, and so get the same.

    Ready=True/Available -> Ready        Ready=True/Scaling -> Scaling      Synced=False/ReconcilePaused -> Paused
"""

from __future__ import annotations

from typing import Final

from steelyard.api import troubles
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

PENDING: Final = "Pending"
CREATING: Final = "Creating"
READY: Final = "Ready"
SCALING: Final = "Scaling"
UPDATING: Final = "Updating"
DEGRADED: Final = "Degraded"
RECOVERING: Final = "Recovering"
PAUSED: Final = "Paused"
REFUSED: Final = "Refused"
FAILING: Final = "Failing"
DELETING: Final = "Deleting"
DRIFTED: Final = "Drifted"
"""Something was changed by hand, and putting it back waits for a person."""

AVAILABLE: Final = "Available"
"""Crossplane's reason for a claim that is ready."""
PAUSED_REASON: Final = "ReconcilePaused"
ERROR_REASON: Final = "ReconcileError"


@frozen
class State:
    word: str
    text: str
    """What is going on and why; empty where the word says it all."""
    since: str


def of(claim: Object) -> State:
    synced, ready = troubles.condition(claim, "Synced"), troubles.condition(claim, "Ready")
    is_applied = synced.get("status") != "False"
    if objects.is_being_deleted(claim):
        text = str((ready if is_applied else synced).get("message") or "")
        is_about_deletion = not is_applied or ready.get("reason") == DELETING
        since = str(objects.metadata(claim)["deletionTimestamp"])
        return State(DELETING, text if is_about_deletion else "its deletion has not begun yet", since)
    if not synced and not ready:
        return State(PENDING, "no controller has reported on it yet", _created(claim))
    if not is_applied:
        word = {PAUSED_REASON: PAUSED, ERROR_REASON: FAILING, DRIFTED: DRIFTED}.get(str(synced.get("reason")), REFUSED)
        return State(word, str(synced.get("message") or ""), _since(synced))
    reason = str(ready.get("reason") or CREATING)
    word = READY if reason == AVAILABLE else reason
    return State(word, str(ready.get("message") or ""), _since(ready))


def is_ready(claim: Object) -> bool:
    """Whether the cluster can be used, whatever else is going on."""
    return troubles.condition(claim, "Ready").get("status") == "True"


def _since(condition: Object) -> str:
    return str(condition.get("lastTransitionTime") or "")


def _created(claim: Object) -> str:
    return str(objects.metadata(claim).get("creationTimestamp") or "")
