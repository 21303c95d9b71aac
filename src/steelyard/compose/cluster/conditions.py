"""What a claim for a cluster reports: Ready, whether the cluster can be used, and UpToDate, whether it is exactly what
the claim asks for.

A cluster becomes ready when all of it is there, and stays so while it is changed without losing anything. What was lost
makes it not ready, until all of it is there again.
"""

from __future__ import annotations

from collections.abc import Collection

from steelyard.api import state, troubles
from steelyard.compose.cluster.progress import Progress
from steelyard.compose.composed import Condition
from steelyard.kube import objects
from steelyard.kube.objects import Object

_HAS_BEEN_READY = frozenset((state.AVAILABLE, state.SCALING, state.UPDATING, state.DEGRADED, state.RECOVERING))


def of(
    claim: Object, used: Object, counts: Collection[str], here: Progress, *, waiting_for: str, held_back: str
) -> tuple[Condition, Condition]:
    """`used` is what is used for each parameter; `counts` are those that only say how many machines there are."""
    if not waiting_for:
        up_to_date = Condition("UpToDate", "True", "AsAskedFor")
        if held_back:
            up_to_date = Condition("UpToDate", "False", "VersionHeldBack", held_back)
        return Condition("Ready", "True", state.AVAILABLE, here.numbers), up_to_date
    before = troubles.condition(claim, "Ready")
    change = _change(claim, used, counts, here)
    message = f"{here.numbers}: {waiting_for}"
    if before.get("reason") not in _HAS_BEEN_READY:
        ready = Condition("Ready", "False", state.CREATING, message)
    elif here.trouble:
        # Without the counts: they change a moment later, and nothing else is to be told then.
        ready = Condition("Ready", "False", state.DEGRADED, here.trouble)
    elif before.get("status") == "True" and _serves_as_before(claim, here):
        ready = Condition("Ready", "True", change, message)
    else:
        ready = Condition("Ready", "False", state.RECOVERING, message)
    if ready.status == "False":
        return ready, Condition("UpToDate", "False", ready.reason, "the cluster is not ready")
    return ready, Condition("UpToDate", "False", change, waiting_for)


def _serves_as_before(claim: Object, here: Progress) -> bool:
    reported = objects.mapping(claim.get("status"))
    return here.control_plane.serves_as_before(
        objects.mapping(reported.get("controlPlane"))
    ) and here.workers.serves_as_before(objects.mapping(reported.get("workers")))


def _change(claim: Object, used: Object, counts: Collection[str], here: Progress) -> str:
    """Whether machines are replaced or only their number changes. Until they are counted anew, what was said stands."""
    parts = (here.control_plane, here.workers)
    reported = objects.mapping(objects.at(claim, "status", "parameters"))
    is_another = bool(reported) and _without(reported, counts) != _without(used, counts)
    said = troubles.condition(claim, "Ready").get("reason")
    is_told_already = said == state.UPDATING and not all(part.is_counted for part in parts)
    if is_another or is_told_already or not all(part.is_up_to_date for part in parts):
        return state.UPDATING
    return state.SCALING


def _without(parameters: Object, counts: Collection[str]) -> Object:
    return {key: value for key, value in parameters.items() if key not in counts}
