"""Claims with a ttl: when they end, who is told before, and what keeps them.

How long a claim lives is for its kind to say: a field, an annotation, a default for previews. It counts from the
creation, so a claim whose time came while the platform was down goes soon after the start.

Nothing is deleted unannounced. The condition Expiring is written at least five minutes before the end, with an event,
and it is in the claim: after a restart, or after a ttl that was shortened to what has passed already, the announcement
comes first all the same. So a claim with a shorter ttl than that lives for five minutes, and not longer: what counts is
when it was first announced. A claim that is protected stays, and says so.
"""

from __future__ import annotations

import datetime
from typing import Final

from steelyard.api import durations
from steelyard.api.claims import CREATED
from steelyard.compose.composed import Condition
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions

EXPIRING: Final = "Expiring"
_NOTICE: Final = datetime.timedelta(minutes=5)
_LONGEST_NOTICE: Final = datetime.timedelta(hours=1)


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


def of(claim: Object, now: datetime.datetime, *, ttl: str, protection: str) -> Expiry | None:
    """None for a claim without a ttl. `protection` is what keeps it from being deleted, in words."""
    span = parsed(ttl)
    created = _created(claim)
    if span is None or created is None:
        return None
    end = created + span
    if protection:
        if now < end:
            return Expiry(end, look_again=(end - now).total_seconds())
        return Expiry(end, Condition(EXPIRING, "False", "Protected", _kept(end, protection)))
    announced = max(_NOTICE, min(_LONGEST_NOTICE, span / 10))
    if now < end - announced:
        return Expiry(end, look_again=(end - announced - now).total_seconds())
    told = _told_since(claim)
    due = max(end, (told or now) + _NOTICE)
    condition = Condition(EXPIRING, "True", "EndOfLife", _announcement(ttl, due))
    if told is None or now < due:
        return Expiry(end, condition, look_again=(due - now).total_seconds())
    return Expiry(end, condition, is_due=True)


def _created(claim: Object) -> datetime.datetime | None:
    """Of a claim that was moved, where it was made first; nobody lives longer by saying something later."""
    made = objects.metadata(claim).get("creationTimestamp")
    if not made:
        return None
    here = clocks.parse_rfc3339(str(made))
    try:
        return min(here, clocks.parse_rfc3339(objects.annotations(claim).get(CREATED, str(made))))
    except ValueError:
        return here


def parsed(ttl: str) -> datetime.timedelta | None:
    """
    >>> parsed("1h30m")
    datetime.timedelta(seconds=5400)
    """
    found = durations.seconds(ttl)
    return datetime.timedelta(seconds=found) if found else None


def _told_since(claim: Object) -> datetime.datetime | None:
    before = conditions.find(claim, EXPIRING) or {}
    is_announced = before.get("status") == "True" and before.get("lastTransitionTime")
    return clocks.parse_rfc3339(str(before["lastTransitionTime"])) if is_announced else None


def _announcement(ttl: str, due: datetime.datetime) -> str:
    return (
        f"its ttl of {ttl} ends, and at {clocks.rfc3339(due)} the claim is deleted with all that was made for it; to "
        "keep it, raise spec.parameters.ttl or take it out, or set spec.parameters.deletionProtection"
    )


def _kept(end: datetime.datetime, protection: str) -> str:
    return (
        f"its ttl ended at {clocks.rfc3339(end)}, and it stays since it is protected by {protection}; take that off "
        "and it is deleted, or take out spec.parameters.ttl"
    )
