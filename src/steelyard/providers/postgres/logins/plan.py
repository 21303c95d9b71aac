"""What is to be done about a TemporaryLogin, from its spec, its status and the time. Pure.

The life of one login, valid for an hour:

    0 min   serial recorded, login made, Secret written, status switched
    40 min  the next serial recorded, ...: the Secret has the new login, this one is a former one
    60 min  ended: nobody gets in, sessions are ended, what it owns becomes the owner's, it is dropped

A serial that is recorded and whose login is not the one in use is of a login that is still to be made, or was being
made when the platform was killed: it is made, or made again, under the same name.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import Final

from steelyard.api import durations
from steelyard.api.databases import Login as LoginStatus
from steelyard.api.databases import TemporaryLoginSpec, TemporaryLoginStatus
from steelyard.frozen import frozen
from steelyard.kube.runtime import clock as clocks

RENEWED_AT: Final = 2 / 3
"""Of its life."""
FORMER_KEPT: Final = 10
"""Logins before the one in use that live to their end; of more, asked for by triggers, the oldest end early."""
LEAST_LIFE: Final = 5.0
"""Seconds. One that lives for less would be at its end before anybody has read its Secret."""


@frozen
class Login:
    name: str
    expires_at: datetime.datetime

    def to_status(self) -> LoginStatus:
        return LoginStatus(name=self.name, expires_at=clocks.rfc3339(self.expires_at))


@frozen
class Standing:
    """What the status says."""

    serial: int = 0
    login: Login | None = None
    former: tuple[Login, ...] = ()
    trigger: str | None = None


@frozen
class Decision:
    current: Login | None
    """The one in use, if its end has not come."""
    former: tuple[Login, ...]
    """Those before it that live on."""
    wants_another: bool
    """A new serial is to be recorded."""
    is_pending: bool
    """The recorded serial's login is still to be made."""

    @property
    def living(self) -> frozenset[str]:
        return frozenset(each.name for each in (self.current, *self.former) if each is not None)


def standing(status: TemporaryLoginStatus) -> Standing:
    return Standing(
        status.serial or 0,
        _login(status.login) if status.login else None,
        tuple(map(_login, status.former or ())),
        status.trigger,
    )


def name_of(spec: TemporaryLoginSpec, serial: int) -> str:
    return f"{spec.name_prefix}_{serial}"


def life(spec: TemporaryLoginSpec) -> datetime.timedelta:
    return datetime.timedelta(seconds=max(durations.seconds(spec.valid_for) or 0.0, LEAST_LIFE))


def decide(
    spec: TemporaryLoginSpec, seen: Standing, now: datetime.datetime, *, secret_names: str, on_server: Collection[str]
) -> Decision:
    """`secret_names` is the login in the Secret, empty where there is none; `on_server` are those that exist there."""
    current = seen.login if seen.login and seen.login.expires_at > now and seen.login.name in on_server else None
    is_pending = seen.serial > 0 and (seen.login is None or seen.login.name != name_of(spec, seen.serial))
    is_lost = current is None or secret_names != current.name
    is_due = current is not None and (now >= renewal(spec, current) or current.expires_at > now + life(spec))
    wants_another = not is_pending and (is_lost or is_due or seen.trigger != spec.trigger)
    return Decision(current, living(seen.former, now), wants_another, is_pending)


def renewal(spec: TemporaryLoginSpec, login: Login) -> datetime.datetime:
    """When the next is made. One that would live for longer than the spec now says is replaced at once."""
    return login.expires_at - life(spec) * (1 - RENEWED_AT)


def living(former: Sequence[Login], now: datetime.datetime) -> tuple[Login, ...]:
    """The newest first."""
    alive = sorted((each for each in former if each.expires_at > now), key=lambda each: each.expires_at, reverse=True)
    return tuple(alive[:FORMER_KEPT])


def switched(decision: Decision, made: Login, now: datetime.datetime) -> tuple[Login, ...]:
    """The former ones once this is the one in use. None outlives it."""
    before = (decision.current,) if decision.current and decision.current.name != made.name else ()
    capped = [Login(each.name, min(each.expires_at, made.expires_at)) for each in (*before, *decision.former)]
    return living(capped, now)


def look_again(
    spec: TemporaryLoginSpec, current: Login | None, former: Sequence[Login], now: datetime.datetime
) -> float:
    """Seconds until something is to be done."""
    moments = [each.expires_at for each in former]
    if current is not None:
        moments.append(renewal(spec, current))
    return max(min((each - now).total_seconds() for each in moments), 0.0) if moments else 0.0


def _login(seen: LoginStatus) -> Login:
    return Login(seen.name, clocks.parse_rfc3339(seen.expires_at))
