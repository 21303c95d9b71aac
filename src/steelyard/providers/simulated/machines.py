"""SimulatedMachine: a machine that exists only as state, and does with its bootstrap data what a real one would.

Its life: the provider ID is recorded (intent), then it boots for `bootSeconds`, runs, and after `joinSeconds` its Node
stands in the cluster's API. The first control-plane machine starts that API with the authority from its bootstrap data;
every other one must show a valid join token. Switching off the last control-plane machine ends the API. Where there are
several of these, each also runs a member of the cluster's etcd (`ensembles.py`). One that vanished with its finalizer
taken off by force is switched off as well; not so one that was paused, which has been moved to another API and goes on.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence

from steelyard import standing
from steelyard.api.resources import SIMULATED_CLUSTERS, SIMULATED_MACHINES
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions, finalizers, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.kube.server.api import Api
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.hosting import Hosting, PortTaken
from steelyard.kube.server.transport import http
from steelyard.providers.simulated import boot, furnishing, identity, joinchecks, nodes
from steelyard.providers.simulated.ensembles import FAULT_ANNOTATION, Ensembles, Host
from steelyard.providers.simulated.podports import Ports
from steelyard.providers.toolkit import clusterapi, reporting

FINALIZER = "simulatedmachine.infrastructure.cluster.x-k8s.io"
_RETRY_SECONDS = 2.0
_FIELD_MANAGER = "steelyard"
_PORT_RETRY_SECONDS = 60.0
_PODS_RETRY_SECONDS = 30.0
_HOST_NETWORK = "127."


@frozen
class Delays:
    """Seconds that each step of a machine's life takes."""

    boot: float = 0.0
    join: float = 0.0
    delete: float = 0.0


@frozen
class _Place:
    """Where a machine belongs."""

    machine: Object
    cluster_id: str
    service_cidr: str
    bootstrap_secret: str

    @property
    def version(self) -> str:
        return str(objects.at(self.machine, "spec", "version") or "")


@frozen
class Machines:
    """What is known of others."""

    around: Callable[[Object], Sequence[Object]]
    """All machines of the cluster that this one is of."""
    is_taken: Callable[[str], bool]
    """Whether a machine has this address already."""


class SimulatedMachineReconciler:
    def __init__(
        self,
        client: CachedClient,
        hosting: Hosting,
        ensembles: Ensembles,
        clock: Clock,
        delays: Delays,
        machines: Machines,
        definitions: Sequence[Object] = (),
    ) -> None:
        """`definitions` are of kinds that clusters have as if a program were installed in them."""
        self._client = client
        self._hosting = hosting
        self._ensembles = ensembles
        self._clock = clock
        self._delays = delays
        self._machines_around, self._is_taken = machines.around, machines.is_taken
        self._definitions = definitions
        self._known: dict[Key, Object] = {}
        """The control-plane machines that may run here, as they were last seen."""
        self._unfurnished: set[str] = set()
        """Those whose pods could not be written, by uid."""

    async def reconcile(self, key: Key) -> Result:
        try:
            infrastructure = await self._client.get(SIMULATED_MACHINES, key.name, key.namespace)
        except errors.NotFound:
            return await self._forget_former(key)
        cluster = await clusterapi.cluster_of(self._client, infrastructure)
        if cluster is not None and clusterapi.is_paused(cluster, infrastructure):
            self._known.pop(key, None)
            return Result()
        if key in self._known and not _is_same(self._known[key], infrastructure):
            await self._forget_former(key)
        if clusterapi.is_control_plane(infrastructure):
            self._known[key] = infrastructure
        if objects.is_being_deleted(infrastructure):
            return await self._delete(infrastructure)
        place = await self._place(infrastructure, cluster)
        if place is None:
            return Result()
        infrastructure = await self._record_identity(infrastructure)
        if not place.bootstrap_secret:
            return Result()
        return await self._live(infrastructure, place)

    async def _forget_former(self, key: Key) -> Result:
        """Switches off what was last seen under this name, if it has not been."""
        if key in self._known and not await self._switch_off(self._known[key]):
            return Result(requeue_after=_PODS_RETRY_SECONDS)
        self._known.pop(key, None)
        return Result()

    async def _place(self, infrastructure: Object, cluster: Object | None) -> _Place | None:
        """None while the machine's owner or its cluster's endpoint is missing, or is not here."""
        machine = await clusterapi.owner_machine(self._client, infrastructure)
        if machine is None or cluster is None:
            return None
        simulated_cluster = await clusterapi.infrastructure_of(self._client, cluster, SIMULATED_CLUSTERS)
        if simulated_cluster is None or not clusterapi.endpoint_port(simulated_cluster):
            return None
        secret = str(objects.at(machine, "spec", "bootstrap", "dataSecretName") or "")
        networks = objects.sequence(objects.at(cluster, "spec", "clusterNetwork", "services", "cidrBlocks"))
        if await identity.is_anothers(self._client, simulated_cluster):
            return None
        if identity.is_elsewhere(simulated_cluster, self._hosting):
            return None
        return _Place(machine, identity.of_cluster(simulated_cluster), ",".join(map(str, networks)), secret)

    async def _record_identity(self, infrastructure: Object) -> Object:
        wanted = objects.copy(infrastructure)
        if not finalizers.has(wanted, FINALIZER):
            wanted["metadata"]["finalizers"] = [*objects.finalizers(wanted), FINALIZER]
        wanted["spec"]["providerID"] = identity.provider_id(infrastructure)
        return await patching.patch(self._client, SIMULATED_MACHINES, infrastructure, wanted)

    async def _live(self, infrastructure: Object, place: _Place) -> Result:
        own = objects.at(infrastructure, "spec", "bootSeconds")
        boots_for = self._delays.boot if own is None else float(own)
        joins_after = boots_for + self._delays.join
        started = objects.at(infrastructure, "status", "bootStartedAt")
        if not started:
            started = clocks.rfc3339_micro(self._clock.now())
            if joins_after > 0:
                infrastructure = await self._report(infrastructure, "Booting", "Booting", started=started)
        elapsed = (self._clock.now() - clocks.parse_rfc3339(str(started))).total_seconds()
        if _has_joined(infrastructure):
            # Longer delays, set since, are for machines to come.
            elapsed = joins_after
        if elapsed < boots_for:
            return Result(requeue_after=boots_for - elapsed)
        if elapsed < joins_after:
            await self._report(infrastructure, "Running", "Joining", started=started)
            return Result(requeue_after=joins_after - elapsed)
        try:
            await self._bring_up(infrastructure, place)
            has_ports = await self._settle_members(infrastructure, place)
        except (boot.BadBootstrapData, joinchecks.Refused, PortTaken) as error:
            await self._report(infrastructure, "Failed", "BootstrapFailed", started=started, message=str(error))
            return Result(requeue_after=_RETRY_SECONDS)
        await self._report(infrastructure, "Running", "Running", started=started)
        if objects.uid(infrastructure) in self._unfurnished:
            return Result(requeue_after=_PODS_RETRY_SECONDS)
        return Result() if has_ports else Result(requeue_after=_PORT_RETRY_SECONDS)

    async def _bring_up(self, infrastructure: Object, place: _Place) -> None:
        """The API where this is a control-plane machine, then the Node. Done before, it finds both in place."""
        is_joined = _has_joined(infrastructure)
        is_unfurnished = objects.uid(infrastructure) in self._unfurnished
        if (
            is_joined
            and not is_unfurnished
            and (not clusterapi.is_control_plane(infrastructure) or self._hosting.running(place.cluster_id))
        ):
            return
        node = await self._boot(infrastructure, place)
        if is_joined:
            # Before the API answers: who asks it next may ask for the members.
            await self._settle_members(infrastructure, place, node)
        if isinstance(node, boot.Init):
            api = await self._serve(infrastructure, place, node.authority, node.service_account_key, node.service_cidr)
        else:
            api = await self._join(infrastructure, node, place, is_joined=is_joined)
        if not is_joined:
            await self._join_members(infrastructure, place, node)
            await self._furnish(api, [infrastructure], place, node)
            await self._register(api, infrastructure, place, node)
        elif is_unfurnished:
            await self._furnish(api, [infrastructure], place, node)
        elif not await furnishing.is_configured(_kubelet(api, node.node_name)):
            # It was made by a version that did not do this.
            machines = [each for each in self._control_plane(infrastructure) if _keeps_api_up(each)]
            await self._furnish(api, machines, place, node)

    async def _boot(self, infrastructure: Object, place: _Place) -> boot.Init | boot.Join:
        return boot.read(await self._bootstrap_data(place), default_node_name=objects.name(infrastructure))

    async def _join_members(self, infrastructure: Object, place: _Place, node: boot.Init | boot.Join) -> None:
        """Before its Node is there: by then its member is one of those of the machines that were there before."""
        others = [each for each in self._control_plane(infrastructure) if not _is_same(each, infrastructure)]
        before = [self._host(each) for each in others if _keeps_api_up(each)]
        if isinstance(node, boot.Join) and node.joins_control_plane and node.etcd_authority is not None and before:
            await self._ensembles.join(place.cluster_id, self._host(infrastructure), before)
            await self._settle_members(infrastructure, place, node)

    async def _settle_members(
        self, infrastructure: Object, place: _Place, node: boot.Init | boot.Join | None = None
    ) -> bool:
        """Where there are several control-plane machines, each has etcd's port. False where one cannot be had."""
        machines = self._control_plane(infrastructure)
        if len(machines) < 2:
            return True
        ended = {self._address(each) for each in machines if objects.is_being_deleted(each) or _is_broken(each)}
        running = [each for each in machines if _keeps_api_up(each) or _is_same(each, infrastructure)]
        hosts = [host for host in map(self._host, running) if host.address not in ended]
        if self._ensembles.is_settled(place.cluster_id, hosts, ended):
            return True
        authority = boot.etcd_authority(node or await self._boot(infrastructure, place))
        return authority is None or await self._ensembles.settle(place.cluster_id, hosts, ended, authority)

    def _control_plane(self, infrastructure: Object) -> Sequence[Object]:
        """The control-plane machines of the cluster that this one is of; none for a worker."""
        if not clusterapi.is_control_plane(infrastructure):
            return ()
        return [each for each in self._machines_around(infrastructure) if clusterapi.is_control_plane(each)]

    def _host(self, infrastructure: Object) -> Host:
        return Host(objects.name(infrastructure), self._address(infrastructure))

    async def _serve(
        self,
        infrastructure: Object,
        place: _Place,
        authority: KeyPair,
        service_account_key: bytes,
        service_cidr: str = "",
    ) -> Api:
        """`service_cidr` where the bootstrap data says it; only that of the first machine does."""
        api = await self._hosting.serve(
            place.cluster_id,
            authority,
            service_cidr=service_cidr or place.service_cidr,
            service_account_key=service_account_key,
            version=place.version or http.DEFAULT_VERSION,
            dial=self._ports(infrastructure, place).dial(),
        )
        for each in self._definitions:
            await standing.ensure(LocalClient(api), CUSTOM_RESOURCE_DEFINITIONS, each, field_manager=_FIELD_MANAGER)
        return api

    async def _join(self, infrastructure: Object, node: boot.Join, place: _Place, *, is_joined: bool) -> Api:
        api = self._hosting.running(place.cluster_id)
        if api is None and is_joined and node.authority is not None:
            return await self._serve(infrastructure, place, node.authority, node.service_account_key)
        if api is None:
            raise joinchecks.Refused(f"nothing answers at {node.endpoint}: the control plane is not up")
        if not is_joined:
            authority = self._hosting.authority_certificate(place.cluster_id)
            await joinchecks.check(_kubelet(api, node.node_name), node, authority, now=self._clock.now())
        if node.authority is not None:
            # The newest of the machines that serve the API is the one that is asked.
            return await self._serve(infrastructure, place, node.authority, node.service_account_key)
        return api

    def _ports(self, infrastructure: Object, place: _Place) -> Ports:
        async def authority(host: Host) -> KeyPair | None:
            machine = next((each for each in running() if objects.name(each) == host.name), None)
            if machine is None:
                return None
            found = await self._place(machine, await clusterapi.cluster_of(self._client, machine))
            if found is None:
                return None
            return boot.etcd_authority(await self._boot(machine, found))

        def running() -> list[Object]:
            return [
                each for each in self._control_plane(infrastructure) if _keeps_api_up(each) and not _is_broken(each)
            ]

        return Ports(
            place.cluster_id,
            self._ensembles,
            lambda: [self._host(each) for each in running()],
            authority,
            lambda: (self._hosting.advertised_host, self._hosting.port(place.cluster_id)),
        )

    async def _furnish(self, api: Api, machines: Sequence[Object], place: _Place, told: boot.Init | boot.Join) -> None:
        """Before their Nodes are there: whoever finds those looks at the pods next. The configuration comes last, and
        says that the rest is there, or will be."""
        planes = [each for each in machines if clusterapi.is_control_plane(each)]
        if not planes:
            return
        for each in planes:
            # A Node is called as its bootstrap data says; where several are furnished anew, each as its machine.
            name = told.node_name if len(planes) == 1 else objects.name(each)
            adding = furnishing.add_pods(
                _kubelet(api, name),
                name,
                self._address(each),
                version=place.version,
                with_etcd=told.etcd_authority is not None,
                now=self._clock.now(),
            )
            if await furnishing.attempt(adding):
                self._unfurnished.discard(objects.uid(each))
            else:
                self._unfurnished.add(objects.uid(each))
        configuration = (
            told.configuration
            if isinstance(told, boot.Init)
            else furnishing.minimal(version=place.version, endpoint=told.endpoint, service_networks=place.service_cidr)
        )
        await furnishing.configure(_kubelet(api, told.node_name), configuration)

    async def _register(self, api: Api, infrastructure: Object, place: _Place, told: boot.Init | boot.Join) -> None:
        name = told.node_name
        kubelet = _kubelet(api, name)
        node = nodes.node(
            infrastructure,
            name,
            self._address(infrastructure),
            version=place.version,
            control_plane=clusterapi.is_control_plane(infrastructure),
            now=self._clock.now(),
            labels=told.labels if isinstance(told, boot.Join) else {},
            taints=told.taints if isinstance(told, boot.Join) else (),
        )
        try:
            await kubelet.create(NODES, node)
        except errors.AlreadyExists:
            existing = await kubelet.get(NODES, name)
            if objects.at(existing, "spec", "providerID") != node["spec"]["providerID"]:
                await kubelet.delete(NODES, name, uid=objects.uid(existing))
                await kubelet.create(NODES, node)

    async def _bootstrap_data(self, place: _Place) -> bytes:
        namespace = objects.namespace(place.machine)
        try:
            secret = await self._client.get(SECRETS, place.bootstrap_secret, namespace)
        except errors.NotFound:
            raise boot.BadBootstrapData(f"Secret {namespace}/{place.bootstrap_secret} does not exist") from None
        try:
            return base64.b64decode(str(objects.at(secret, "data", "value") or ""))
        except ValueError as error:
            raise boot.BadBootstrapData(
                f"Secret {namespace}/{place.bootstrap_secret}: data.value is not base64: {error}"
            ) from error

    async def _report(
        self, infrastructure: Object, phase: str, reason: str, *, started: str, message: str = ""
    ) -> Object:
        more: Object = {"phase": phase, "bootStartedAt": started}
        if phase == "Running":
            more["addresses"] = [
                {"type": "Hostname", "address": objects.name(infrastructure)},
                {"type": "InternalIP", "address": self._address(infrastructure)},
            ]
        return await reporting.report(
            self._client,
            SIMULATED_MACHINES,
            infrastructure,
            provisioned=phase == "Running",
            ready=reason == "Running",
            reason=reason,
            message=message,
            more=more,
            clock=self._clock,
        )

    async def _delete(self, infrastructure: Object) -> Result:
        asked = clocks.parse_rfc3339(str(objects.metadata(infrastructure)["deletionTimestamp"]))
        remaining = self._delays.delete - (self._clock.now() - asked).total_seconds()
        if remaining > 0:
            return Result(requeue_after=remaining)
        if clusterapi.is_control_plane(infrastructure):
            self._unfurnished.discard(objects.uid(infrastructure))
            if await self._switch_off(infrastructure):
                self._known.pop(Key.of(infrastructure), None)
        await finalizers.remove(self._client, SIMULATED_MACHINES, infrastructure, FINALIZER)
        return Result()

    async def _switch_off(self, infrastructure: Object) -> bool:
        """Ends its member of etcd, and the API unless others run. False where its pods could not be removed."""
        cluster = await clusterapi.cluster_of(self._client, infrastructure)
        simulated_cluster = (
            await clusterapi.infrastructure_of(self._client, cluster, SIMULATED_CLUSTERS) if cluster else None
        )
        if simulated_cluster is None or await identity.is_anothers(self._client, simulated_cluster):
            return True
        await self._ensembles.end(identity.of_cluster(simulated_cluster), self._address(infrastructure))
        if not any(map(_keeps_api_up, self._control_plane(infrastructure))):
            await self._hosting.stop(identity.of_cluster(simulated_cluster))
        elif (api := self._hosting.running(identity.of_cluster(simulated_cluster))) is not None:
            name = objects.name(infrastructure)
            return await furnishing.attempt(furnishing.remove_pods(_kubelet(api, name), name))
        return True

    def _address(self, infrastructure: Object) -> str:
        """An address that looks like one, from the range for private networks of carriers; of a control-plane machine
        one of this host, as its etcd can be asked there. Fixed by the machine's identity, and kept."""
        is_control_plane = clusterapi.is_control_plane(infrastructure)
        for each in map(objects.mapping, objects.sequence(objects.at(infrastructure, "status", "addresses"))):
            address = str(each.get("address"))
            if each.get("type") == "InternalIP" and address.startswith(_HOST_NETWORK) == is_control_plane:
                return address
        number = zlib.crc32(identity.of_machine(infrastructure).encode())
        if not is_control_plane:
            return f"100.{64 + (number >> 16 & 0x3F)}.{number >> 8 & 0xFF}.{number & 0xFF}"
        while self._is_taken(address := _of_this_host(number)):
            number += 1
        return address


def _has_joined(machine: Object) -> bool:
    return conditions.is_true(machine, "Ready") or identity.was_moved(machine)


def _keeps_api_up(machine: Object) -> bool:
    return not objects.is_being_deleted(machine) and conditions.is_true(machine, "Ready")


def _is_broken(machine: Object) -> bool:
    """Its member of etcd does not run."""
    return objects.annotations(machine).get(FAULT_ANNOTATION) == "etcd"


def _is_same(one: Object, other: Object) -> bool:
    return objects.uid(one) == objects.uid(other)


def _kubelet(api: Api, node_name: str) -> LocalClient:
    return LocalClient(api, User(f"system:node:{node_name}", ("system:nodes", SYSTEM_MASTERS)), field_manager="kubelet")


def _of_this_host(number: int) -> str:
    """Not of the first network, in which what else runs here listens, and no network's first or last."""
    return f"{_HOST_NETWORK}{1 + (number >> 16) % 254}.{number >> 8 & 0xFF}.{1 + (number & 0xFF) % 254}"
