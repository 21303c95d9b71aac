"""How much one server of many may hold: of the disk that they share, and of the memory that keeps their state.

What makes an object smaller is always allowed, and so is deleting, so that whoever has reached the limit can go on by
themselves; an object that is being deleted may grow a little beyond it, since taking a finalizer off can do that.
"""

from __future__ import annotations

from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.server.space import keys
from steelyard.kube.store.store import Store

_MEGABYTE: Final = 1_000_000
_FOR_DELETIONS: Final = 16
"""The part of the limit, one in so many, that is kept for objects that are being deleted."""


class Quota:
    __slots__ = ("_limit", "_space", "_store")

    def __init__(self, store: Store, space: str, limit: int) -> None:
        self._store = store
        self._space = space
        self._limit = limit

    def check(self, key: str, obj: Object, size: int) -> None:
        """Raises Forbidden if the object, which takes so many bytes, would be too much."""
        head = self._store.head(key)
        before = head.size if head is not None else 0
        if size <= before:
            return
        used = self._store.used(self._space)
        limit = self._limit
        if objects.is_being_deleted(obj):
            limit += limit // _FOR_DELETIONS
        if used + size - before > limit:
            raise _exceeded(key, used, self._limit)


def _exceeded(key: str, used: int, limit: int) -> errors.Forbidden:
    place = keys.locate(key)
    resource = f"{place.plural}.{place.group}" if place.group else place.plural
    return errors.forbidden(
        resource,
        place.name,
        f"exceeded quota: the objects of this cluster take {used / _MEGABYTE:.1f} MB of the {limit / _MEGABYTE:g} MB "
        "that they may have together; delete what is not needed, which is always possible",
    )
