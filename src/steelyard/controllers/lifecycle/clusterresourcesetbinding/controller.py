"""When a ClusterResourceSetBinding is looked at: when its cluster comes, begins to go, or has gone."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS, CLUSTERS
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key


def controller(make: Callable[[], Reconciler], *, workers: int) -> Controller:
    return Controller(
        "lifecycle-clusterresourcesetbinding",
        CLUSTER_RESOURCE_SET_BINDINGS,
        Deferred(make),
        [Watch(CLUSTERS, lambda cluster: [Key.of(cluster)], triggers.changed(triggers.DELETION))],
        workers=workers,
    )
