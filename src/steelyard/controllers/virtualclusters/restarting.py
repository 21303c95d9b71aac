"""Which server is to start anew, where what it runs with is not what it is to have: one at a time, and none while
another is away.

KubeVirt does not do it by itself: it says RestartRequired and waits for somebody. Only for cores and memory, which
claims can change; what others have done to a machine is not a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api import k3s, troubles
from steelyard.kube import objects
from steelyard.kube.objects import Object

_CHANGES: Final = (("domain", "cpu", "cores"), ("domain", "memory", "guest"))


def next_of(machines: Sequence[Object], instances: Mapping[str, Object]) -> str:
    """Its name; empty where there is none to restart now. `instances` are what runs, by the same names: what is said
    of a machine may be older than what became of its instance.
    """
    for machine in objects.by_name(machines):
        name = objects.name(machine)
        others = [instances.get(objects.name(each)) for each in machines if objects.name(each) != name]
        instance = instances.get(name)
        if instance is None or objects.is_being_deleted(instance):
            continue
        if k3s.needs_restart(machine) and _differ(machine, instance) and all(map(_serves, others)):
            return name
    return ""


def _serves(instance: Object | None) -> bool:
    return instance is not None and troubles.is_ready(instance)


def _differ(machine: Object, instance: Object) -> bool:
    return any(
        objects.at(machine, "spec", "template", "spec", *path) != objects.at(instance, "spec", *path)
        for path in _CHANGES
    )
