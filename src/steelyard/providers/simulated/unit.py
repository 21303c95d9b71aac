"""The simulator as a unit that the platform starts, with the database in which the insides of its clusters are."""

from __future__ import annotations

from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import SIMULATED_CLUSTERS, SIMULATED_MACHINES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.server.webhooks import reach
from steelyard.providers.simulated import clusters
from steelyard.providers.simulated.clusters import SimulatedClusterReconciler
from steelyard.providers.simulated.machines import Delays, SimulatedMachineReconciler
from steelyard.providers.toolkit import clusterapi
from steelyard.providers.toolkit.provider import Ground, Provider, Started, World

_DATABASE: Final = "simulated"
_BOOTSTRAP_DATA: Final = triggers.changed(("spec", "bootstrap", "dataSecretName"))


async def _start(ground: Ground) -> Started:
    wanted = ground.platform.simulated
    hosting = ground.host_apis(
        _DATABASE, reach=reach.within(wanted.webhook_networks), quota=wanted.cluster_megabytes * 1_000_000
    )
    await clusters.recall(ground.client, hosting)
    delays = Delays(boot=wanted.boot_seconds, join=wanted.join_seconds, delete=wanted.delete_seconds)
    return Started(controllers(ground.manager, hosting, delays))


def _unknown(world: World) -> list[str]:
    """As `cluster/node`."""
    known = {str(objects.at(machine, "spec", "providerID") or "") for machine in world.restored(MACHINES)}
    names: dict[str, str] = {
        objects.uid(cluster): objects.name(cluster) for cluster in world.restored(SIMULATED_CLUSTERS)
    }
    return sorted(
        f"{names.get(each.space, each.space)}/{objects.name(each.object)}"
        for each in world.read(_DATABASE)
        if (each.group, each.plural) == ("core", NODES.plural)
        and str(objects.at(each.object, "spec", "providerID") or "") not in known
    )


PROVIDER: Final = Provider(
    "simulated",
    _start,
    databases=(_DATABASE,),
    stands_for="the simulated machines themselves",
    unknown=_unknown,
)


def controllers(manager: Manager, hosting: Hosting, delays: Delays) -> list[Controller]:
    """The provider's controllers; `hosting` serves the clusters' APIs."""
    machine_index = "cluster"
    machines = manager.informers.of(SIMULATED_MACHINES)
    machines.add_index(machine_index, _cluster_names)

    def machines_of_cluster(obj: Object) -> list[Key]:
        """For a SimulatedCluster, which has its Cluster's name in a label."""
        name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL, "")
        return [Key.of(machine) for machine in machines.by_index(machine_index, f"{objects.namespace(obj)}/{name}")]

    return [
        Controller(
            "simulated-cluster",
            SIMULATED_CLUSTERS,
            SimulatedClusterReconciler(manager.client, hosting, manager.clock),
            [Watch(CLUSTERS, clusterapi.referred(SIMULATED_CLUSTERS))],
            workers=4,
        ),
        Controller(
            "simulated-machine",
            SIMULATED_MACHINES,
            SimulatedMachineReconciler(manager.client, hosting, manager.clock, delays),
            [
                Watch(MACHINES, clusterapi.referred(SIMULATED_MACHINES), matters=_BOOTSTRAP_DATA),
                Watch(SIMULATED_CLUSTERS, machines_of_cluster, matters=_endpoint_changed),
            ],
            workers=8,
        ),
    ]


def _cluster_names(obj: Object) -> list[str]:
    name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
    return [f"{objects.namespace(obj)}/{name}"] if name else []


def _endpoint_changed(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None or clusterapi.endpoint_port(old) != clusterapi.endpoint_port(new)
