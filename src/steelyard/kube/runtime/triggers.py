"""Which changes of an object are worth a reconcile of another: by the fields that the other one looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from steelyard.kube import objects
from steelyard.kube.objects import Object

Matters: TypeAlias = Callable[[Object | None, Object | None], bool]
Path: TypeAlias = tuple[str, ...]

CONDITIONS: Path = ("status", "conditions")
SPEC: Path = ("spec",)
STATUS: Path = ("status",)
LABELS: Path = ("metadata", "labels")
ANNOTATIONS: Path = ("metadata", "annotations")
OWNERS: Path = ("metadata", "ownerReferences")
DELETION: Path = ("metadata", "deletionTimestamp")


def changed(*paths: Path) -> Matters:
    """Creation and removal always matter; a change does where a value at one of the paths differs."""

    def matters(old: Object | None, new: Object | None) -> bool:
        if old is None or new is None:
            return True
        return any(_at(old, path) != _at(new, path) for path in paths)

    return matters


def _at(obj: Object, path: Path) -> Any:
    return objects.at(obj, *path)


def is_report(old: Object, new: Object) -> bool:
    """Whether nothing but the status has changed."""
    return _asked(old) == _asked(new)


def _asked(obj: Object) -> Object:
    kept = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    metadata = objects.metadata(obj)
    return kept | {name: value for name, value in metadata.items() if name not in ("resourceVersion", "managedFields")}


def coming_and_going(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None


REPORT_AFTER = 0.2
"""Seconds in which changes are collected that alter only what an owner reports: counters, the words of conditions."""
