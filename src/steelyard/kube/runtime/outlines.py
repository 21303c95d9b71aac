"""What a cache keeps of a large object: who it is, and that it has changed; not what is in it.

Anybody who may write Secrets or ConfigMaps could fill the memory of every controller that watches them, since an object
takes up to thirty times as much as its JSON. So a cache keeps an outline of what is large, and whoever reads it gets
the object from the server. Only kinds that people fill with things of their own are kept so: those of Kubernetes itself
that are in namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

_LIMIT: Final = 24 * 1024
_EACH: Final = 100
"""Bytes that a value takes besides its text."""
_OUTLINED: Final = "steelyard.dev/outlined"
_IDENTITY: Final = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}
)


def concern(resource: Resource) -> bool:
    is_kubernetes_own = "." not in resource.group or resource.group.endswith(".k8s.io")
    return resource.namespaced and is_kubernetes_own


def of(obj: Object) -> Object:
    """The object itself, or the outline of a large one: in the place of what it holds stands its version, so that a
    change of it shows."""
    if not _is_large(obj):
        return obj
    metadata = objects.metadata(obj)
    mark = {_OUTLINED: metadata.get("resourceVersion")}
    kept: Object = {key: value if isinstance(value, str) else mark for key, value in obj.items() if key != "metadata"}
    light = {key: value for key, value in metadata.items() if key in _IDENTITY or not _is_large(value)}
    return {**kept, "metadata": {**light, "annotations": {**objects.annotations({"metadata": light}), **mark}}}


def is_one(obj: Object) -> bool:
    return _OUTLINED in objects.annotations(obj)


def _is_large(value: Any) -> bool:
    """Looks no further than it needs to."""
    left = _LIMIT
    rest: list[Iterable[Any]] = [(value,)]
    while rest:
        for each in rest.pop():
            left -= _EACH
            if isinstance(each, str):
                left -= len(each)
            elif isinstance(each, dict):
                items = cast("dict[str, Any]", each)
                left -= _EACH * len(items)
                rest.append(items.values())
            elif isinstance(each, list):
                values = cast("list[Any]", each)
                left -= _EACH * len(values)
                rest.append(values)
            if left < 0:
                return True
    return False
