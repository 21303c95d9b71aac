"""Which versions of objects a reconcile has made itself: the client notes them, whoever runs the reconcile asks.

A watch may tell of a write before its answer has come, so that only at the end of a reconcile it can be said of a
change whether it was its own.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator

from steelyard.kube import objects
from steelyard.kube.objects import Object

_written: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("written", default=None)


@contextlib.contextmanager
def noted() -> Generator[set[str]]:
    """The resource versions that are written within, so far; also by tasks that were begun within."""
    versions: set[str] = set()
    token = _written.set(versions)
    try:
        yield versions
    finally:
        _written.reset(token)


def note(obj: Object) -> None:
    """The answer to a write."""
    versions = _written.get()
    if versions is not None:
        versions.add(objects.resource_version(obj))
