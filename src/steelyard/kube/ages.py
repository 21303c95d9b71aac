"""Points in time and spans as kubectl users read them: `2026-01-02T03:04:05Z` and `5m12s`."""

from __future__ import annotations

import functools
import time
from datetime import UTC, datetime

UNKNOWN = "<unknown>"


def utcnow() -> datetime:
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """RFC 3339 in whole seconds, the form of metav1.Time."""
    if moment.tzinfo is not None and moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='seconds')[:19]}Z"


def current() -> str:
    """The timestamp of now."""
    return _second(int(time.time()))


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def parse(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def since(value: object, now: datetime) -> str:
    """The age of a timestamp, or `<unknown>` where there is none."""
    moment = parse(value)
    return human((now - moment).total_seconds()) if moment else UNKNOWN


def human(elapsed: float) -> str:
    """Two units at most, fewer as the span grows: 119s, 5m12s, 90m, 3h20m, 47h, 5d3h, 400d, 3y35d."""
    seconds = int(elapsed)
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
