"""Makes the reconciler of each kind. None is imported before: each comes with the first object of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.frozen import frozen

if TYPE_CHECKING:
    from steelyard.controllers.lifecycle.cluster.reconcile import ClusterReconciler
    from steelyard.controllers.lifecycle.clusterresourceset.reconcile import ClusterResourceSetReconciler
    from steelyard.controllers.lifecycle.clusterresourceset.selection import Selection
    from steelyard.controllers.lifecycle.clusterresourcesetbinding.reconcile import ClusterResourceSetBindingReconciler
    from steelyard.controllers.lifecycle.contract import Externals
    from steelyard.controllers.lifecycle.kubeadmconfig.reconcile import KubeadmConfigReconciler
    from steelyard.controllers.lifecycle.kubeadmcontrolplane.reconcile import ControlPlaneReconciler
    from steelyard.controllers.lifecycle.machine.reconcile import MachineReconciler
    from steelyard.controllers.lifecycle.machinedeployment.reconcile import MachineDeploymentReconciler
    from steelyard.controllers.lifecycle.machinehealthcheck import selection as health
    from steelyard.controllers.lifecycle.machinehealthcheck.reconcile import MachineHealthCheckReconciler
    from steelyard.controllers.lifecycle.machineset.reconcile import MachineSetReconciler
    from steelyard.controllers.lifecycle.members.service import Members
    from steelyard.controllers.lifecycle.view import View
    from steelyard.controllers.lifecycle.workload import Workloads
    from steelyard.kube.runtime.cached import CachedClient
    from steelyard.kube.runtime.clock import Clock
    from steelyard.kube.runtime.events import Recorder


@frozen
class Reconcilers:
    """What they are made with."""

    client: CachedClient
    clock: Clock
    recorder: Recorder
    view: View
    externals: Externals
    workloads: Workloads
    members: Members
    selection: Selection
    checked: health.Selection

    def cluster(self) -> ClusterReconciler:
        from steelyard.controllers.lifecycle.cluster.reconcile import ClusterReconciler

        return ClusterReconciler(self.client, self.view, self.externals, self.workloads, self.clock)

    def control_plane(self) -> ControlPlaneReconciler:
        from steelyard.controllers.lifecycle.kubeadmcontrolplane.reconcile import ControlPlaneReconciler

        return ControlPlaneReconciler(
            self.client, self.view, self.externals, self.workloads, self.members, self.clock, self.recorder
        )

    def machine_deployment(self) -> MachineDeploymentReconciler:
        from steelyard.controllers.lifecycle.machinedeployment.reconcile import MachineDeploymentReconciler

        return MachineDeploymentReconciler(self.client, self.view, self.externals, self.clock)

    def machine_set(self) -> MachineSetReconciler:
        from steelyard.controllers.lifecycle.machineset.reconcile import MachineSetReconciler

        return MachineSetReconciler(self.client, self.view, self.externals, self.clock, self.recorder)

    def machine(self) -> MachineReconciler:
        from steelyard.controllers.lifecycle.machine.reconcile import MachineReconciler

        return MachineReconciler(self.client, self.view, self.externals, self.workloads, self.members, self.clock)

    def kubeadm_config(self) -> KubeadmConfigReconciler:
        from steelyard.controllers.lifecycle.kubeadmconfig.reconcile import KubeadmConfigReconciler

        return KubeadmConfigReconciler(self.client, self.view, self.workloads, self.clock)

    def machine_health_check(self) -> MachineHealthCheckReconciler:
        from steelyard.controllers.lifecycle.machinehealthcheck.reconcile import MachineHealthCheckReconciler

        return MachineHealthCheckReconciler(
            self.client, self.view, self.checked, self.workloads, self.clock, self.recorder
        )

    def cluster_resource_set(self) -> ClusterResourceSetReconciler:
        from steelyard.controllers.lifecycle.clusterresourceset.reconcile import ClusterResourceSetReconciler

        return ClusterResourceSetReconciler(self.client, self.selection, self.workloads, self.clock)

    def cluster_resource_set_binding(self) -> ClusterResourceSetBindingReconciler:
        from steelyard.controllers.lifecycle.clusterresourcesetbinding.reconcile import (
            ClusterResourceSetBindingReconciler,
        )

        return ClusterResourceSetBindingReconciler(self.client, self.selection)
