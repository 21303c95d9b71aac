"""How many machines a MachineSet has to create, or which to delete. Pure.

Machines on their way out still count: none is created in their place before they are gone, and they are the first to be
counted off when there are too many. Then go those marked for deletion, then unhealthy ones, then by the deletion order.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

from steelyard.api.clusterapi import wellknown
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import verdicts

RANDOM = "Random"
NEWEST = "Newest"
OLDEST = "Oldest"

_MUST, _SHOULD, _BETTER, _COULD, _MUST_NOT = 100.0, 75.0, 50.0, 20.0, 0.0
_TEN_DAYS = 864000.0


@frozen
class Step:
    create: int = 0
    delete: tuple[str, ...] = ()
    """Names, without those that are being deleted already."""


def next_step(replicas: int, machines: Sequence[Object], order: str, now: datetime.datetime) -> Step:
    excess = len(machines) - replicas
    if excess < 0:
        return Step(create=-excess)
    if excess == 0:
        return Step()
    ranked = sorted(machines, key=lambda machine: (-_priority(machine, order, now), objects.name(machine)))
    chosen = ranked[:excess]
    return Step(delete=tuple(objects.name(each) for each in chosen if not objects.is_being_deleted(each)))


def is_healthy(machine: Object) -> bool:
    if not objects.at(machine, "status", "nodeRef", "name"):
        return False
    return not verdicts.is_false(machine, "NodeHealthy") and not verdicts.is_false(machine, "HealthCheckSucceeded")


def _priority(machine: Object, order: str, now: datetime.datetime) -> float:
    if objects.is_being_deleted(machine):
        return _MUST
    if wellknown.DELETE_MACHINE_ANNOTATION in objects.annotations(machine):
        return _SHOULD
    if not is_healthy(machine):
        return _BETTER
    if order == OLDEST:
        return _by_age(machine, now)
    if order == NEWEST:
        return _BETTER - _by_age(machine, now)
    return _COULD


def _by_age(machine: Object, now: datetime.datetime) -> float:
    created = objects.metadata(machine).get("creationTimestamp")
    if not created:
        return _MUST_NOT
    age = (now - clocks.parse_rfc3339(str(created))).total_seconds()
    return _BETTER * (1.0 - math.exp(-age / _TEN_DAYS)) if age >= 0 else _MUST_NOT
