"""Times as people read them in a terminal."""

from __future__ import annotations

import datetime

_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def age(timestamp: str, now: datetime.datetime) -> str:
    """Two units at most: `45s`, `3m10s`, `2h5m`, `4d3h`; `?` where the time cannot be read."""
    try:
        then = datetime.datetime.fromisoformat(timestamp)
    except ValueError:
        return "?"
    remaining = max(0, int((now - then).total_seconds()))
    parts: list[str] = []
    for unit, seconds in _UNITS:
        count, remaining = divmod(remaining, seconds)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return "".join(parts[:2])


def seconds(text: str) -> float:
    """`90`, `90s`, `5m`, `1h` or `1h30m` as seconds; ValueError otherwise.

    >>> seconds("1h30m")
    5400.0
    """
    if text.replace(".", "", 1).isdigit():
        return float(text)
    total, number = 0.0, ""
    factors = dict(_UNITS)
    for character in text:
        if character.isdigit() or character == ".":
            number += character
        elif number and character in factors:
            total += float(number) * factors[character]
            number = ""
        else:
            raise ValueError(f'"{text}" is not a duration; write e.g. 90s, 5m or 1h30m')
    if number or not text:
        raise ValueError(f'"{text}" is not a duration; write e.g. 90s, 5m or 1h30m')
    return total
