"""Whether an object is to be left alone: its cluster is paused, or it carries the annotation for it."""

from __future__ import annotations

from steelyard.api.clusterapi import wellknown
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import verdicts
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.drafts import Draft
from steelyard.kube.runtime.verdicts import Verdict

NOT_PAUSED = verdicts.false("Paused", "NotPaused")


def verdict(obj: Object, cluster: Object | None) -> Verdict:
    reasons: list[str] = []
    if cluster is not None and objects.at(cluster, "spec", "paused"):
        reasons.append("Cluster spec.paused is set to true")
    if wellknown.PAUSED_ANNOTATION in objects.annotations(obj):
        kind = obj.get("kind") or "object"
        reasons.append(f"{kind} has the {wellknown.PAUSED_ANNOTATION} annotation")
    if not reasons:
        return NOT_PAUSED
    return verdicts.true("Paused", "Paused", ", ".join(reasons))


async def hold(draft: Draft, cluster: Object | None, clock: Clock) -> bool:
    """True for a paused object, whose condition then says so; nothing else of it has been touched."""
    found = verdict(draft.object, cluster)
    if not found.is_true:
        return False
    verdicts.record(draft.object, [found], clock.now())
    await draft.save_status()
    return True
