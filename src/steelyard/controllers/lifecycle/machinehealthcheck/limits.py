"""How many machines may be unhealthy at once before it is somebody else's fault, and none is replaced. Pure."""

from __future__ import annotations

import re
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

_ALL: Final = "100%"
_PERCENT: Final = re.compile(r"(\d{1,9})%\Z")
_NUMBER: Final = re.compile(r"\d{1,9}\Z")
_RANGE: Final = re.compile(r"\[(\d{1,9})-(\d{1,9})\]\Z")


class BadLimit(ValueError):
    """What is written for it cannot be read; the message says what to write."""


@frozen
class Allowance:
    count: int
    """How many more may be unhealthy."""
    refusal: str = ""
    """Why none is to be replaced; empty where they are."""


def allowance(check: Object, total: int, healthy: int) -> Allowance:
    """Machines that have not started yet count as unhealthy. Raises BadLimit."""
    trigger = objects.mapping(objects.at(check, "spec", "remediation", "triggerIf"))
    unhealthy = total - healthy
    wanted = str(trigger.get("unhealthyInRange") or "")
    counted = f"total: {total}, unhealthy: {unhealthy}"
    refused = "Remediation is not allowed, the number of not started or unhealthy machines"
    if wanted:
        least, most = _range(wanted)
        if least <= unhealthy <= most:
            return Allowance(most - unhealthy)
        return Allowance(0, f"{refused} does not fall within the range ({counted}, unhealthyRange: {wanted})")
    limit = trigger.get("unhealthyLessThanOrEqualTo")
    limit = _ALL if limit is None else limit
    most = scaled(limit, total, "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo")
    if unhealthy <= most:
        return Allowance(most - unhealthy)
    return Allowance(0, f"{refused} exceeds maxUnhealthy ({counted}, maxUnhealthy: {limit})")


def scaled(value: object, total: int, field: str, *, round_up: bool = False) -> int:
    """A number, or a share of the total as in `40%`. Raises BadLimit."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    share = _PERCENT.match(str(value))
    if share is not None:
        parts = total * int(share[1])
        return -(-parts // 100) if round_up else parts // 100
    if _NUMBER.match(str(value)):
        return int(str(value))
    raise BadLimit(f"{field} is {value}, which is neither a number nor a share such as 40%: correct it")


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.match(text)
    if found is None or int(found[2]) < int(found[1]):
        raise BadLimit(
            f"spec.remediation.triggerIf.unhealthyInRange is {text}, which is no range such as [1-3]: correct it"
        )
    return int(found[1]), int(found[2])
