"""Simulated machines: for trying things out, for tests, and for runs at a scale no laptop has machines for."""

from __future__ import annotations

from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import SIMULATED_CLUSTERS, SIMULATED_MACHINES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.hosting import Hosting
from steelyard.providers.simulated import contract
from steelyard.providers.simulated.clusters import SimulatedClusterReconciler, recall
from steelyard.providers.simulated.machines import Delays, SimulatedMachineReconciler

__all__ = ["Delays", "controllers", "recall"]


def controllers(manager: Manager, hosting: Hosting, delays: Delays) -> list[Controller]:
    """The provider's controllers; `hosting` serves the clusters' APIs."""
    machine_index = "cluster"
    machines = manager.informers.of(SIMULATED_MACHINES)
    machines.add_index(machine_index, _cluster_names)

    def machines_of_cluster(obj: Object) -> list[Key]:
        """For a SimulatedCluster, which has its Cluster's name in a label."""
        name = objects.labels(obj).get(contract.CLUSTER_NAME_LABEL, "")
        return [Key.of(machine) for machine in machines.by_index(machine_index, f"{objects.namespace(obj)}/{name}")]

    return [
        Controller(
            "simulated-cluster",
            SIMULATED_CLUSTERS,
            SimulatedClusterReconciler(manager.client, hosting, manager.clock),
            [Watch(CLUSTERS, _infrastructure_key)],
            workers=4,
        ),
        Controller(
            "simulated-machine",
            SIMULATED_MACHINES,
            SimulatedMachineReconciler(manager.client, hosting, manager.clock, delays),
            [
                Watch(MACHINES, _infrastructure_key, matters=_bootstrap_data_changed),
                Watch(SIMULATED_CLUSTERS, machines_of_cluster, matters=_endpoint_changed),
            ],
            workers=8,
        ),
    ]


def _cluster_names(obj: Object) -> list[str]:
    name = objects.labels(obj).get(contract.CLUSTER_NAME_LABEL)
    return [f"{objects.namespace(obj)}/{name}"] if name else []


def _infrastructure_key(obj: Object) -> list[Key]:
    """The infrastructure object of a Cluster or Machine, by its reference."""
    reference = objects.mapping(objects.at(obj, "spec", "infrastructureRef"))
    is_ours = str(reference.get("kind", "")).startswith("Simulated")
    return [Key(objects.namespace(obj), str(reference["name"]))] if is_ours else []


def _bootstrap_data_changed(old: Object | None, new: Object | None) -> bool:
    path = ("spec", "bootstrap", "dataSecretName")
    return old is None or new is None or objects.at(old, *path) != objects.at(new, *path)


def _endpoint_changed(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None or contract.endpoint_port(old) != contract.endpoint_port(new)
