"""When a delivery is looked at: with its source, with its cluster, when that can be reached or no longer, and every few
minutes for what somebody has done to it there, where nothing is watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.api.clusterapi import resources as capi
from steelyard.api.secretdelivery import IS_SOURCE, RESOURCE
from steelyard.compose import names
from steelyard.controllers.delivery import status
from steelyard.controllers.lifecycle.workload import Workloads
from steelyard.kube import objects, permits
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager

COMPONENT: Final = "steelyard-delivery"
NEEDED: Final = (*permits.reports(RESOURCE), *permits.reads(SECRETS, capi.CLUSTERS))
"""Besides the right to ask what a claim's author may do, which the controllers of claims need as well."""
RESYNC: Final = 300.0
"""Seconds, give or take half, after which what is there is looked at again: one request for each delivery."""
_WORKERS: Final = 8
_DEADLINE: Final = 60.0
_BY_CLUSTER: Final = "cluster"
_BY_SOURCE: Final = "source"
_OF_CLUSTER: Final = (("spec", "controlPlaneEndpoint"), ("status", "initialization"), triggers.DELETION)


def controllers(manager: Manager, workloads: Workloads, *, resync: float = RESYNC) -> Sequence[Controller]:
    """For `manager.add`. `workloads` are the lifecycle's: one way into each cluster is enough."""
    deliveries = manager.informers.of(RESOURCE)
    deliveries.add_index(_BY_CLUSTER, _clusters_of)
    deliveries.add_index(_BY_SOURCE, _sources_of)

    def found(index: str, value: str) -> list[Key]:
        return [Key.of(each) for each in deliveries.by_index(index, value)]

    def reconciler() -> Reconciler:
        from steelyard.controllers.delivery.reconcile import DeliveryReconciler

        recorder = Recorder(manager.client, COMPONENT, clock=manager.clock)
        return DeliveryReconciler(manager.client, workloads, manager.clock, recorder)

    made = Controller(
        "secretdeliveries",
        RESOURCE,
        Deferred(reconciler),
        [
            Watch(
                SECRETS,
                lambda secret: found(_BY_SOURCE, objects.qualified_name(secret)),
                triggers.changed(("data",)),
                label=IS_SOURCE,
            ),
            Watch(
                capi.CLUSTERS,
                lambda cluster: found(_BY_CLUSTER, objects.qualified_name(cluster)),
                triggers.changed(*_OF_CLUSTER),
            ),
        ],
        workers=_WORKERS,
        deadline=_DEADLINE,
        resync=resync,
        failure_condition=status.SYNCED,
    )
    workloads.on_connected(lambda cluster: made.enqueue(found(_BY_CLUSTER, f"{cluster.namespace}/{cluster.name}")))
    return [made]


def _clusters_of(delivery: Object) -> Iterable[str]:
    """Where its Cluster may be: in the namespace of the claim for it, or in one of its own."""
    place = objects.mapping(objects.at(delivery, "spec", "cluster"))
    namespace, name = str(place.get("namespace") or ""), str(place.get("name") or "")
    return [f"{namespace}/{name}", f"{names.external(namespace, name)}/{name}"]


def _sources_of(delivery: Object) -> Iterable[str]:
    source = objects.mapping(objects.at(delivery, "spec", "source"))
    return [f"{source['namespace']}/{source['name']}"] if source else []
