"""The controllers of claims begin with the first claim.

What the kinds are composed of is much to load, to watch and to keep in memory, and a platform without claims needs none
of it. Until then only the claims themselves are watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime.controller import Controller
from steelyard.kube.runtime.manager import Manager


def with_the_first(manager: Manager, kinds: Iterable[Resource], make: Callable[[], Sequence[Controller]]) -> None:
    """`make` is called once, as soon as there is an object of one of the kinds."""
    has_begun = False

    def begin(_old: Object | None, _new: Object | None) -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            for controller in make():
                manager.add(controller)

    for each in kinds:
        manager.informers.of(each).on_change(begin)
