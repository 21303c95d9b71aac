"""Which machines a check selects and which checks a machine or a cluster concerns, from the shared caches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from steelyard.api.clusterapi.resources import MACHINE_HEALTH_CHECKS
from steelyard.controllers.lifecycle.view import View
from steelyard.kube import errors, objects, selectors
from steelyard.kube.objects import Object
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key

_BY_CLUSTER: Final = "lifecycle-cluster"


class Selection:
    def __init__(self, informers: Informers, view: View) -> None:
        self.checks = informers.of(MACHINE_HEALTH_CHECKS)
        self.checks.add_index(_BY_CLUSTER, _cluster)
        self._view = view

    def machines_of(self, check: Object, cluster: Object) -> list[Object]:
        return [each for each in self._view.machines_of_cluster(cluster) if _selects(check, each)]

    def of_cluster(self, cluster: Key) -> list[Key]:
        return [Key.of(each) for each in self.checks.by_index(_BY_CLUSTER, f"{cluster.namespace}/{cluster.name}")]

    def to_checks_of_cluster(self, cluster: Object) -> Iterable[Key]:
        return self.of_cluster(Key.of(cluster))

    def to_checks(self, machine: Object) -> Iterable[Key]:
        """Those of its cluster: few, and one that selects it no longer must count anew."""
        return self.of_cluster(Key(objects.namespace(machine), str(objects.at(machine, "spec", "clusterName") or "")))


def _selects(check: Object, machine: Object) -> bool:
    try:
        selector = selectors.from_object(objects.mapping(objects.at(check, "spec", "selector")))
    except errors.BadRequest:
        return False
    return selector.matches(objects.labels(machine))


def _cluster(check: Object) -> Iterable[str]:
    return [f"{objects.namespace(check)}/{objects.at(check, 'spec', 'clusterName')}"]
