"""Conditions while they are being decided: plain values, written onto the object's status in one go at the end.

A reconciler collects `Verdict`s and calls `record` once. That keeps upstream's rules in one place: the transition
time moves only with the status, `Available` and `Ready` come first, `Deleting` and `Paused` last.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Literal, cast

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock

Status = Literal["True", "False", "Unknown"]

_FIRST = {"Available": 0, "Ready": 1}
_LAST = {"Deleting": 3, "Paused": 4}


@frozen
class Verdict:
    type: str
    status: Status
    reason: str
    message: str = ""
    since: str = ""
    """When the status changed, where that is known better than by looking at the clock."""

    @property
    def is_true(self) -> bool:
        return self.status == "True"


def true(type_: str, reason: str, message: str = "") -> Verdict:
    return Verdict(type_, "True", reason, message)


def false(type_: str, reason: str, message: str = "") -> Verdict:
    return Verdict(type_, "False", reason, message)


def unknown(type_: str, reason: str, message: str = "") -> Verdict:
    return Verdict(type_, "Unknown", reason, message)


def find(obj: Object, type_: str) -> Verdict | None:
    """The condition of an object; one without the fields that every condition must have does not count."""
    for condition in map(objects.mapping, objects.sequence(objects.mapping(obj.get("status")).get("conditions"))):
        if condition.get("type") == type_ and condition.get("status") in ("True", "False", "Unknown"):
            return Verdict(
                type_,
                cast(Status, condition["status"]),
                str(condition.get("reason") or ""),
                str(condition.get("message") or ""),
                str(condition.get("lastTransitionTime") or ""),
            )
    return None


def is_true(obj: Object, type_: str) -> bool:
    found = find(obj, type_)
    return found is not None and found.is_true


def is_false(obj: Object, type_: str) -> bool:
    found = find(obj, type_)
    return found is not None and found.status == "False"


def record(obj: Object, verdicts: Iterable[Verdict], now: datetime.datetime) -> None:
    """Puts the verdicts into `status.conditions` of a copy that the caller owns; other conditions stay."""
    status = cast(Object, obj.setdefault("status", {}))
    conditions = {str(objects.mapping(c).get("type")): c for c in objects.sequence(status.get("conditions"))}
    generation = objects.generation(obj)
    stamp = clock.rfc3339(now)
    for verdict in verdicts:
        before = objects.mapping(conditions.get(verdict.type))
        has_changed = before.get("status") != verdict.status or not before.get("lastTransitionTime")
        condition: Object = {
            "type": verdict.type,
            "status": verdict.status,
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": (verdict.since or stamp) if has_changed else before["lastTransitionTime"],
        }
        if generation:
            condition["observedGeneration"] = generation
        conditions[verdict.type] = condition
    status["conditions"] = sorted(conditions.values(), key=_order)


def _order(condition: Object) -> tuple[int, str]:
    type_ = str(condition.get("type"))
    return _FIRST.get(type_, _LAST.get(type_, 2)), type_
