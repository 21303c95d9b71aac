"""The provider as a unit that the platform starts. It connects to nothing until the first KVMHost is there, and most of
it is not even loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTERS, MACHINES
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import objects, permits
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.providers.kvm import indexes
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.pace import STEADY, Pace
from steelyard.providers.toolkit import clusterapi
from steelyard.providers.toolkit.provider import Console, Ground, Provider, Service, Started, World

NAME: Final = "kvm"
NEEDED: Final = (
    *permits.reports(KVM_CLUSTERS, KVM_MACHINES, KVM_HOSTS),
    *permits.reads(CLUSTERS, MACHINES),
    # Bootstrap data, by the name that the Machine gives; they are never listed.
    *permits.only(("get",), SECRETS),
)
_BY_CLUSTER: Final = "cluster"
_BY_HOST: Final = "host"
_MACHINE: Final = triggers.changed(("spec", "bootstrap", "dataSecretName"), ("status", "nodeRef"))
_PAUSE: Final = triggers.changed(("spec", "paused"))
_CLUSTER: Final = triggers.changed(("spec", "host"), ("spec", "range"), ("status", "initialization"))
_PLACED: Final = triggers.changed(("spec", "host"), ("spec", "resources"), ("status", "accepted"))


async def _start(ground: Ground) -> Started:
    return started(ground, Fleet())


def started(ground: Ground, fleet: Fleet, *, starts_paused: bool = False) -> Started:
    """Tests bring a fleet of their own, and let machines start without running."""
    ground.stack.push_async_callback(fleet.close)
    made = controllers(ground.manager, fleet, token=str(ground.data_dir), starts_paused=starts_paused)

    async def console(namespace: str, name: str, *, last: int) -> bytes:
        from steelyard.providers.kvm.consoles import Consoles

        return await Consoles(ground.manager.client, fleet)(namespace, name, last=last)

    consoles: dict[Resource, Console] = {KVM_MACHINES: console}
    return Started(made, services=lambda: services(fleet), consoles=consoles)


def services(fleet: Fleet) -> list[Service]:
    """For `steelyard status` and `doctor`."""
    return [
        Service(
            f"libvirt of {each.host}",
            "running" if each.is_open else "down",
            f"{each.uri}; not answered: {', '.join(each.hanging)}" if each.hanging else each.uri,
        )
        for each in fleet.connected()
    ]


def _unknown(world: World) -> Sequence[str]:
    from steelyard.providers.kvm import unknown

    return unknown.machines(world)


PROVIDER: Final = Provider(NAME, _start, needed=NEEDED, unknown=_unknown)


def controllers(
    manager: Manager, fleet: Fleet, *, token: str, pace: Pace = STEADY, starts_paused: bool = False
) -> list[Controller]:
    """`token` tells this platform from others on the same hosts."""
    machines = manager.informers.of(KVM_MACHINES)
    machines.add_index(_BY_CLUSTER, _cluster_of)
    machines.add_index(_BY_HOST, _host_of)
    machines.add_index(indexes.BY_PROVIDER_ID, indexes.provider_ids)
    clusters = manager.informers.of(KVM_CLUSTERS)
    clusters.add_index(_BY_HOST, _host_of)

    def machines_of_cluster(obj: Object) -> list[Key]:
        """For a Cluster, and for a KVMCluster, which has its Cluster's name in a label."""
        name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL) or objects.name(obj)
        return [Key.of(each) for each in machines.by_index(_BY_CLUSTER, f"{objects.namespace(obj)}/{name}")]

    def clusters_of_machine(obj: Object) -> list[Key]:
        """Of one that has gone: the network may be waiting for that."""
        name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
        return [
            Key.of(each)
            for each in clusters.list(objects.namespace(obj))
            if name and objects.labels(each).get(wellknown.CLUSTER_NAME_LABEL) == name
        ]

    def on_host(obj: Object) -> list[Key]:
        """All that are on it, and all that are on none yet."""
        found = [*machines.by_index(_BY_HOST, objects.name(obj)), *machines.by_index(_BY_HOST, "")]
        return [Key.of(each) for each in found]

    def clusters_on_host(obj: Object) -> list[Key]:
        found = [*clusters.by_index(_BY_HOST, objects.name(obj)), *clusters.by_index(_BY_HOST, "")]
        return [Key.of(each) for each in found]

    def host_reconciler() -> Reconciler:
        from steelyard.providers.kvm.hosts import KVMHostReconciler

        return KVMHostReconciler(manager.client, fleet, manager.clock, token=token, pace=pace)

    def cluster_reconciler() -> Reconciler:
        from steelyard.providers.kvm.clusters import KVMClusterReconciler

        return KVMClusterReconciler(manager.client, fleet, manager.clock, pace=pace)

    def machine_reconciler() -> Reconciler:
        from steelyard.providers.kvm.images import Images
        from steelyard.providers.kvm.machines import KVMMachineReconciler

        recorder = Recorder(manager.client, "kvm-machine", clock=manager.clock)
        return KVMMachineReconciler(
            manager.client, fleet, Images(), manager.clock, recorder, pace=pace, starts_paused=starts_paused
        )

    host_controller = Controller(
        "kvm-host",
        KVM_HOSTS,
        Deferred(host_reconciler),
        [
            Watch(KVM_MACHINES, _hosts_of, matters=_PLACED, after=triggers.REPORT_AFTER),
            Watch(KVM_CLUSTERS, _hosts_of, matters=_PLACED, after=triggers.REPORT_AFTER),
        ],
        workers=4,
    )
    cluster_controller = Controller(
        "kvm-cluster",
        KVM_CLUSTERS,
        Deferred(cluster_reconciler),
        [
            Watch(CLUSTERS, clusterapi.referred(KVM_CLUSTERS)),
            Watch(KVM_MACHINES, clusters_of_machine, matters=_has_gone),
            Watch(KVM_HOSTS, clusters_on_host, matters=_readiness_changed),
        ],
        workers=4,
    )
    machine_controller = Controller(
        "kvm-machine",
        KVM_MACHINES,
        Deferred(machine_reconciler),
        [
            Watch(MACHINES, clusterapi.referred(KVM_MACHINES), matters=_MACHINE),
            Watch(CLUSTERS, machines_of_cluster, matters=_PAUSE),
            Watch(KVM_CLUSTERS, machines_of_cluster, matters=_CLUSTER),
            Watch(KVM_HOSTS, on_host, matters=_readiness_changed),
        ],
        workers=16,
    )

    def wake(uuid: str) -> None:
        found = machines.by_index(indexes.BY_PROVIDER_ID, f"kvm://{uuid}")
        machine_controller.enqueue(Key.of(each) for each in found)

    def wake_all(host: str) -> None:
        machine_controller.enqueue(Key.of(each) for each in machines.by_index(_BY_HOST, host))
        cluster_controller.enqueue(Key.of(each) for each in clusters.by_index(_BY_HOST, host))

    fleet.wake_machine = wake
    fleet.wake_all_on = wake_all
    fleet.wake_host = lambda name: host_controller.enqueue([Key("", name)])
    return [host_controller, cluster_controller, machine_controller]


def _cluster_of(obj: Object) -> list[str]:
    name = objects.labels(obj).get(wellknown.CLUSTER_NAME_LABEL)
    return [f"{objects.namespace(obj)}/{name}"] if name else []


def _host_of(obj: Object) -> list[str]:
    return [str(objects.at(obj, "spec", "host") or "")]


def _hosts_of(obj: Object) -> list[Key]:
    name = objects.at(obj, "spec", "host")
    return [Key("", str(name))] if name else []


def _has_gone(old: Object | None, new: Object | None) -> bool:
    return new is None


def _readiness_changed(old: Object | None, new: Object | None) -> bool:
    if old is None or new is None:
        return True
    ready = [
        [
            each.get("status")
            for each in objects.sequence(objects.at(obj, "status", "conditions"))
            if each.get("type") == "Ready"
        ]
        for obj in (old, new)
    ]
    is_same = ready[0] == ready[1] and objects.at(old, "spec") == objects.at(new, "spec")
    return not is_same
