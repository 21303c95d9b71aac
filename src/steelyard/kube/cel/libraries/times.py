"""Durations and timestamps: reading them, writing them, and their parts."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any, Final

from steelyard.kube.cel import values
from steelyard.kube.cel.functions import Overload, declare
from steelyard.kube.cel.problems import EvaluationError
from steelyard.kube.cel.values import Duration, Timestamp

_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_DURATION: Final = re.compile(r"([-+]?)(?:0|((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+))", re.ASCII)
_PART: Final = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LOOSE: Final = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_LOOSE_UNITS: Final = (
    (("ns",), "nano", 1), (("us", "µs"), "micro", 1000), (("ms",), "milli", 1_000_000), (("s",), "sec", _SECOND),
    (("m",), "min", 60 * _SECOND), (("h", "hr"), "hour", 3600 * _SECOND), (("d",), "day", 86400 * _SECOND),
    (("w", "wk"), "week", 604800 * _SECOND),
)  # fmt: skip
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def parse_duration(text: str) -> Duration | None:
    """As Go writes durations: `1h30m`, `1.5s`, `-2ms`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    total = 0
    for whole, fraction, unit in _PART.findall(match[2] or ""):
        size = _UNITS[unit]
        total += int(whole or 0) * size
        if fraction:
            total += int(fraction) * size // 10 ** len(fraction)
    if total > values.MAX_INT:
        return None
    return Duration(-total if match[1] == "-" else total)


def duration_of_format(text: str) -> Duration:
    """A string of format duration, which may also be `3 days` or `1 wk`."""
    found = parse_duration(text)
    if found is not None:
        return found
    total = 0
    for number, given in _LOOSE.findall(text):
        unit = given.lower()
        for names, prefix, size in _LOOSE_UNITS:
            if unit in names or unit.startswith(prefix):
                total += int(number) * size
    return Duration(total)


def parse_timestamp(text: str) -> Timestamp | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    try:
        # The pattern has six groups before the fraction; the type checker cannot count what is unpacked.
        moment = datetime.datetime(*(int(match[index]) for index in range(1, 7)), tzinfo=datetime.UTC)  # type: ignore[arg-type]
    except ValueError:
        return None
    seconds = int((moment - _EPOCH).total_seconds())
    offset = 0
    if match[8]:
        if int(match[9]) > 23 or int(match[10]) > 59:
            return None
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        offset = offset if match[8] == "+" else -offset
        seconds -= offset
    fraction = (match[7] or "")[:9].ljust(9, "0")
    return Timestamp(seconds * _SECOND + int(fraction), offset)


def timestamp_of_format(text: str) -> Timestamp:
    """A string of format date or date-time, which the schema has found valid."""
    found = parse_timestamp(text.upper() if "T" in text.upper() else f"{text}T00:00:00Z")
    if found is None:
        raise EvaluationError(f"Invalid date-time formatted string {text}")
    return found


def text_of_duration(duration: Duration) -> str:
    sign = "-" if duration.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(duration.nanoseconds), _SECOND)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{seconds}{fraction}s"


def text_of_timestamp(timestamp: Timestamp) -> str:
    seconds, rest = divmod(timestamp.nanoseconds, _SECOND)
    moment = _EPOCH + datetime.timedelta(seconds=seconds + timestamp.offset)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}{_zone_text(timestamp.offset)}"


def _zone_text(offset: int) -> str:
    hours, minutes = divmod(abs(offset) // 60, 60)
    return f"{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}" if offset else "Z"


def _duration(text: str) -> Duration:
    found = parse_duration(text)
    if found is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    return found


def _timestamp(text: str) -> Timestamp:
    found = parse_timestamp(text)
    if found is None:
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    return found


def _timestamp_of_seconds(seconds: int) -> Timestamp:
    from steelyard.kube.cel.libraries.operators import within_timestamp

    return within_timestamp(seconds * _SECOND)


_OFFSET: Final = re.compile(r"([+-]?)(\d{2}):(\d{2})", re.ASCII)


def _zone(name: str) -> datetime.tzinfo:
    match = _OFFSET.fullmatch(name)
    if match is not None:
        if int(match[3]) > 59:
            raise EvaluationError(f"timezone offset minutes out of range [0, 59]: {name}")
        offset = datetime.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return datetime.timezone(-offset if match[1] == "-" else offset)
    if name in ("", "UTC"):
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _parts() -> Iterator[Overload]:
    parts: tuple[tuple[str, Callable[[datetime.datetime], int]], ...] = (
        ("getFullYear", lambda moment: moment.year),
        ("getMonth", lambda moment: moment.month - 1),
        ("getDayOfYear", lambda moment: moment.timetuple().tm_yday - 1),
        ("getDayOfMonth", lambda moment: moment.day - 1),
        ("getDate", lambda moment: moment.day),
        ("getDayOfWeek", lambda moment: moment.isoweekday() % 7),
        ("getHours", lambda moment: moment.hour),
        ("getMinutes", lambda moment: moment.minute),
        ("getSeconds", lambda moment: moment.second),
        ("getMilliseconds", lambda moment: moment.microsecond // 1000),
    )
    for name, part in parts:
        yield declare(f"timestamp -> {name}() int", _in_utc(part))
        yield declare(f"timestamp -> {name}(string) int", _in_zone(part))
    for name, size in (
        ("getHours", 3600 * _SECOND),
        ("getMinutes", 60 * _SECOND),
        ("getSeconds", _SECOND),
        ("getMilliseconds", 1_000_000),
    ):
        yield declare(f"duration -> {name}() int", _whole(size))


def _in_utc(part: Callable[[datetime.datetime], int]) -> Callable[[Timestamp], int]:
    return lambda timestamp: part(timestamp.local(datetime.UTC))


def _in_zone(part: Callable[[datetime.datetime], int]) -> Callable[[Timestamp, str], int]:
    return lambda timestamp, zone: part(timestamp.local(_zone(zone)))


def _whole(size: int) -> Callable[[Duration], int]:
    def whole(duration: Duration) -> int:
        count = abs(duration.nanoseconds) // size
        return -count if duration.nanoseconds < 0 else count

    return whole


def _same(value: Any) -> Any:
    return value


OVERLOADS: Final = (
    declare("duration(duration) duration", _same),
    declare("duration(string) duration", _duration),
    declare("timestamp(timestamp) timestamp", _same),
    declare("timestamp(int) timestamp", _timestamp_of_seconds),
    declare("timestamp(string) timestamp", _timestamp),
    *_parts(),
)
