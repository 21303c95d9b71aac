"""When a CronJob runs: five fields as cron has them, judged in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import re
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_UNNAMED: Final[dict[str, int]] = {}
_BOUNDS: Final = (
    (0, 59, _UNNAMED),
    (0, 23, _UNNAMED),
    (1, 31, _UNNAMED),
    (1, 12, {name: index for index, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: index for index, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


class _Wrong(Exception):
    pass


def problem(schedule: str) -> str:
    """Why the schedule cannot be read; nothing if it can."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        return _descriptor(text)
    parts = text.split()
    if len(parts) != len(_BOUNDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    try:
        for part, bounds in zip(parts, _BOUNDS, strict=True):
            for item in part.split(","):
                _check(item, *bounds)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _descriptor(text: str) -> str:
    if text in _DESCRIPTORS:
        return ""
    if text.startswith("@every "):
        span = text.removeprefix("@every ")
        is_span = re.fullmatch(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+", span)
        return "" if is_span else f'failed to parse duration {text}: time: invalid duration "{span}"'
    return f"unrecognized descriptor: {text}"


def _check(item: str, lowest: int, highest: int, named: dict[str, int]) -> None:
    around, _, step = item.partition("/")
    if item.count("/") > 1:
        raise _Wrong(f"too many slashes: {item}")
    if around.count("-") > 1:
        raise _Wrong(f"too many hyphens: {item}")
    first, dash, last = around.partition("-")
    if first in ("*", "?"):
        start, end = lowest, highest
    else:
        start = _number(first, named)
        end = _number(last, named) if dash else highest if step else start
    if "/" in item and not _number(step, _UNNAMED):
        raise _Wrong(f"step of range should be a positive number: {item}")
    if start < lowest:
        raise _Wrong(f"beginning of range ({start}) below minimum ({lowest}): {item}")
    if end > highest:
        raise _Wrong(f"end of range ({end}) above maximum ({highest}): {item}")
    if start > end:
        raise _Wrong(f"beginning of range ({start}) beyond end of range ({end}): {item}")


def _number(text: str, named: dict[str, int]) -> int:
    if text.lower() in named:
        return named[text.lower()]
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise _Wrong(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise _Wrong(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
