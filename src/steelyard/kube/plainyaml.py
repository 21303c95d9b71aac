"""YAML that somebody else wrote: read within bounds, before anything is made of it.

Bytes, depth and values are limited, so that reading takes some hundredths of a second at most, and aliases are refused:
with merge keys a few lines of them stand for gigabytes. Whatever is wrong is `Unreadable`, whose text can be shown to
whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import yaml

MAX_BYTES: Final = 3 << 20
"""More than any Kubernetes object may have."""
_MAX_DEPTH: Final = 64
_MAX_VALUES: Final = 5_000
"""Fifty times what a kubeconfig or the configuration of a machine has; each takes ten microseconds."""
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unreadable(ValueError):
    """It is no YAML, or more than will be read."""


def load(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The only document."""
    found = load_all(text, max_bytes=max_bytes)
    if len(found) > 1:
        raise Unreadable("it has more than one document")
    return found[0] if found else None


def load_all(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> list[Any]:
    if len(text) > max_bytes:
        raise Unreadable(f"it is larger than {max_bytes} bytes")
    try:
        _check(text)
        return list(cast("Iterable[Any]", yaml.load_all(text, _LOADER)))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def _check(text: str | bytes) -> None:
    """Reads the events only, which takes no more memory than the longest text in it."""
    depth = values = 0
    for event in cast("Iterable[yaml.Event]", cast(Any, yaml).parse(text, Loader=_LOADER)):
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable("it uses aliases (*name), which are not supported")
        if isinstance(event, yaml.NodeEvent):
            values += 1
            if values > _MAX_VALUES:
                raise Unreadable(f"it has more than {_MAX_VALUES} values")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise Unreadable(f"it is nested deeper than {_MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
