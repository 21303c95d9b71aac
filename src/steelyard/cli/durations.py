"""How long to wait, as people write it."""

from __future__ import annotations

_FACTORS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def seconds(text: str) -> float:
    """`90`, `90s`, `5m`, `1h` or `1h30m` as seconds; ValueError otherwise.

    >>> seconds("1h30m")
    5400.0
    """
    if text.replace(".", "", 1).isdigit():
        return float(text)
    total, number = 0.0, ""
    for character in text:
        if character.isdigit() or character == ".":
            number += character
        elif number and character in _FACTORS:
            total += float(number) * _FACTORS[character]
            number = ""
        else:
            raise ValueError(f'"{text}" is not a duration; write e.g. 90s, 5m or 1h30m')
    if number or not text:
        raise ValueError(f'"{text}" is not a duration; write e.g. 90s, 5m or 1h30m')
    return total
