"""KVMCluster: a network of the cluster's own on a host, or its place on a bridge; and the address of its API.

Host, range, router id and endpoint are written into the spec before anything is made, chosen under one lock so that no
two clusters get the same. The address itself is held by the control-plane machines, which need nobody for that.
"""

from __future__ import annotations

import ipaddress
from typing import Final

import pydantic

from steelyard.api.clusterapi import wellknown
from steelyard.api.kvm import KVMClusterSpec
from steelyard.api.kvmhost import KVMHostSpec
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import finalizers, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.conditions import Status
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.kvm import addresses, allowed, identity, placing, routes, wishes
from steelyard.providers.kvm.addresses import Layout
from steelyard.providers.kvm.documents import networks as network_documents
from steelyard.providers.kvm.documents.networks import Wanted
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt import networks
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.problems import Away, Problem, WrongState
from steelyard.providers.kvm.pace import STEADY, Pace
from steelyard.providers.kvm.placing import Host
from steelyard.providers.kvm.refusals import Refused
from steelyard.providers.toolkit import clusterapi, reporting

FINALIZER: Final = "kvmcluster.infrastructure.cluster.x-k8s.io"
_FIRST_ROUTER: Final = 51


class KVMClusterReconciler:
    def __init__(self, client: CachedClient, fleet: Fleet, clock: Clock, *, pace: Pace = STEADY) -> None:
        self._client = client
        self._fleet = fleet
        self._clock = clock
        self._pace = pace

    async def reconcile(self, key: Key) -> Result:
        try:
            infrastructure = await self._client.get(KVM_CLUSTERS, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        cluster = await clusterapi.owner_cluster(self._client, infrastructure)
        if cluster is not None and clusterapi.is_paused(cluster, infrastructure):
            return Result()
        if objects.is_being_deleted(infrastructure):
            return await self._delete(infrastructure)
        if cluster is None:
            return Result()
        try:
            infrastructure = await self._record(infrastructure)
            if _bridge(_spec(infrastructure)):
                await self._judge_bridge(infrastructure)
            else:
                await self._connect(infrastructure)
        except Refused as refused:
            return await self._tell(infrastructure, False, refused.reason, str(refused))
        except Away as problem:
            text = f"{problem}. Nothing is done until the host answers"
            return await self._tell(infrastructure, "Unknown", "HostAway", text)
        except Problem as problem:
            return await self._tell(infrastructure, False, "LibvirtFailed", str(problem))
        await self._tell(infrastructure, True, "Provisioned", "", provisioned=True)
        return Result(requeue_after=self._pace.spread(self._pace.clusters))

    async def _record(self, infrastructure: Object) -> Object:
        """What is chosen for the cluster, all at once; what came with its spec is judged. Raises Refused."""
        spec = _spec(infrastructure)
        is_recorded = finalizers.has(infrastructure, FINALIZER) and _is_complete(spec)
        if is_recorded and placing.is_accepted(infrastructure):
            return infrastructure
        async with self._fleet.choosing:
            wanted = objects.copy(infrastructure)
            wanted["spec"] = {**objects.mapping(wanted.get("spec"))}
            if _bridge(spec):
                await self._judge_bridge(infrastructure)
                await self._refuse_taken(infrastructure, spec)
            elif not (is_recorded and await self._is_made(infrastructure, spec)):
                await self._choose_range(infrastructure, spec, wanted)
            wanted["spec"].setdefault("virtualRouterID", await self._free_router(infrastructure, spec))
            if not finalizers.has(wanted, FINALIZER):
                wanted["metadata"]["finalizers"] = [*objects.finalizers(wanted), FINALIZER]
            recorded = await patching.patch(self._client, KVM_CLUSTERS, infrastructure, wanted)
            return await placing.accept(self._client, KVM_CLUSTERS, recorded)

    async def _is_made(self, infrastructure: Object, spec: KVMClusterSpec) -> bool:
        """Whether its network is there, as after a move."""
        if not _range(infrastructure):
            return False
        connection = self._fleet.connection(await self._host(spec.host or ""))
        found = await networks.look(connection, _network(infrastructure, spec).name)
        return found is not None and network_documents.owner_of(found.xml) == Key.of(infrastructure)

    async def _choose_range(self, infrastructure: Object, spec: KVMClusterSpec, wanted: Object) -> None:
        host = await self._judged_host(infrastructure, spec)
        taken = await self._taken(infrastructure, await self._host(host.name))
        try:
            range_ = spec.range or addresses.cut(host.spec.networks.ranges or (), taken)
        except addresses.NoneLeft as error:
            raise Refused("NoRange", str(error)) from error
        _refuse_bad_range(range_, host, taken)
        _refuse_bad_endpoint(spec, range_)
        wanted["spec"] |= {"host": host.name, "range": range_}
        if spec.control_plane_endpoint is None:
            wanted["spec"]["controlPlaneEndpoint"] = {"host": Layout.of(range_).api, "port": addresses.API_PORT}

    async def _judged_host(self, infrastructure: Object, spec: KVMClusterSpec) -> Host:
        hosts = [Host.of(each, ()) for each in (await self._client.list(KVM_HOSTS)).items]
        known = [each for each in hosts if spec.host is None or each.name == spec.host]
        return placing.for_cluster(known, objects.namespace(infrastructure))

    async def _taken(self, infrastructure: Object, host: Object) -> list[ipaddress.IPv4Network]:
        """By networks of libvirt's there, by other clusters that were accepted, also those not made yet, and by what
        the host itself reaches, where that can be seen."""
        name = objects.name(host)
        found: list[ipaddress.IPv4Network] = []
        for network in await networks.all_of(self._fleet.connection(host)):
            if network_documents.owner_of(network.xml) != Key.of(infrastructure):
                found += network_documents.ranges_of(network.xml)
        for other in (await self._client.list(KVM_CLUSTERS)).items:
            is_another = Key.of(other) != Key.of(infrastructure) and placing.is_accepted(other)
            if is_another and objects.at(other, "spec", "host") == name:
                found += _range(other)
        if allowed.is_local(KVMHostSpec.model_validate(host["spec"])):
            found += routes.known()
        return found

    async def _free_router(self, infrastructure: Object, spec: KVMClusterSpec) -> int:
        if not _bridge(spec):
            return wishes.OWN_ROUTER
        taken = {_router(each) for each in await self._others_on_bridge(infrastructure)}
        try:
            return addresses.free_router(taken, first=_FIRST_ROUTER)
        except addresses.NoneLeft as error:
            raise Refused("NoRouterID", str(error)) from error

    async def _others_on_bridge(self, infrastructure: Object) -> list[Object]:
        bridge = objects.at(infrastructure, "spec", "network", "bridge")
        return [
            each
            for each in (await self._client.list(KVM_CLUSTERS)).items
            if objects.at(each, "spec", "network", "bridge") == bridge
            and objects.uid(each) != objects.uid(infrastructure)
            and placing.is_accepted(each)
        ]

    async def _judge_bridge(self, infrastructure: Object) -> None:
        """Raises Refused. What is in the spec may not have been chosen by us."""
        spec, namespace = _spec(infrastructure), objects.namespace(infrastructure)
        _refuse_without_address(spec)
        hosts = [Host.of(each, ()) for each in (await self._client.list(KVM_HOSTS)).items]
        placing.for_machine(hosts, namespace, placing.Need(), on="", bridge=_bridge(spec))

    async def _refuse_taken(self, infrastructure: Object, spec: KVMClusterSpec) -> None:
        """Where another cluster on the bridge has what came with this one's spec."""
        address = wishes.api_address(spec)
        for other in await self._others_on_bridge(infrastructure):
            if objects.at(other, "spec", "controlPlaneEndpoint", "host") == address:
                raise Refused(
                    "EndpointTaken",
                    f"spec.controlPlaneEndpoint.host {address} is that of another cluster on {_bridge(spec)}: choose "
                    "another",
                )
            if _router(other) == spec.virtual_router_id:
                raise Refused(
                    "RouterIDTaken",
                    f"spec.virtualRouterID {spec.virtual_router_id} is that of another cluster on {_bridge(spec)}: "
                    "make this one again without it",
                )

    async def _connect(self, infrastructure: Object) -> None:
        """Brings the cluster's network about."""
        spec = _spec(infrastructure)
        connection = self._fleet.connection(await self._host(spec.host or ""))
        wanted = _network(infrastructure, spec)
        async with self._fleet.network(connection.host, wanted.name):
            found = await networks.look(connection, wanted.name)
            if found is not None and network_documents.owner_of(found.xml) != Key.of(infrastructure):
                raise Refused(
                    "NotOurs", f"there is a network {wanted.name} on the host already that is somebody else's"
                )
            if found is None:
                await self._judge_network(infrastructure, spec)
                await networks.define(connection, wanted.name, network_documents.definition(wanted))
            if found is None or not found.is_autostarted:
                await networks.autostart(connection, wanted.name)
            if found is None or not found.is_active:
                await _start(connection, wanted.name)

    async def _judge_network(self, infrastructure: Object, spec: KVMClusterSpec) -> None:
        """Raises Refused. What is in the spec may not have been chosen by us."""
        host = await self._judged_host(infrastructure, spec)
        taken = await self._taken(infrastructure, await self._host(host.name))
        _refuse_bad_range(spec.range or "", host, taken)
        _refuse_bad_endpoint(spec, spec.range or "")

    async def _host(self, name: str) -> Object:
        try:
            return await self._client.get(KVM_HOSTS, name)
        except errors.NotFound:
            raise Away(f"KVMHost {name} does not exist: bring it back") from None

    async def _tell(
        self, infrastructure: Object, ready: bool | Status, reason: str, message: str, *, provisioned: bool = False
    ) -> Result:
        await reporting.report(
            self._client,
            KVM_CLUSTERS,
            infrastructure,
            provisioned=provisioned,
            ready=ready,
            reason=reason,
            message=message,
            clock=self._clock,
        )
        return Result(requeue_after=self._pace.retry)

    async def _delete(self, infrastructure: Object) -> Result:
        """The network goes when the last machine has gone that is on it."""
        if not finalizers.has(infrastructure, FINALIZER):
            return Result()
        cluster = objects.labels(infrastructure).get(wellknown.CLUSTER_NAME_LABEL) or objects.name(infrastructure)
        selector = f"{wellknown.CLUSTER_NAME_LABEL}={cluster}"
        machines = await self._client.list(KVM_MACHINES, objects.namespace(infrastructure), label_selector=selector)
        if machines.items:
            text = f"waiting for {len(machines.items)} KVMMachines to go"
            await self._tell(infrastructure, False, "Deleting", text)
            return Result(requeue_after=self._pace.retry)
        spec = _spec(infrastructure)
        if spec.host and spec.range and not _bridge(spec):
            try:
                await self._disconnect(infrastructure, spec)
            except Away as problem:
                waits = f"{problem}. Its network there is removed when the host answers"
                return await self._tell(infrastructure, "Unknown", "HostAway", waits)
            except Problem as problem:
                return await self._tell(infrastructure, False, "LibvirtFailed", str(problem))
        await finalizers.remove(self._client, KVM_CLUSTERS, infrastructure, FINALIZER)
        return Result()

    async def _disconnect(self, infrastructure: Object, spec: KVMClusterSpec) -> None:
        connection = self._fleet.connection(await self._host(spec.host or ""))
        name = identity.network_name(objects.namespace(infrastructure), objects.name(infrastructure), spec.range or "")
        async with self._fleet.network(connection.host, name):
            found = await networks.look(connection, name)
            if found is None or network_documents.owner_of(found.xml) != Key.of(infrastructure):
                return
            await networks.stop(connection, name)
            await networks.undefine(connection, name)


async def _start(connection: Connection, name: str) -> None:
    try:
        await networks.start(connection, name)
    except WrongState:
        # Somebody else has started it meanwhile.
        return


def _spec(infrastructure: Object) -> KVMClusterSpec:
    try:
        return KVMClusterSpec.model_validate(infrastructure.get("spec") or {})
    except pydantic.ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("spec", *detail["loc"])))
        raise Refused("InvalidSpec", f"{where}: {detail['msg']}") from error


def _bridge(spec: KVMClusterSpec) -> str:
    return (spec.network.bridge or "") if spec.network is not None else ""


def _is_complete(spec: KVMClusterSpec) -> bool:
    has_place = bool(_bridge(spec)) or bool(spec.host and spec.range)
    return has_place and spec.virtual_router_id is not None and spec.control_plane_endpoint is not None


def _network(infrastructure: Object, spec: KVMClusterSpec) -> Wanted:
    namespace, name, range_ = objects.namespace(infrastructure), objects.name(infrastructure), spec.range or ""
    called = identity.network_name(namespace, name, range_)
    layout, api = Layout.of(range_), wishes.api_address(spec)
    endpoint = spec.control_plane_endpoint
    names = [spec.dns_name] if spec.dns_name else []
    if endpoint is not None and not addresses.is_address(endpoint.host):
        names.append(endpoint.host)
    is_isolated = spec.network is not None and spec.network.mode == "Isolated"
    return Wanted(
        name=called,
        uuid=identity.network_uuid(called),
        mode="Isolated" if is_isolated else "NAT",
        host_address=layout.host,
        prefix=layout.network.prefixlen,
        namespace=namespace,
        cluster=name,
        names=dict.fromkeys(names, api),
    )


def _refuse_without_address(spec: KVMClusterSpec) -> None:
    endpoint = spec.control_plane_endpoint
    if endpoint is None or not addresses.is_address(endpoint.host):
        raise Refused(
            "EndpointMissing",
            "on a bridge, spec.controlPlaneEndpoint.host must be an address of its network that nobody has, and that "
            "its DHCP server gives to nobody",
        )


def _refuse_bad_endpoint(spec: KVMClusterSpec, range_: str) -> None:
    endpoint = spec.control_plane_endpoint
    if endpoint is None or not addresses.is_address(endpoint.host):
        return
    if not Layout.of(range_).may_be_api(endpoint.host):
        raise Refused(
            "EndpointNotUsable",
            f"spec.controlPlaneEndpoint.host {endpoint.host} is not one of the addresses of the cluster's network "
            f"{range_} that are set aside for it (the 2nd to the 19th): leave it out, and one is chosen",
        )


def _router(infrastructure: Object) -> int:
    return int(objects.at(infrastructure, "spec", "virtualRouterID") or 0)


def _range(infrastructure: Object) -> list[ipaddress.IPv4Network]:
    """None where it is none that a cluster can have."""
    try:
        found = ipaddress.IPv4Network(str(objects.at(infrastructure, "spec", "range") or ""))
    except ValueError:
        return []
    return [found] if found.prefixlen == addresses.PREFIX else []


def _refuse_bad_range(range_: str, host: Host, taken: list[ipaddress.IPv4Network]) -> None:
    """One that came with the spec, as after a move, must be one that could have been chosen."""
    try:
        wanted = ipaddress.IPv4Network(range_)
    except ValueError as error:
        raise Refused("NoRange", f"spec.range: {error}") from error
    ranges = [ipaddress.ip_network(each, strict=False) for each in host.spec.networks.ranges or ()]
    is_hosts = any(isinstance(each, ipaddress.IPv4Network) and wanted.subnet_of(each) for each in ranges)
    if not is_hosts or wanted.prefixlen != addresses.PREFIX:
        raise Refused("NoRange", f"spec.range {range_} is no /{addresses.PREFIX} of the ranges of KVMHost {host.name}")
    if any(wanted.overlaps(each) for each in taken):
        raise Refused("NoRange", f"spec.range {range_} overlaps a network that is on KVMHost {host.name} already")
