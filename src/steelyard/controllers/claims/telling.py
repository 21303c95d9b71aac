"""What is told of a claim's way: events for whoever looks at the claim, lines in the log for whoever reads the story.

An event for each failure or loss that is new, for what has become ready, and for the beginning and the end of each
change. Nothing is told twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api import state
from steelyard.compose.composed import Condition
from steelyard.controllers.claims import conditions, expiry
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions as condition_lists
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.events import Recorder
from steelyard.plan.changes import Change

_CHANGES: Final = {state.SCALING: "Scaled", state.UPDATING: "Updated"}
"""The reasons while a change is under way, each with the word for its end."""

_log = logs.get(__name__)


class Teller:
    def __init__(self, recorder: Recorder, noun: str) -> None:
        self._recorder = recorder
        self._noun = noun

    def applied(self, done: Sequence[Change]) -> None:
        for action, word in (("create", "created"), ("update", "changed")):
            parts = [f"{change.entry.kind} {change.entry.name}" for change in done if change.action == action]
            if parts:
                _log.info(word, parts=", ".join(parts))

    def reported(self, claim: Object, wanted: Sequence[Condition], *, before: object, after: Object) -> None:
        """Before the status is written: what of it is new."""
        old, new = objects.mapping(before).get("state"), after["state"]
        if old != new:
            _log.info("state", was=old or state.PENDING, now=new, because=after["message"])
        for condition in wanted:
            self._tell(claim, condition, condition_lists.find(claim, condition.type) or {})

    def expired(self, claim: Object, end: str) -> None:
        self._recorder.warning(
            claim, "Expired", f"its ttl ended at {end}: the claim is deleted, and the {self._noun} with it"
        )

    def _tell(self, claim: Object, now: Condition, before: Object) -> None:
        is_new = (before.get("status"), before.get("message")) != (now.status, now.message)
        has_turned = before.get("status") != now.status
        match now.type:
            case conditions.SYNCED if now.status == "False" and is_new:
                self._recorder.warning(claim, now.reason, now.message)
            case conditions.READY if conditions.is_loss(before, now):
                self._recorder.warning(claim, now.reason, now.message)
            case conditions.READY if now.status == "True" and has_turned:
                self._recorder.normal(claim, "Ready", f"the {self._noun} is ready: {now.message}")
            case conditions.UP_TO_DATE if now.reason in _CHANGES and now.reason != before.get("reason"):
                self._recorder.normal(claim, now.reason, f"the {self._noun} is being changed: {now.message}")
            case conditions.UP_TO_DATE if now.status == "True" and before.get("reason") in _CHANGES:
                done = _CHANGES[str(before["reason"])]
                self._recorder.normal(claim, done, f"the {self._noun} is as asked for")
            case "StorageLow" if before.get("reason") != now.reason:
                self._recorder.warning(claim, f"Storage{now.reason}", now.message)
            case "BackedUp" if now.reason == "Failing" and is_new:
                self._recorder.warning(claim, "BackupFailed", now.message)
            case expiry.EXPIRING if is_new:
                self._recorder.warning(claim, now.reason, now.message)
            case _:
                return
