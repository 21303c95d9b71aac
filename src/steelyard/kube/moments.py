"""Moments as objects write them (RFC 3339), to reckon with: seconds since 1970, and back.

For what is handed the time and does not read a clock itself.
"""

from __future__ import annotations

import datetime


def seconds(text: str) -> float:
    """
    >>> seconds("1970-01-01T00:01:00Z")
    60.0
    """
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def text(seconds: float) -> str:
    """To the second.

    >>> text(60.0)
    '1970-01-01T00:01:00Z'
    """
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
