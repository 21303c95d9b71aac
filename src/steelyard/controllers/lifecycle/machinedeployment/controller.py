"""When a MachineDeployment is looked at: with its MachineSets and with its cluster's progress."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import progress
from steelyard.controllers.lifecycle.view import View, to_objects_of_cluster
from steelyard.kube.runtime import mapping, triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred


def controller(make: Callable[[], Reconciler], view: View, *, workers: int) -> Controller:
    return Controller(
        "lifecycle-machinedeployment",
        capi.MACHINE_DEPLOYMENTS,
        Deferred(make),
        [
            Watch(capi.MACHINE_SETS, mapping.to_owner(capi.MACHINE_DEPLOYMENTS), triggers.changed(triggers.DELETION)),
            Watch(capi.MACHINE_SETS, mapping.to_owner(capi.MACHINE_DEPLOYMENTS), after=triggers.REPORT_AFTER),
            Watch(capi.CLUSTERS, to_objects_of_cluster(view.machine_deployments_of_cluster), progress.CLUSTER_PROGRESS),
        ],
        workers=workers,
    )
