"""What is to be done about a DatabaseBackup, from its spec, its status, the dumps there are, and the time. Pure.

The files are the truth: a dump that is whole counts, whatever the status says. So a platform that was killed between
the last byte and the status makes none twice, and one that was down at a due time makes one when it is back, not
several.
"""

from __future__ import annotations

import datetime
import math
import zlib
from collections.abc import Sequence
from typing import Final

from steelyard.api import durations
from steelyard.api.databases import DatabaseBackupSpec, DatabaseBackupStatus
from steelyard.frozen import frozen
from steelyard.kube.runtime import clock as clocks
from steelyard.providers.postgres.dumps.folder import Reason, Side

_FIRST_WITHIN: Final = 3600.0
_LEAST_EVERY: Final = 60.0
_SHORTEST_RETRY: Final = 60.0
_LONGEST_RETRY: Final = 3600.0


@frozen
class Decision:
    make: Reason | None
    trigger: str | None
    """What `status.trigger` is to say."""
    due_at: datetime.datetime | None
    surplus: tuple[str, ...]
    """Dumps to be deleted."""


def decide(
    spec: DatabaseBackupSpec, status: DatabaseBackupStatus, dumps: Sequence[Side], uid: str, now: datetime.datetime
) -> Decision:
    """`dumps` are the whole ones, the newest first."""
    is_acted_on = spec.trigger == status.trigger or any(each.trigger == spec.trigger for each in dumps)
    is_asked_for = spec.trigger is not None and not is_acted_on
    trigger = spec.trigger if is_acted_on else status.trigger
    due_at = due(spec, status, dumps, uid, now)
    is_due = due_at is not None and due_at <= now
    make: Reason | None = "asked for" if is_asked_for else "scheduled" if is_due else None
    return Decision(make, trigger, due_at, surplus(dumps, spec.keep))


def due(
    spec: DatabaseBackupSpec, status: DatabaseBackupStatus, dumps: Sequence[Side], uid: str, now: datetime.datetime
) -> datetime.datetime | None:
    if spec.every is None:
        return None
    every = datetime.timedelta(seconds=max(durations.seconds(spec.every) or 0.0, _LEAST_EVERY))
    if status.due_at is None:
        return now + spread(uid, min(every.total_seconds(), _FIRST_WITHIN))
    recorded = min(clocks.parse_rfc3339(status.due_at), now + every)
    last = next((clocks.parse_rfc3339(each.at) for each in dumps if each.reason == "scheduled"), None)
    if last is None or last < recorded:
        return recorded
    return recorded + every * (math.floor((last - recorded) / every) + 1)


def spread(uid: str, seconds: float) -> datetime.timedelta:
    """A part of that time, fixed by the object: backups that are made together are not due together."""
    return datetime.timedelta(seconds=round(seconds * (zlib.crc32(uid.encode()) / 2**32)))


def surplus(dumps: Sequence[Side], keep: int) -> tuple[str, ...]:
    """Of the scheduled and of those asked for, all but the newest ones."""
    reasons: tuple[Reason, ...] = ("scheduled", "asked for")
    return tuple(each.name for reason in reasons for each in [d for d in dumps if d.reason == reason][keep:])


def retry_after(failures: int) -> float:
    """Seconds after so many failures in a row."""
    return min(_SHORTEST_RETRY * 2.0 ** min(failures - 1, 16), _LONGEST_RETRY)
