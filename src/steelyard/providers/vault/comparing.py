"""Whether what Vault shows is what was written: it gives durations as seconds, single values as lists, and the like.

written  {"ttl": "1h", "token_policies": "a,b", "connection_url": "x"}
shown    {"ttl": 3600, "token_policies": ["a", "b"], "connection_details": {"connection_url": "x"}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast

from steelyard.kube.objects import Object

_DURATION: Final = re.compile(r"^(\d+)([smhd]?)$")
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_INSIDE: Final = ("connection_details", "config", "options")
"""Where Vault puts some of what it was given, deeper."""


def differs(wanted: Object, shown: Object, fields: Iterable[str] | None = None) -> str:
    """The first field that is not as wanted; empty where all are. What Vault does not show is believed."""
    flat = {**shown}
    for inside in _INSIDE:
        inner = shown.get(inside)
        if isinstance(inner, dict):
            flat = {**cast(Object, inner), **flat}
    for field in wanted if fields is None else fields:
        if field in wanted and field in flat and not _is_same(wanted[field], flat[field]):
            return field
    return ""


def _is_same(wanted: Any, shown: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(shown, dict):
        have = cast(Object, shown)
        return all(key in have and _is_same(value, have[key]) for key, value in cast(Object, wanted).items())
    if isinstance(wanted, list) or isinstance(shown, list):
        return _items(wanted) == _items(shown)
    return _plain(wanted) == _plain(shown)


def _items(value: Any) -> list[str]:
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return [_plain(each) for each in str(value).split(",")] if value not in (None, "") else []


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str("" if value is None else value).strip()
    found = _DURATION.match(text)
    return str(int(found[1]) * _SECONDS[found[2]]) if found else text
