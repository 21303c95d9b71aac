"""When a Machine is looked at: with its cluster's progress, its owner's template, its Node, and what it refers to.

Bootstrap and infrastructure objects are of kinds known only at run time; the reconciler watches each kind when it
first meets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import progress
from steelyard.controllers.lifecycle.members.service import Members
from steelyard.controllers.lifecycle.view import View, is_control_plane_machine, to_objects_of_cluster
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key

if TYPE_CHECKING:
    from steelyard.controllers.lifecycle.machine.reconcile import MachineReconciler


def controller(
    make: Callable[[], MachineReconciler], view: View, workloads: Workloads, members: Members, *, workers: int
) -> Controller:
    def machines_of_deployment(deployment: Object) -> Iterable[Key]:
        return [
            Key.of(machine)
            for machine_set in view.machine_sets_of(deployment)
            for machine in view.machines_of(machine_set)
        ]

    def machines_of_owner(owner: Object) -> Iterable[Key]:
        return [Key.of(machine) for machine in view.machines_of(owner)]

    def reconciler() -> MachineReconciler:
        found = make()
        found.tell = made.tell
        return found

    made = Controller(
        "lifecycle-machine",
        capi.MACHINES,
        Deferred(reconciler),
        [
            Watch(capi.CLUSTERS, to_objects_of_cluster(view.machines_of_cluster), progress.CLUSTER_HOLDS),
            Watch(
                capi.MACHINE_DEPLOYMENTS,
                machines_of_deployment,
                triggers.changed(("spec", "template"), triggers.ANNOTATIONS),
            ),
            Watch(
                capi.MACHINE_SETS,
                machines_of_owner,
                triggers.changed(("spec", "template"), triggers.ANNOTATIONS),
            ),
            Watch(
                capi.KUBEADM_CONTROL_PLANES,
                machines_of_owner,
                triggers.changed(
                    ("spec", "version"),
                    ("spec", "kubeadmConfigSpec"),
                    ("spec", "machineTemplate"),
                    ("spec", "rollout"),
                    triggers.DELETION,
                ),
            ),
        ],
        workers=workers,
    )

    def on_node_change(cluster: Key, node: Object) -> None:
        provider_id = objects.at(node, "spec", "providerID")
        if provider_id:
            made.enqueue(Key.of(each) for each in view.machines_with_provider_id(cluster, str(provider_id)))

    def on_connected(key: Key) -> None:
        cluster = view.cluster(key.namespace, key.name)
        if cluster is not None:
            made.enqueue(Key.of(each) for each in view.machines_of_cluster(cluster))

    def on_members_seen(key: Key) -> None:
        cluster = view.cluster(key.namespace, key.name)
        if cluster is not None:
            around = view.machines_of_cluster(cluster)
            made.enqueue(Key.of(each) for each in around if is_control_plane_machine(each))

    members.on_seen(on_members_seen)
    workloads.on_connected(on_connected)
    workloads.on_node_change(on_node_change)
    return made
