"""When a Cluster is looked at: with its control plane, infrastructure, workers, kubeconfig, and machines that go.

The connections to workload clusters end when this controller does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import kubeconfig
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine, to_cluster
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key

if TYPE_CHECKING:
    from steelyard.controllers.lifecycle.cluster.reconcile import ClusterReconciler


class ClusterController(Controller):
    workloads: Workloads

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self.workloads.close()


def controller(make: Callable[[], ClusterReconciler], view: View, workloads: Workloads, *, workers: int) -> Controller:
    def reconciler() -> ClusterReconciler:
        found = make()
        found.tell = made.tell
        return found

    made = ClusterController(
        "lifecycle-cluster",
        capi.CLUSTERS,
        Deferred(reconciler),
        [
            Watch(
                capi.KUBEADM_CONTROL_PLANES, view.to_clusters_referring, triggers.changed(("status", "initialization"))
            ),
            Watch(
                capi.KUBEADM_CONTROL_PLANES,
                view.to_clusters_referring,
                triggers.changed(triggers.STATUS, triggers.SPEC),
                after=triggers.REPORT_AFTER,
            ),
            Watch(capi.MACHINE_DEPLOYMENTS, to_cluster, triggers.coming_and_going),
            Watch(
                capi.MACHINE_DEPLOYMENTS,
                to_cluster,
                triggers.changed(("spec", "replicas"), triggers.STATUS),
                after=triggers.REPORT_AFTER,
            ),
            Watch(capi.MACHINE_SETS, to_cluster, lambda _, new: new is None),
            Watch(capi.MACHINES, to_cluster, _machine_matters),
            Watch(resources.SECRETS, _to_cluster_of_kubeconfig, triggers.changed(("data",))),
        ],
        workers=workers,
    )
    made.workloads = workloads
    workloads.on_connected(lambda cluster: made.enqueue([cluster]))
    return made


def _to_cluster_of_kubeconfig(secret: Object) -> Iterable[Key]:
    suffix = f"-{kubeconfig.PURPOSE}"
    name = objects.name(secret)
    return [Key(objects.namespace(secret), name.removesuffix(suffix))] if name.endswith(suffix) else []


def _machine_matters(old: Object | None, new: Object | None) -> bool:
    """Its owners sum up what it says. By itself it matters when it goes, or gets its Node without having an owner."""
    if old is None or new is None:
        return new is None
    if objects.controller_of(new) is not None or not is_control_plane_machine(new):
        return False
    path = ("status", "nodeRef", "name")
    return objects.at(old, *path) != objects.at(new, *path)
