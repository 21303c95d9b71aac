"""When a MachineSet is looked at: with its machines and with its cluster's progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import progress
from steelyard.controllers.lifecycle.view import View, to_objects_of_cluster
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import mapping, triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key


def controller(make: Callable[[], Reconciler], view: View, *, workers: int) -> Controller:
    return Controller(
        "lifecycle-machineset",
        capi.MACHINE_SETS,
        Deferred(make),
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
            Watch(capi.KUBEADM_CONTROL_PLANES, _of_its_cluster(view), _has_been_upgraded),
            Watch(capi.CLUSTERS, to_objects_of_cluster(view.machine_sets_of_cluster), progress.CLUSTER_PROGRESS),
        ],
        workers=workers,
    )


def _of_its_cluster(view: View) -> Callable[[Object], Iterable[Key]]:
    """New workers wait for a control plane that is being upgraded."""

    def mapper(control_plane: Object) -> Iterable[Key]:
        clusters = view.clusters_referring_to(control_plane)
        return [Key.of(each) for cluster in clusters for each in view.machine_sets_of_cluster(cluster)]

    return mapper


def _has_been_upgraded(old: Object | None, new: Object | None) -> bool:
    before, after = (str(objects.at(each or {}, "status", "version") or "") for each in (old, new))
    return bool(before) and before != after
