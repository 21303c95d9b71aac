"""When a ClusterResourceSet is looked at: with the clusters that it selects, once they can be reached, and with what it
brings."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SETS, CLUSTERS
from steelyard.controllers.lifecycle.clusterresourceset.selection import Selection
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube.resources import CONFIG_MAPS, SECRETS
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key

_OF_CLUSTER = (triggers.LABELS, ("spec", "paused"), triggers.ANNOTATIONS, ("status", "initialization"))
_OF_SOURCE = (("data",), ("type",))


def controller(
    make: Callable[[], Reconciler], selection: Selection, workloads: Workloads, *, workers: int
) -> Controller:
    made = Controller(
        "lifecycle-clusterresourceset",
        CLUSTER_RESOURCE_SETS,
        Deferred(make),
        [
            Watch(CLUSTERS, selection.to_sets, triggers.changed(*_OF_CLUSTER, triggers.DELETION)),
            Watch(SECRETS, selection.to_sets_naming, triggers.changed(*_OF_SOURCE)),
            Watch(CONFIG_MAPS, selection.to_sets_naming, triggers.changed(*_OF_SOURCE), when_needed=True),
        ],
        workers=workers,
    )

    def on_connected(key: Key) -> None:
        cluster = selection.clusters.get(*key)
        if cluster is not None:
            made.enqueue(selection.to_sets(cluster))

    workloads.on_connected(on_connected)
    return made
