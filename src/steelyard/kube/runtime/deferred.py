"""A reconciler that is loaded with the first object of its kind.

A platform has controllers of many kinds, and mostly objects of few: code for the others is neither read nor kept in
memory. What a controller needs to know when to look at an object is loaded with it; what it does about the object is
not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from steelyard.kube.runtime.controller import Reconciler, Result
from steelyard.kube.runtime.keys import Key


class Deferred:
    """`make` imports the reconciler's module and makes it; it is called once."""

    def __init__(self, make: Callable[[], Reconciler]) -> None:
        self._make: Final = make
        self._made: Reconciler | None = None

    async def reconcile(self, key: Key) -> Result:
        if self._made is None:
            self._made = self._make()
        return await self._made.reconcile(key)
