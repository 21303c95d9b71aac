"""Lists of metav1.Condition: reading them, and setting them so that nothing is written when nothing has changed.

Pure: a list goes in, a list comes out, the time is an argument. `lastTransitionTime` moves only with the status; a list
that would come out equal is returned as it is, so that comparing before and after finds no difference.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks

Status: TypeAlias = Literal["True", "False", "Unknown"]

_FIRST = {"Available": 0, "Ready": 1}


def of(source: Object | Sequence[Object]) -> list[Object]:
    """The conditions of an object (its `status.conditions`), or the list itself."""
    if isinstance(source, dict):
        return cast("list[Object]", objects.sequence(objects.at(source, "status", "conditions")))
    return source if isinstance(source, list) else list(source)


def find(source: Object | Sequence[Object], type_: str) -> Object | None:
    return next((condition for condition in of(source) if condition.get("type") == type_), None)


def status_of(source: Object | Sequence[Object], type_: str) -> Status:
    """`Unknown` where the condition is absent."""
    condition = find(source, type_)
    return cast(Status, condition.get("status") or "Unknown") if condition else "Unknown"


def is_true(source: Object | Sequence[Object], type_: str) -> bool:
    return status_of(source, type_) == "True"


def is_false(source: Object | Sequence[Object], type_: str) -> bool:
    return status_of(source, type_) == "False"


def reason_of(source: Object | Sequence[Object], type_: str) -> str:
    return str((find(source, type_) or {}).get("reason") or "")


def message_of(source: Object | Sequence[Object], type_: str) -> str:
    return str((find(source, type_) or {}).get("message") or "")


def set_(
    source: Object | Sequence[Object],
    type_: str,
    status: Status | bool,
    reason: str,
    message: str = "",
    *,
    now: datetime.datetime,
    observed_generation: int = 0,
) -> list[Object]:
    """The list with this condition in it, sorted: Available and Ready first, the rest by name."""
    text = status if isinstance(status, str) else ("True" if status else "False")
    wanted: Object = {"type": type_, "status": text, "reason": reason, "message": message}
    if observed_generation:
        wanted["observedGeneration"] = observed_generation
    return merge(source, [wanted], now=now)


def remove(source: Object | Sequence[Object], type_: str) -> list[Object]:
    before = of(source)
    after = [condition for condition in before if condition.get("type") != type_]
    return before if len(after) == len(before) else after


def merge(source: Object | Sequence[Object], updates: Iterable[Object], *, now: datetime.datetime) -> list[Object]:
    """The list with the updates in place of the conditions of their types; others stay. Updates carry no time."""
    before = of(source)
    by_type = {str(condition.get("type")): condition for condition in before}
    changed = False
    for update in updates:
        current = by_type.get(str(update["type"]))
        wanted = _with_transition_time(current, update, now)
        if wanted != current:
            by_type[str(update["type"])] = wanted
            changed = True
    return sorted(by_type.values(), key=_order) if changed else before


def _with_transition_time(current: Object | None, update: Object, now: datetime.datetime) -> Object:
    transition = (current or {}).get("lastTransitionTime")
    status_has_changed = current is None or current.get("status") != update.get("status")
    if status_has_changed or not transition:
        transition = clocks.rfc3339(now)
    return {**update, "lastTransitionTime": transition}


def _order(condition: Object) -> tuple[int, str]:
    type_ = str(condition.get("type"))
    return _FIRST.get(type_, len(_FIRST)), type_
