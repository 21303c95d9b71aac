"""What is told on an object of this provider, and when it is looked at again.

Whatever goes wrong ends in one condition with a message for people: nobody has to look into logs, and the claim that
made the object repeats it. Nothing is written while nothing changes, also while Vault is away.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.vault.stores import Unusable
from steelyard.providers.vault.templates import TemplateError
from steelyard.vault.errors import Away, Sealed, VaultError

PAUSED: Final = "crossplane.io/paused"
SHORTEST: Final = 1.0
_WHILE_AWAY: Final = (20.0, 60.0)
"""Seconds after which an object asks again by itself while Vault is away. What its store finds out wakes it sooner."""
_SOON: Final = 1.0
_RARELY: Final = 90.0
_MOST_FAILURES: Final = 16
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class Problem(Exception):
    """Something about the object itself that keeps it from being brought about; the message is told on it."""


TOLD: Final = (Problem, Unusable, TemplateError, VaultError)
"""What a reconcile may end with and tells on the object. Anything else is a fault of the provider's."""


@frozen
class Said:
    """A condition."""

    type: str
    is_so: bool
    reason: str
    message: str = ""


async def report(
    client: Client, resource: Resource, obj: Object, said: Iterable[Said], clock: Clock, more: Object | None = None
) -> Object:
    """One status patch; none where nothing differs."""
    status: Object = {**objects.mapping(obj.get("status")), **(more or {})}
    found = conditions.of(obj)
    generation = objects.generation(obj) if resource.group == "data.steelyard.dev" else 0
    for each in said:
        found = conditions.set_(
            found, each.type, each.is_so, each.reason, each.message, now=clock.now(), observed_generation=generation
        )
    status["conditions"] = found
    return await patching.patch_status(client, resource, obj, status)


class Patience:
    """When to try again what has failed: soon at first, as what it needs may just be coming, then ever more rarely."""

    def __init__(self) -> None:
        self._failures: dict[Key, int] = {}

    def after(self, key: Key, error: Exception) -> Result:
        if isinstance(error, Away | Sealed):
            first, last = _WHILE_AWAY
            return Result(requeue_after=random.uniform(first, last))  # noqa: S311 (jitter, not a secret)
        count = self._failures.get(key, 0)
        self._failures[key] = min(count + 1, _MOST_FAILURES)
        delay = min(_SOON * 2**count, _RARELY)
        return Result(requeue_after=delay * random.uniform(0.75, 1.25))  # noqa: S311 (jitter, not a secret)

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)


def refreshed(interval: object, default: float) -> Result:
    """When to look again though nothing changed; never for 0."""
    every = seconds(str(interval)) if interval else default
    if every <= 0:
        return Result()
    return Result(requeue_after=max(every, SHORTEST) * random.uniform(0.9, 1.1))  # noqa: S311 (jitter, not a secret)


def seconds(duration: str) -> float:
    """Of a duration as Go writes it: 5m0s, 1h30m, 0.

    >>> seconds("1h30m")
    5400.0
    """
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION.findall(duration))


def is_paused(obj: Object) -> bool:
    return objects.annotations(obj).get(PAUSED) == "true"
