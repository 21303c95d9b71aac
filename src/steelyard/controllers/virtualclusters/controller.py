"""When a cluster's keys are looked at: with its namespace, the Service of its API, its Secrets and its machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steelyard.api.clusterapi import wellknown
from steelyard.api.k3s import VIRTUAL_MACHINES
from steelyard.controllers.virtualclusters.reconcile import KeyReconciler, of_cluster
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICES
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager

_WORKERS = 4


def controllers(manager: Manager) -> Sequence[Controller]:
    """For `manager.add`."""
    homes = manager.informers.of(NAMESPACES)

    def home_of(obj: Object) -> Iterable[Key]:
        if wellknown.CLUSTER_NAME_LABEL not in objects.labels(obj):
            return []
        home = homes.get("", objects.namespace(obj))
        return [Key("", objects.namespace(obj))] if of_cluster(home) else []

    return [
        Controller(
            "virtualclusters",
            NAMESPACES,
            KeyReconciler(manager.client, manager.clock),
            [
                Watch(SERVICES, home_of, triggers.changed(triggers.SPEC, ("status", "loadBalancer"))),
                Watch(SECRETS, home_of, triggers.changed(("data",), triggers.OWNERS)),
                Watch(VIRTUAL_MACHINES, home_of, triggers.changed(triggers.STATUS), optional=True),
            ],
            workers=_WORKERS,
        )
    ]
