"""Which server is to start anew, where what it runs with is not what it is to have: one at a time, and none while
another is away.

KubeVirt does not do it by itself: it says RestartRequired and waits for somebody. Only for cores and memory, which
claims can change; what others have done to a machine is not a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from steelyard.api import k3s
from steelyard.kube import objects
from steelyard.kube.objects import Object

_CHANGES: Final = (("domain", "cpu", "cores"), ("domain", "memory", "guest"))


def next_of(machines: Sequence[Object], instances: Mapping[str, Object]) -> str:
    """Its name; empty where there is none to restart now. `instances` are what runs, by the same names."""
    for machine in objects.by_name(machines):
        name = objects.name(machine)
        others = [each for each in machines if objects.name(each) != name]
        instance = instances.get(name)
        is_outdated = instance is not None and k3s.needs_restart(machine) and _differ(machine, instance)
        is_under_way = instance is not None and objects.is_being_deleted(instance)
        if is_outdated and not is_under_way and all(objects.at(each, "status", "ready") is True for each in others):
            return name
    return ""


def _differ(machine: Object, instance: Object) -> bool:
    return any(
        objects.at(machine, "spec", "template", "spec", *path) != objects.at(instance, "spec", *path)
        for path in _CHANGES
    )
