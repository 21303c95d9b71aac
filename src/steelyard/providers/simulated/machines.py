"""SimulatedMachine: a machine that exists only as state, and does with its bootstrap data what a real one would.

Its life: the provider ID is recorded (intent), then it boots for `bootSeconds`, runs, and after `joinSeconds` its Node
stands in the cluster's API. The first control-plane machine starts that API with the authority from its bootstrap data;
every other one must show a valid join token. Switching off the last control-plane machine ends the API.
"""

from __future__ import annotations

import base64
import zlib

from steelyard.api.clusterapi import wellknown
from steelyard.api.resources import SIMULATED_CLUSTERS, SIMULATED_MACHINES
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.pki import KeyPair
from steelyard.kube.resources import NODES, SECRETS
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
from steelyard.providers.simulated import boot, joinchecks, nodes
from steelyard.providers.toolkit import clusterapi, reporting

FINALIZER = "simulatedmachine.infrastructure.cluster.x-k8s.io"
_RETRY_SECONDS = 2.0


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


class SimulatedMachineReconciler:
    def __init__(self, client: CachedClient, hosting: Hosting, clock: Clock, delays: Delays) -> None:
        self._client = client
        self._hosting = hosting
        self._clock = clock
        self._delays = delays

    async def reconcile(self, key: Key) -> Result:
        try:
            infrastructure = await self._client.get(SIMULATED_MACHINES, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        if objects.is_being_deleted(infrastructure):
            return await self._delete(infrastructure)
        place = await self._place(infrastructure)
        if place is None:
            return Result()
        infrastructure = await self._record_identity(infrastructure)
        if not place.bootstrap_secret:
            return Result()
        return await self._live(infrastructure, place)

    async def _place(self, infrastructure: Object) -> _Place | None:
        """None while the machine's owner or its cluster's endpoint is missing, or reconciling is paused."""
        machine = await clusterapi.owner_machine(self._client, infrastructure)
        cluster = await clusterapi.cluster_of(self._client, infrastructure)
        if machine is None or cluster is None or clusterapi.is_paused(cluster, infrastructure):
            return None
        simulated_cluster = await clusterapi.infrastructure_of(self._client, cluster, SIMULATED_CLUSTERS)
        if simulated_cluster is None or not clusterapi.endpoint_port(simulated_cluster):
            return None
        secret = str(objects.at(machine, "spec", "bootstrap", "dataSecretName") or "")
        networks = objects.sequence(objects.at(cluster, "spec", "clusterNetwork", "services", "cidrBlocks"))
        return _Place(machine, objects.uid(simulated_cluster), ",".join(map(str, networks)), secret)

    async def _record_identity(self, infrastructure: Object) -> Object:
        wanted = objects.copy(infrastructure)
        if not finalizers.has(wanted, FINALIZER):
            wanted["metadata"]["finalizers"] = [*objects.finalizers(wanted), FINALIZER]
        wanted["spec"]["providerID"] = f"simulated://{objects.uid(infrastructure)}"
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
        if conditions.is_true(infrastructure, "Ready"):
            # It has joined: longer delays, set since, are for machines to come.
            elapsed = joins_after
        if elapsed < boots_for:
            return Result(requeue_after=boots_for - elapsed)
        if elapsed < joins_after:
            await self._report(infrastructure, "Running", "Joining", started=started)
            return Result(requeue_after=joins_after - elapsed)
        try:
            await self._bring_up(infrastructure, place)
        except (boot.BadBootstrapData, joinchecks.Refused, PortTaken) as error:
            await self._report(infrastructure, "Failed", "BootstrapFailed", started=started, message=str(error))
            return Result(requeue_after=_RETRY_SECONDS)
        await self._report(infrastructure, "Running", "Running", started=started)
        return Result()

    async def _bring_up(self, infrastructure: Object, place: _Place) -> None:
        """The API where this is a control-plane machine, then the Node. Done before, it finds both in place."""
        is_joined = conditions.is_true(infrastructure, "Ready")
        if is_joined and (not clusterapi.is_control_plane(infrastructure) or self._hosting.running(place.cluster_id)):
            return
        node = boot.read(await self._bootstrap_data(place), default_node_name=objects.name(infrastructure))
        if isinstance(node, boot.Init):
            api = await self._serve(place, node.authority, node.service_account_key, node.service_cidr)
        else:
            api = await self._join(node, place, is_joined=is_joined)
        if not is_joined:
            await self._register(api, infrastructure, place, node)

    async def _serve(
        self, place: _Place, authority: KeyPair, service_account_key: bytes, service_cidr: str = ""
    ) -> Api:
        """`service_cidr` where the bootstrap data says it; only that of the first machine does."""
        return await self._hosting.serve(
            place.cluster_id,
            authority,
            service_cidr=service_cidr or place.service_cidr,
            service_account_key=service_account_key,
            version=place.version or http.DEFAULT_VERSION,
        )

    async def _join(self, node: boot.Join, place: _Place, *, is_joined: bool) -> Api:
        api = self._hosting.running(place.cluster_id)
        if api is None and is_joined and node.authority is not None:
            return await self._serve(place, node.authority, node.service_account_key)
        if api is None:
            raise joinchecks.Refused(f"nothing answers at {node.endpoint}: the control plane is not up")
        if not is_joined:
            authority = self._hosting.authority_certificate(place.cluster_id)
            await joinchecks.check(_kubelet(api, node.node_name), node, authority, now=self._clock.now())
        if node.authority is not None:
            # The newest of the machines that serve the API is the one that is asked.
            return await self._serve(place, node.authority, node.service_account_key)
        return api

    async def _register(self, api: Api, infrastructure: Object, place: _Place, told: boot.Init | boot.Join) -> None:
        name = told.node_name
        kubelet = _kubelet(api, name)
        node = nodes.node(
            infrastructure,
            name,
            _address(infrastructure),
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
                {"type": "InternalIP", "address": _address(infrastructure)},
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
            await self._stop_api_unless_others_run(infrastructure)
        await finalizers.remove(self._client, SIMULATED_MACHINES, infrastructure, FINALIZER)
        return Result()

    async def _stop_api_unless_others_run(self, infrastructure: Object) -> None:
        cluster = await clusterapi.cluster_of(self._client, infrastructure)
        simulated_cluster = (
            await clusterapi.infrastructure_of(self._client, cluster, SIMULATED_CLUSTERS) if cluster else None
        )
        if simulated_cluster is None:
            return
        name = objects.labels(infrastructure)[wellknown.CLUSTER_NAME_LABEL]
        selector = f"{wellknown.CLUSTER_NAME_LABEL}={name},{wellknown.CONTROL_PLANE_LABEL}"
        machines = await self._client.list(
            SIMULATED_MACHINES, objects.namespace(infrastructure), label_selector=selector
        )
        if not any(_keeps_api_up(machine) for machine in machines.items):
            await self._hosting.stop(objects.uid(simulated_cluster))


def _keeps_api_up(machine: Object) -> bool:
    return not objects.is_being_deleted(machine) and conditions.is_true(machine, "Ready")


def _kubelet(api: Api, node_name: str) -> LocalClient:
    return LocalClient(api, User(f"system:node:{node_name}", ("system:nodes", SYSTEM_MASTERS)), field_manager="kubelet")


def _address(infrastructure: Object) -> str:
    """An address that looks like one, from the range for private networks of carriers, fixed by the machine's UID."""
    number = zlib.crc32(objects.uid(infrastructure).encode()) & 0x3FFFFF
    return f"100.{64 + (number >> 16)}.{number >> 8 & 0xFF}.{number & 0xFF}"
