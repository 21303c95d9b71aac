"""Why Go's time.Parse does not read a text as a time: it names the part of the layout at which it stopped."""

from __future__ import annotations

import calendar
import re
from typing import Final

from steelyard.kube import fields

_SECONDS: Final = "2006-01-02T15:04:05Z07:00"
_MICROSECONDS: Final = "2006-01-02T15:04:05.000000Z07:00"
_DIGITS: Final = {"2006": 4, "01": 2, "02": 2, "15": 2, "04": 2, "05": 2}
_PARTS: Final = ("2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05")
_LIMITS: Final = {"01": ("month", 1, 12), "15": ("hour", 0, 23), "04": ("minute", 0, 59), "05": ("second", 0, 59)}
_FRACTION: Final = re.compile(r"[.,]\d+", re.ASCII)
_MICRO: Final = re.compile(r"[.,]\d{6}", re.ASCII)
_ZONE: Final = re.compile(r"Z|[+-](\d\d):(\d\d)", re.ASCII)


def problem(text: str, *, micro: bool = False) -> str:
    """Empty for a time. `micro` is for times with exactly six digits of a second's fraction."""
    layout = _MICROSECONDS if micro else _SECONDS
    rest = text
    found: dict[str, int] = {}
    for part in _PARTS:
        size = _DIGITS.get(part, len(part))
        piece = rest[:size]
        if part in _DIGITS:
            if len(piece) < size or not (piece.isascii() and piece.isdecimal()):
                return _stopped(text, layout, rest, part)
            found[part] = int(piece)
            if part in _LIMITS and not _LIMITS[part][1] <= found[part] <= _LIMITS[part][2]:
                return f"parsing time {fields.quote(text)}: {_LIMITS[part][0]} out of range"
        elif piece != part:
            return _stopped(text, layout, rest, part)
        rest = rest[size:]
    return _zone_problem(text, layout, rest, found, micro=micro)


def _zone_problem(text: str, layout: str, rest: str, found: dict[str, int], *, micro: bool) -> str:
    fraction = (_MICRO if micro else _FRACTION).match(rest)
    if micro and fraction is None:
        return _stopped(text, layout, rest, ".000000")
    rest = rest[fraction.end() :] if fraction else rest
    zone = _ZONE.match(rest)
    if zone is None:
        return _stopped(text, layout, rest, "Z07:00")
    if zone[1] and (int(zone[1]) > 24 or int(zone[2]) > 60):
        unit = "hour" if int(zone[1]) > 24 else "minute"
        return f"parsing time {fields.quote(text)}: time zone offset {unit} out of range"
    if rest := rest[zone.end() :]:
        return f"parsing time {fields.quote(text)}: extra text: {fields.quote(rest)}"
    year = found["2006"] or 4
    if not 1 <= found["02"] <= calendar.monthrange(year, found["01"])[1]:
        return f"parsing time {fields.quote(text)}: day out of range"
    return ""


def _stopped(text: str, layout: str, rest: str, part: str) -> str:
    return f'parsing time {fields.quote(text)} as "{layout}": cannot parse {fields.quote(rest)} as "{part}"'
