"""When a MachineHealthCheck is looked at: with its machines and their Nodes, with its cluster, and when the time of a
machine runs out."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINE_HEALTH_CHECKS, MACHINES
from steelyard.controllers.lifecycle.machinehealthcheck.selection import Selection
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube.objects import Object
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key

_OF_MACHINE = (triggers.LABELS, triggers.ANNOTATIONS, triggers.DELETION, ("status", "nodeRef"), triggers.CONDITIONS)
_OF_CLUSTER = (("spec", "paused"), ("status", "initialization"), triggers.CONDITIONS, triggers.DELETION)


def controller(
    make: Callable[[], Reconciler], selection: Selection, workloads: Workloads, *, workers: int
) -> Controller:
    made = Controller(
        "lifecycle-machinehealthcheck",
        MACHINE_HEALTH_CHECKS,
        Deferred(make),
        [
            Watch(MACHINES, selection.to_checks, triggers.changed(*_OF_MACHINE), after=triggers.REPORT_AFTER),
            Watch(CLUSTERS, selection.to_checks_of_cluster, triggers.changed(*_OF_CLUSTER)),
        ],
        workers=workers,
    )

    def on_node_change(cluster: Key, _: Object) -> None:
        for key in selection.of_cluster(cluster):
            made.queue.add_after(key, triggers.REPORT_AFTER)

    workloads.on_node_change(on_node_change)
    workloads.on_connected(lambda cluster: made.enqueue(selection.of_cluster(cluster)))
    return made
