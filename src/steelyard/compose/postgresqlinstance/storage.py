"""How full a database is, and what follows from it.

    from 80 %    told                         below 75 % no longer
    from 95 %    told                         below 90 % the one before
    from 100 %   new sessions are read-only   below 95 % the one before; a session may lift it, to delete
    from 110 %   no new sessions              below 105 % the one before; or one session, for as long as is granted

Each level is left later than it is entered, so that nothing flaps around a threshold. Pure.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast

from steelyard.compose.composed import Condition
from steelyard.frozen import frozen
from steelyard.kube import moments, objects
from steelyard.kube.objects import Object

Level: TypeAlias = Literal["ok", "low", "almost full", "read-only", "closed"]
LEVELS: Final[tuple[tuple[Level, int], ...]] = (
    ("ok", 0),
    ("low", 80),
    ("almost full", 95),
    ("read-only", 100),
    ("closed", 110),
)
_LATER: Final = 5
_LONGEST: Final = 24 * 3600.0
"""How far ahead room can be granted."""
GB: Final = 1_000_000_000
_REASONS: Final = {"low": "Low", "almost full": "AlmostFull", "read-only": "ReadOnly", "closed": "Closed"}


@frozen
class Storage:
    level: Level = "ok"
    percent: int | None = None
    size_bytes: int | None = None
    has_room_until: str = ""
    """A session is granted to make room, until then."""

    @property
    def is_read_only(self) -> bool:
        return self.level in ("read-only", "closed")

    def connections(self, usual: int) -> int:
        if self.level != "closed":
            return usual
        return 1 if self.has_room_until else 0

    def to_json(self) -> Object:
        return {
            **({"sizeBytes": self.size_bytes} if self.size_bytes is not None else {}),
            **({"percent": self.percent} if self.percent is not None else {}),
            "level": self.level,
        }


def of(usage: Object | None, before: object, room: str, now: str) -> Storage:
    """`usage` is the DatabaseUsage, `before` the level that is recorded, `room` what the annotation says."""
    percent, size = (_number(objects.at(usage or {}, "status", field)) for field in ("percent", "sizeBytes"))
    known = [level for level, _ in LEVELS]
    recorded = cast(Level, before) if before in known else "ok"
    if percent is None:
        return Storage(recorded, has_room_until=_granted(room, now))
    level: Level = "ok"
    for name, least in LEVELS:
        is_kept = known.index(recorded) >= known.index(name) and percent >= least - _LATER
        if percent >= least or is_kept:
            level = name
    return Storage(level, percent, size, _granted(room, now))


def look_again(storage: Storage, now: str) -> float:
    if storage.level != "closed" or not storage.has_room_until or not now:
        return 0.0
    return max(1.0, moments.seconds(storage.has_room_until) - moments.seconds(now))


def condition(storage: Storage, storage_gb: int, command: str) -> list[Condition]:
    """StorageLow, from 80 % on; what is no longer so goes away. `command` opens it for a session."""
    if storage.level == "ok":
        return []
    told = f"the database holds {storage.percent} % of its {storage_gb} GB" if storage.percent else "it is full"
    then = {
        "low": "raise spec.parameters.storageGB, or delete what is not needed",
        "almost full": "at 100 % new sessions become read-only; raise spec.parameters.storageGB, or delete what is not "
        "needed",
        "read-only": "new sessions are read-only. To delete what is not needed: SET default_transaction_read_only = "
        "off, in the session that does; or raise spec.parameters.storageGB",
        "closed": "there are no new sessions. "
        + (
            f"One is granted until {storage.has_room_until}, to delete what is not needed"
            if storage.has_room_until
            else f"For one that deletes what is not needed: {command}; or raise spec.parameters.storageGB"
        ),
    }[storage.level]
    return [Condition("StorageLow", "True", _REASONS[storage.level], f"{told}; {then}")]


def _granted(room: str, now: str) -> str:
    """Until when, if that has not passed and is not further away than anybody may grant."""
    if not room or not now:
        return ""
    try:
        ahead = moments.seconds(room) - moments.seconds(now)
    except ValueError:
        return ""
    return room if 0 < ahead <= _LONGEST else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
