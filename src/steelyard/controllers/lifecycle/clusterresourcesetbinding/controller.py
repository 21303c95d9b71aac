"""When a ClusterResourceSetBinding is looked at: when its cluster comes, begins to go, or has gone."""

from __future__ import annotations

from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS, CLUSTERS
from steelyard.controllers.lifecycle.clusterresourcesetbinding.reconcile import ClusterResourceSetBindingReconciler
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key


def controller(reconciler: ClusterResourceSetBindingReconciler, *, workers: int) -> Controller:
    return Controller(
        "lifecycle-clusterresourcesetbinding",
        CLUSTER_RESOURCE_SET_BINDINGS,
        reconciler,
        [Watch(CLUSTERS, lambda cluster: [Key.of(cluster)], triggers.changed(triggers.DELETION))],
        workers=workers,
    )
