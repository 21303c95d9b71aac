"""When a MachineSet is looked at: with its machines and with its cluster's progress."""

from __future__ import annotations

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import progress
from steelyard.controllers.lifecycle.machineset.reconcile import MachineSetReconciler
from steelyard.controllers.lifecycle.view import View, to_objects_of_cluster
from steelyard.kube.runtime import mapping, triggers
from steelyard.kube.runtime.controller import Controller, Watch


def controller(reconciler: MachineSetReconciler, view: View, *, workers: int) -> Controller:
    return Controller(
        "lifecycle-machineset",
        capi.MACHINE_SETS,
        reconciler,
        [
            Watch(
                capi.MACHINES,
                mapping.to_owner(capi.MACHINE_SETS),
                triggers.changed(triggers.OWNERS, triggers.DELETION),
            ),
            Watch(
                capi.MACHINES,
                mapping.to_owner(capi.MACHINE_SETS),
                triggers.changed(triggers.CONDITIONS),
                after=triggers.REPORT_AFTER,
            ),
            Watch(capi.CLUSTERS, to_objects_of_cluster(view.machine_sets_of_cluster), progress.CLUSTER_PROGRESS),
        ],
        workers=workers,
    )
