"""When a cluster's keys are looked at: with its namespace, the Service of its API, its Secrets and its machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.k3s import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from steelyard.controllers.virtualclusters.reconcile import KeyReconciler, cluster_of
from steelyard.kube import objects, permits
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, SERVICES
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager

NEEDED: Final = (
    *permits.reads(NAMESPACES, SERVICES, SECRETS, VIRTUAL_MACHINES),
    *permits.only(("patch",), NAMESPACES, SECRETS),
    *permits.only(("create",), SECRETS),
    *permits.only(("list", "delete"), VIRTUAL_MACHINE_INSTANCES),
)
_WORKERS = 4


def controllers(manager: Manager) -> Sequence[Controller]:
    """For `manager.add`."""
    homes = manager.informers.of(NAMESPACES)
    of_cluster = wellknown.CLUSTER_NAME_LABEL

    def home_of(obj: Object) -> Iterable[Key]:
        home = homes.get("", objects.namespace(obj))
        return [Key("", objects.namespace(obj))] if cluster_of(home) else []

    return [
        Controller(
            "virtualclusters",
            NAMESPACES,
            KeyReconciler(manager.client, manager.clock),
            [
                Watch(SERVICES, home_of, triggers.changed(triggers.SPEC, ("status", "loadBalancer")), label=of_cluster),
                Watch(SECRETS, home_of, triggers.changed(("data",), triggers.OWNERS), label=of_cluster),
                Watch(VIRTUAL_MACHINES, home_of, triggers.changed(triggers.STATUS), label=of_cluster, optional=True),
            ],
            workers=_WORKERS,
        )
    ]
