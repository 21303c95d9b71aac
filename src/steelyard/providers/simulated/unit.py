"""The simulator as a unit that the platform starts, with the database in which the insides of its clusters are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.externalsecrets.kinds import CLUSTER_SECRET_STORES, EXTERNAL_SECRETS, SECRET_STORES
from steelyard.api.resources import SIMULATED_CLUSTERS, SIMULATED_MACHINES
from steelyard.kube import objects, permits
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NODES, SECRETS
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.hosting import Hosting
from steelyard.kube.server.webhooks import reach
from steelyard.providers.simulated import clusters, identity
from steelyard.providers.simulated.clusters import SimulatedClusterReconciler
from steelyard.providers.simulated.ensembles import Ensembles
from steelyard.providers.simulated.machines import Delays, Machines, SimulatedMachineReconciler
from steelyard.providers.toolkit import clusterapi
from steelyard.providers.toolkit.provider import Ground, Provider, Started, World
from steelyard.settings import Platform

_DATABASE: Final = "simulated"
_EXTERNAL_SECRETS: Final = (CLUSTER_SECRET_STORES, SECRET_STORES, EXTERNAL_SECRETS)
_NEEDED: Final = (
    *permits.reports(SIMULATED_CLUSTERS, SIMULATED_MACHINES),
    *permits.reads(CLUSTERS, MACHINES),
    # Bootstrap data, by the name that the Machine gives; they are never listed.
    *permits.only(("get",), SECRETS),
)
_OF_CLUSTER: Final = triggers.changed(("spec", "paused"), ("spec", "infrastructureRef"), triggers.DELETION)
_BOOTSTRAP_DATA: Final = triggers.changed(("spec", "bootstrap", "dataSecretName"))
_PAUSE: Final = triggers.changed(("spec", "paused"))


async def _start(ground: Ground) -> Started:
    wanted = ground.platform.simulated
    hosting = ground.host_apis(
        _DATABASE, reach=reach.within(wanted.webhook_networks), quota=wanted.cluster_megabytes * 1_000_000
    )
    await clusters.recall(ground.client, hosting)
    delays = Delays(boot=wanted.boot_seconds, join=wanted.join_seconds, delete=wanted.delete_seconds)
    return Started(controllers(ground.manager, hosting, delays, installed(ground.platform)))


def installed(platform: Platform) -> list[Object]:
    """Definitions of the kinds that a cluster has where the platform counts on External Secrets in it: nothing runs in
    a simulated cluster, and what is brought into it finds its kind all the same."""
    programs = platform.integrations
    if not (programs.vault.enabled and programs.external_secrets.enabled):
        return []
    from steelyard.api.externalsecrets import definitions  # only where they are wanted: they are large

    names = {each.group_resource for each in _EXTERNAL_SECRETS}
    return [each for each in definitions.crds() if objects.name(each) in names]


def _unknown(world: World) -> list[str]:
    """As `cluster/node`."""
    known = {str(objects.at(machine, "spec", "providerID") or "") for machine in world.restored(MACHINES)}
    names: dict[str, str] = {
        identity.of_cluster(cluster): objects.name(cluster) for cluster in world.restored(SIMULATED_CLUSTERS)
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
    needed=_NEEDED,
    has_files=True,
    databases=(_DATABASE,),
    stands_for="the simulated machines themselves",
    unknown=_unknown,
)


class MachineController(Controller):
    ensembles: Ensembles

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            await self.ensembles.close()


def controllers(
    manager: Manager, hosting: Hosting, delays: Delays, definitions: Sequence[Object] = ()
) -> list[Controller]:
    """The provider's controllers; `hosting` serves the clusters' APIs, which have kinds of these `definitions`."""
    machine_index, address_index = "cluster", "address"
    machines = manager.informers.of(SIMULATED_MACHINES)
    machines.add_index(machine_index, _cluster_names)
    machines.add_index(address_index, _addresses)

    def client_of(cluster_id: str) -> Client | None:
        api = hosting.running(cluster_id)
        return LocalClient(api, User("etcd", (SYSTEM_MASTERS,)), field_manager="etcd") if api is not None else None

    ensembles = Ensembles(client_of, manager.clock)

    def around(obj: Object) -> list[Object]:
        """The machines of the cluster that the object is of."""
        return [each for name in _cluster_names(obj) for each in machines.by_index(machine_index, name)]

    def machines_of_cluster(obj: Object) -> list[Key]:
        """For a SimulatedCluster, which has its Cluster's name in a label."""
        return [Key.of(machine) for machine in around(obj)]

    def machines_of_paused(cluster: Object) -> list[Key]:
        """For a Cluster, which is let go on with its machines."""
        place = f"{objects.namespace(cluster)}/{objects.name(cluster)}"
        return [Key.of(machine) for machine in machines.by_index(machine_index, place)]

    machine_controller = MachineController(
        "simulated-machine",
        SIMULATED_MACHINES,
        SimulatedMachineReconciler(
            manager.client,
            hosting,
            ensembles,
            manager.clock,
            delays,
            Machines(around, lambda address: bool(machines.by_index(address_index, address))),
            definitions,
        ),
        [
            Watch(MACHINES, clusterapi.referred(SIMULATED_MACHINES), matters=_BOOTSTRAP_DATA),
            Watch(SIMULATED_CLUSTERS, machines_of_cluster, matters=_endpoint_changed),
            Watch(CLUSTERS, machines_of_paused, matters=_PAUSE),
        ],
        workers=8,
    )
    machine_controller.ensembles = ensembles
    return [
        Controller(
            "simulated-cluster",
            SIMULATED_CLUSTERS,
            SimulatedClusterReconciler(manager.client, hosting, ensembles, manager.clock),
            [Watch(CLUSTERS, clusterapi.referred(SIMULATED_CLUSTERS), matters=_OF_CLUSTER)],
            workers=4,
        ),
        machine_controller,
    ]


def _cluster_names(obj: Object) -> list[str]:
    name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
    return [f"{objects.namespace(obj)}/{name}"] if name else []


def _addresses(machine: Object) -> list[str]:
    listed = map(objects.mapping, objects.sequence(objects.at(machine, "status", "addresses")))
    return [str(each.get("address")) for each in listed if each.get("type") == "InternalIP"]


def _endpoint_changed(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None or clusterapi.endpoint_port(old) != clusterapi.endpoint_port(new)
