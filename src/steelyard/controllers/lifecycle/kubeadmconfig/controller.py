"""When a KubeadmConfig is looked at: with its machine, its data, its cluster's progress, and by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steelyard.api.clusterapi import resources as capi
from steelyard.controllers.lifecycle import progress
from steelyard.controllers.lifecycle.kubeadmconfig import lock
from steelyard.controllers.lifecycle.view import View
from steelyard.kube import objects, resources
from steelyard.kube.objects import Object
from steelyard.kube.runtime import mapping, triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.keys import Key


def controller(make: Callable[[], Reconciler], view: View, *, workers: int) -> Controller:
    def configs_of_cluster(cluster: Object) -> Iterable[Key]:
        return [key for machine in view.machines_of_cluster(cluster) for key in to_config(machine)]

    return Controller(
        "lifecycle-kubeadmconfig",
        capi.KUBEADM_CONFIGS,
        Deferred(make),
        [
            Watch(
                capi.MACHINES,
                to_config,
                triggers.changed(("status", "nodeRef"), ("spec", "bootstrap"), triggers.DELETION),
            ),
            Watch(resources.SECRETS, mapping.to_owner(capi.KUBEADM_CONFIGS), lambda _, new: new is None),
            Watch(capi.CLUSTERS, configs_of_cluster, progress.CLUSTER_PROGRESS),
            # Who holds the lock is read from the cache; whoever waits for it looks by itself.
            Watch(resources.CONFIG_MAPS, lambda _: (), label=lock.LABEL),
        ],
        workers=workers,
    )


def to_config(machine: Object) -> Iterable[Key]:
    reference = objects.mapping(objects.at(machine, "spec", "bootstrap", "configRef"))
    if reference.get("kind") != capi.KUBEADM_CONFIGS.kind:
        return []
    return [Key(objects.namespace(machine), str(reference.get("name") or ""))]
