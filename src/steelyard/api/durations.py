"""Spans of time as claims and the platform file write them: `90s`, `30m`, `1h30m`, `168h`. The words are Go's, so that
CEL's `duration()` reads the same.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import Field

_SPAN: Final = re.compile(r"(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?")
PATTERN: Final = r"^([1-9][0-9]{0,4}h([1-5]?[0-9]m)?|[1-9][0-9]{0,5}m)$"
"""To the minute."""


def within(least: str, most: str, example: str) -> dict[str, Any]:
    """The rule of a field that must lie between the two, for `json_schema_extra`."""
    rule = f"duration(self) >= duration('{least}') && duration(self) <= duration('{most}')"
    message = f"from {least} to {most}, as in {example}"
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


Span = Annotated[str, Field(max_length=9, pattern=PATTERN)]


def seconds(text: str) -> float | None:
    """None for what is no span.

    >>> seconds("1h30m")
    5400.0
    """
    found = _SPAN.fullmatch(text)
    if not text or found is None:
        return None
    hours, minutes, rest = (int(each or 0) for each in found.groups())
    return float(hours * 3600 + minutes * 60 + rest)
