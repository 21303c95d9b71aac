"""Claims with a ttl: when they end, who is told before, and what keeps them.

Nothing is deleted unannounced. The condition Expiring is written at least five minutes before the end, with an event,
and it is in the claim: after a restart, or after a ttl that was shortened to what has passed already, the announcement
comes first all the same. A claim that is protected stays, and says so.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

from steelyard.api import claims
from steelyard.compose.composed import Condition
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions

EXPIRING: Final = "Expiring"
_NOTICE: Final = datetime.timedelta(minutes=5)
_LONGEST_NOTICE: Final = datetime.timedelta(hours=1)
_TTL: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?")


@frozen
class Expiry:
    at: datetime.datetime
    condition: Condition | None = None
    is_due: bool = False
    """It is to be deleted now."""
    look_again: float = 0.0
    """In how many seconds something is to be done."""

    @property
    def text(self) -> str:
        return clocks.rfc3339(self.at)


def of(claim: Object, now: datetime.datetime) -> Expiry | None:
    """None for a claim without a ttl."""
    ttl = parsed(str(objects.at(claim, "spec", "parameters", "ttl") or ""))
    created = objects.metadata(claim).get("creationTimestamp")
    if ttl is None or not created:
        return None
    end = clocks.parse_rfc3339(str(created)) + ttl
    if protection := claims.protected_by(claim):
        if now < end:
            return Expiry(end, look_again=(end - now).total_seconds())
        return Expiry(end, Condition(EXPIRING, "False", "Protected", _kept(end, protection)))
    announced = max(_NOTICE, min(_LONGEST_NOTICE, ttl / 10))
    if now < end - announced:
        return Expiry(end, look_again=(end - announced - now).total_seconds())
    told = _told_since(claim)
    due = max(end, (told or now) + _NOTICE)
    condition = Condition(EXPIRING, "True", "EndOfLife", _announcement(claim, due))
    if told is None or now < due:
        return Expiry(end, condition, look_again=(due - now).total_seconds())
    return Expiry(end, condition, is_due=True)


def parsed(ttl: str) -> datetime.timedelta | None:
    """
    >>> parsed("1h30m")
    datetime.timedelta(seconds=5400)
    """
    found = _TTL.fullmatch(ttl)
    if not ttl or found is None:
        return None
    return datetime.timedelta(hours=int(found[1] or 0), minutes=int(found[2] or 0))


def _told_since(claim: Object) -> datetime.datetime | None:
    before = conditions.find(claim, EXPIRING) or {}
    is_announced = before.get("status") == "True" and before.get("lastTransitionTime")
    return clocks.parse_rfc3339(str(before["lastTransitionTime"])) if is_announced else None


def _announcement(claim: Object, due: datetime.datetime) -> str:
    ttl = objects.at(claim, "spec", "parameters", "ttl")
    return (
        f"its ttl of {ttl} ends, and at {clocks.rfc3339(due)} the claim is deleted with all that was made for it; to "
        "keep it, raise spec.parameters.ttl or take it out, or set spec.parameters.deletionProtection"
    )


def _kept(end: datetime.datetime, protection: str) -> str:
    return (
        f"its ttl ended at {clocks.rfc3339(end)}, and it stays since it is protected by {protection}; take that off "
        "and it is deleted, or take out spec.parameters.ttl"
    )
