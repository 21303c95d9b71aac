"""KVMMachine: a domain on a host, with disks, a seed and an address.

Its UUID and its host are written into the spec before anything is made. From then on each look compares what is to be
with what is on the host and does what is missing, so that a restart of the platform, or an object that was moved or
restored under another UID, finds the machine again. What is lost is told, never silently made anew; a host that does
not answer says nothing about its machines.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Final

import pydantic

from steelyard.api.kvm import KVMClusterSpec, KVMMachineSpec
from steelyard.api.kvmhost import KVMHostSpec
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime import conditions, finalizers, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.conditions import Status
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.providers.kvm import bootstraps, carrying, identity, indexes, machineplan, placing, twins, wishes
from steelyard.providers.kvm.bootstraps import Bootstraps
from steelyard.providers.kvm.carrying import Carrier, Machine
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.images import Images
from steelyard.providers.kvm.libvirt import domains
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.domains import Domain
from steelyard.providers.kvm.libvirt.problems import Away, NoSpace, Problem
from steelyard.providers.kvm.machineplan import Seen, Wish
from steelyard.providers.kvm.pace import STEADY, Pace
from steelyard.providers.kvm.placing import Host, Need
from steelyard.providers.kvm.refusals import Refused
from steelyard.providers.kvm.restarts import Restarts
from steelyard.providers.kvm.seed import files, vendordata
from steelyard.providers.kvm.wishes import Subject
from steelyard.providers.toolkit import clusterapi, reporting
from steelyard.settings.kvm import IMAGE

FINALIZER: Final = "kvmmachine.infrastructure.cluster.x-k8s.io"


@frozen
class _Place:
    """Where a machine belongs."""

    machine: Object
    cluster_name: str
    cluster: Object
    """The KVMCluster."""

    @property
    def cluster_spec(self) -> KVMClusterSpec:
        return KVMClusterSpec.model_validate(self.cluster.get("spec") or {})

    @property
    def bootstrap_secret(self) -> str:
        return str(objects.at(self.machine, "spec", "bootstrap", "dataSecretName") or "")

    @property
    def has_joined(self) -> bool:
        return bool(objects.at(self.machine, "status", "nodeRef", "name"))


@frozen
class _Report:
    """What the machine's status is to say."""

    phase: str
    ready: bool | Status
    reason: str
    message: str = ""
    is_provisioned: bool = False
    addresses: tuple[str, ...] = ()
    again_in: float | None = None
    """Seconds; None as after something that did not work."""


class KVMMachineReconciler:
    def __init__(
        self,
        client: CachedClient,
        fleet: Fleet,
        images: Images,
        clock: Clock,
        recorder: Recorder,
        *,
        pace: Pace = STEADY,
        starts_paused: bool = False,
    ) -> None:
        """`starts_paused`: machines are started and do not run; for tests, where many are on a small host."""
        self._client = client
        self._fleet = fleet
        self._images = images
        self._clock = clock
        self._recorder = recorder
        self._pace = pace
        self._starts_paused = starts_paused
        self._restarts = Restarts(clock)
        self._bootstraps = Bootstraps()

    async def reconcile(self, key: Key) -> Result:
        try:
            infrastructure = await self._client.get(KVM_MACHINES, key.name, key.namespace)
        except errors.NotFound:
            return Result()
        cluster = await clusterapi.cluster_of(self._client, infrastructure)
        if cluster is not None and clusterapi.is_paused(cluster, infrastructure):
            return Result()
        if objects.is_being_deleted(infrastructure):
            return await self._delete(infrastructure)
        place = await self._place(infrastructure, cluster)
        if place is None:
            return Result()
        try:
            infrastructure = await self._record_identity(infrastructure, place)
            report = await self._bring_about(infrastructure, place)
        except Refused as refused:
            report = _Report("Pending" if refused.reason in _WAITING else "Failed", False, refused.reason, str(refused))
        except NoSpace as problem:
            report = _Report("Failed", False, "NoSpace", f"{problem}. Free some space on the host, or add some")
        except Away as problem:
            report = _Report("", "Unknown", "HostAway", f"{problem}. Nothing is done until the host answers")
        except Problem as problem:
            report = _Report("Failed", False, "LibvirtFailed", str(problem))
        return await self._tell(infrastructure, report)

    async def _place(self, infrastructure: Object, cluster: Object | None) -> _Place | None:
        """None while the machine's owner or its cluster's network is missing."""
        machine = await clusterapi.owner_machine(self._client, infrastructure)
        if machine is None or cluster is None:
            return None
        kvm_cluster = await clusterapi.infrastructure_of(self._client, cluster, KVM_CLUSTERS)
        if kvm_cluster is None or not objects.at(kvm_cluster, "status", "initialization", "provisioned"):
            return None
        return _Place(machine, objects.name(kvm_cluster), kvm_cluster)

    async def _record_identity(self, infrastructure: Object, place: _Place) -> Object:
        """UUID, host and where the disks are, before any of it is there; what came with its spec is judged. Raises
        Refused."""
        spec = _spec(infrastructure)
        is_recorded = spec.provider_id and spec.host and spec.storage_root
        if is_recorded and finalizers.has(infrastructure, FINALIZER):
            self._refuse_if_anothers(infrastructure)
            if placing.is_accepted(infrastructure):
                return infrastructure
            if await self._is_made(infrastructure, spec):
                return await placing.accept(self._client, KVM_MACHINES, infrastructure)
        async with self._fleet.choosing:
            wanted = objects.copy(infrastructure)
            host = await self._choose(objects.namespace(infrastructure), spec, place)
            others = await self._client.list(KVM_MACHINES)
            wanted["spec"].setdefault("providerID", twins.new_identity(others.items))
            wanted["spec"]["host"] = host.name
            wanted["spec"].setdefault("storageRoot", host.spec.storage_roots[0])
            if not finalizers.has(wanted, FINALIZER):
                wanted["metadata"]["finalizers"] = [*objects.finalizers(wanted), FINALIZER]
            self._refuse_if_anothers(wanted)
            twins.refuse_twin(wanted, others.items)
            recorded = await patching.patch(self._client, KVM_MACHINES, infrastructure, wanted)
            return await placing.accept(self._client, KVM_MACHINES, recorded)

    async def _is_made(self, infrastructure: Object, spec: KVMMachineSpec) -> bool:
        """Whether its domain is there, as after a move."""
        connection = self._fleet.connection(await self._host(spec.host or ""))
        domain = await domains.look(connection, identity.uuid_of(spec.provider_id or ""))
        namespace, name = objects.namespace(infrastructure), objects.name(infrastructure)
        return domain is not None and machineplan.is_owner(namespace, name, domain)

    async def _choose(self, namespace: str, spec: KVMMachineSpec, place: _Place) -> Host:
        hosts = (await self._client.list(KVM_HOSTS)).items
        machines = (await self._client.list(KVM_MACHINES)).items
        known = [Host.of(each, machines) for each in hosts]
        if spec.host is not None:
            found = next((each for each in known if each.name == spec.host), None)
            if found is None:
                raise Refused("NoHost", f"spec.host: there is no KVMHost {spec.host}")
            known = [found]
        cluster = place.cluster_spec
        bridge = (cluster.network.bridge or "") if cluster.network is not None else ""
        return placing.for_machine(known, namespace, Need.of(spec), on=cluster.host or "", bridge=bridge)

    async def _judge_host(self, infrastructure: Object, host: Object, place: _Place) -> None:
        """That it may be made where its spec says: whoever wrote that may not have been us. Raises Refused."""
        others = [
            each
            for each in (await self._client.list(KVM_MACHINES)).items
            if objects.uid(each) != objects.uid(infrastructure)
        ]
        cluster = place.cluster_spec
        placing.for_machine(
            [Host.of(host, others)],
            objects.namespace(infrastructure),
            Need.of(_spec(infrastructure)),
            on=cluster.host or "",
            bridge=(cluster.network.bridge or "") if cluster.network is not None else "",
        )

    def _refuse_if_anothers(self, infrastructure: Object) -> None:
        own = str(objects.at(infrastructure, "spec", "providerID") or "")
        twins.refuse_if_anothers(
            infrastructure, self._client.informers.of(KVM_MACHINES).by_index(indexes.BY_PROVIDER_ID, own)
        )

    async def _bring_about(self, infrastructure: Object, place: _Place) -> _Report:
        host = await self._host(str(objects.at(infrastructure, "spec", "host")))
        subject = _subject(infrastructure, place, host)
        if not place.bootstrap_secret and not _was_provisioned(infrastructure):
            return _Report(
                "Pending",
                False,
                "WaitingForBootstrapData",
                "the Machine has no bootstrap data yet",
                again_in=self._pace.machines,
            )
        connection = self._fleet.connection(host)
        places = wishes.places(subject)
        seen = await carrying.look(connection, subject.uuid, places)
        machine = await self._machine(infrastructure, place, host, subject, seen)
        steps = machineplan.steps(machine.wish, seen)
        wait = self._restarts.wait(subject.uuid) if any(step.act == "start" for step in steps) else 0.0
        if wait > 0:
            return _Report(
                "Stopped", False, "StopsAgain", "it stops each time soon after it has started", again_in=wait
            )
        carrier = Carrier(self._fleet, connection, machine)
        await carrier.carry_out(steps)
        if any(step.act == "start" for step in steps):
            self._restarts.started(subject.uuid)
        domain = await domains.look(connection, subject.uuid) if steps else seen.domain
        report = await self._found(infrastructure, connection, carrier, subject, domain)
        if place.has_joined:
            self._bootstraps.forget(subject.uuid)
        elif report.is_provisioned:
            return await self._without_node(infrastructure, place, connection, seen, report)
        return report

    async def _machine(
        self, infrastructure: Object, place: _Place, host: Object, subject: Subject, seen: Seen
    ) -> Machine:
        """What it is to be, with its image where it is still to be made. Raises Refused."""
        wish = Wish(
            subject.namespace,
            subject.name,
            wishes.places(subject),
            has_lived=_was_provisioned(infrastructure) or place.has_joined,
            has_joined=place.has_joined,
            starts_paused=self._starts_paused,
        )
        if seen.domain is None or not seen.domain.is_persistent:
            if wish.has_lived:
                machineplan.refuse_if_lost(wish, seen)
            else:
                await self._judge_host(infrastructure, host, place)
            image = subject.spec.image or IMAGE.replace("{version}", _version(place.machine))
            base = await self._images.find(subject.host, image)
            wish = dataclasses.replace(wish, places=wishes.places(subject, base))
        is_emulated = objects.at(host, "status", "virtualization") != "hardware"
        guest = None
        if seen.domain is None or not seen.domain.is_persistent or seen.domain.state == "stopped":
            # What it may have is judged each time before it is started, and so is what it has.
            if seen.domain is not None and machineplan.is_owner(subject.namespace, subject.name, seen.domain):
                wishes.refuse_revoked(subject, seen.domain.xml)
            guest = wishes.guest(subject, wish.places, is_emulated=is_emulated)

        async def seed(spent: bool, at_least: int) -> bytes:
            return files.seed(
                subject.uuid,
                subject.name,
                user_data=files.NOTHING if spent else await self._bootstrap_data(place),
                vendor_data=vendordata.script(wishes.told(subject, is_emulated=is_emulated)),
                network=files.network(subject.mac, subject.spec.dns_servers or ()),
                at_least=at_least,
            )

        return Machine(subject, wish, guest, seed, _known_address(infrastructure))

    async def _found(
        self, infrastructure: Object, connection: Connection, carrier: Carrier, subject: Subject, domain: Domain | None
    ) -> _Report:
        if domain is None:
            return _Report(
                "Starting", False, "Starting", "it has gone while it was being made", again_in=self._pace.soon
            )
        if domain.is_out_of_space:
            return _Report(
                "Stopped",
                False,
                "OutOfSpace",
                "the host has no space left for what the machine writes, and it is paused: free some, and it goes on",
            )
        if domain.state == "stopped" or domain.state == "other":
            return _Report("Starting", False, "Starting", "it is being started", again_in=self._pace.soon)
        if domain.state == "paused" and not self._starts_paused:
            return _Report(
                "Stopped",
                False,
                "Paused",
                f"somebody has paused it: let it go on with virsh resume {domain.name}",
                again_in=self._pace.machines,
            )
        own = await carrier.address()
        known = (own,) if own else tuple(await domains.addresses(connection, subject.uuid, subject.mac))
        return _Report(
            "Running",
            True,
            "Running",
            is_provisioned=True,
            addresses=known or _addresses(infrastructure),
            again_in=self._pace.spread(self._pace.machines) if known else self._pace.soon,
        )

    async def _without_node(
        self, infrastructure: Object, place: _Place, connection: Connection, seen: Seen, report: _Report
    ) -> _Report:
        """For one that runs: what its console says of why there is no Node, if it says anything."""

        async def bootstrap_data() -> bytes:
            try:
                return await self._bootstrap_data(place)
            except Refused:
                return b""

        message = bootstraps.known(infrastructure)
        if not message:
            uuid = identity.uuid_of(str(objects.at(infrastructure, "spec", "providerID")))
            failure = await self._bootstraps.failure(connection, uuid, seen.folders[0], bootstrap_data)
            if not failure:
                again_in = min(self._pace.of_boot(self._age(infrastructure)), report.again_in or self._pace.soon)
                return dataclasses.replace(report, again_in=again_in)
            message = bootstraps.told(objects.name(infrastructure), failure)
            self._recorder.warning(infrastructure, bootstraps.FAILED, message)
        return dataclasses.replace(report, ready=False, reason=bootstraps.FAILED, message=message)

    def _age(self, infrastructure: Object) -> float:
        """Seconds since it was first seen running."""
        ready = conditions.find(infrastructure, "Ready") or {}
        if ready.get("status") != "True" or not ready.get("lastTransitionTime"):
            return 0.0
        return (self._clock.now() - clocks.parse_rfc3339(str(ready["lastTransitionTime"]))).total_seconds()

    async def _bootstrap_data(self, place: _Place) -> bytes:
        namespace, name = objects.namespace(place.machine), place.bootstrap_secret
        try:
            secret = await self._client.get(SECRETS, name, namespace)
        except errors.NotFound:
            raise Refused("NoBootstrapData", f"Secret {namespace}/{name} with the bootstrap data is gone") from None
        try:
            kind = base64.b64decode(str(objects.at(secret, "data", "format") or "")).decode()
            data = base64.b64decode(str(objects.at(secret, "data", "value") or ""))
        except ValueError as error:
            raise Refused("NoBootstrapData", f"Secret {namespace}/{name}: not base64: {error}") from error
        if kind not in ("", "cloud-config"):
            raise Refused(
                "NoBootstrapData",
                f"Secret {namespace}/{name} is of format {kind}; machines here know cloud-config only",
            )
        return data

    async def _host(self, name: str) -> Object:
        try:
            return await self._client.get(KVM_HOSTS, name)
        except errors.NotFound:
            raise Away(f"KVMHost {name} does not exist: bring it back") from None

    async def _tell(self, infrastructure: Object, report: _Report) -> Result:
        more: Object = {}
        if report.phase:
            more["phase"] = report.phase
        if report.addresses:
            more["addresses"] = [
                {"type": "Hostname", "address": objects.name(infrastructure)},
                *({"type": "InternalIP", "address": each} for each in report.addresses),
            ]
        await reporting.report(
            self._client,
            KVM_MACHINES,
            infrastructure,
            provisioned=report.is_provisioned,
            ready=report.ready,
            reason=report.reason,
            message=report.message,
            more=more,
            clock=self._clock,
        )
        return Result(requeue_after=report.again_in or self._pace.retry)

    async def _delete(self, infrastructure: Object) -> Result:
        """Everything of it on the host goes before the object that remembers it."""
        if not finalizers.has(infrastructure, FINALIZER):
            return Result()
        provider_id = str(objects.at(infrastructure, "spec", "providerID") or "")
        if provider_id and objects.at(infrastructure, "spec", "host"):
            uuid = identity.uuid_of(provider_id)
            try:
                await self._remove(infrastructure, _left_by(infrastructure), uuid)
            except Away as problem:
                waits = f"{problem}. What it has there is removed when the host answers"
                return await self._tell(infrastructure, _Report("Deleting", "Unknown", "HostAway", waits))
            except Refused as refused:
                return await self._tell(infrastructure, _Report("Deleting", False, refused.reason, str(refused)))
            except Problem as problem:
                return await self._tell(infrastructure, _Report("Deleting", False, "LibvirtFailed", str(problem)))
            self._restarts.forget(uuid)
            self._bootstraps.forget(uuid)
        await finalizers.remove(self._client, KVM_MACHINES, infrastructure, FINALIZER)
        return Result()

    async def _remove(self, infrastructure: Object, spec: KVMMachineSpec, uuid: str) -> None:
        host = await self._host(spec.host or "")
        connection = self._fleet.connection(host)
        namespace, name = objects.namespace(infrastructure), objects.name(infrastructure)
        domain = await domains.look(connection, uuid)
        if domain is not None and not machineplan.is_owner(namespace, name, domain):
            return
        try:
            self._refuse_if_anothers(infrastructure)
        except Refused:
            if domain is None:
                return
        known = KVMHostSpec.model_validate(host.get("spec"))
        places = wishes.places_to_clear(uuid, spec, known, namespace)
        await carrying.remove(connection, Key.of(infrastructure), uuid, places)


_WAITING: Final = frozenset({"NoHost", "ImageMissing", "NetworkGone", "NoAddress"})


def _spec(infrastructure: Object) -> KVMMachineSpec:
    try:
        return KVMMachineSpec.model_validate(infrastructure.get("spec"))
    except pydantic.ValidationError as error:
        detail = error.errors(include_url=False)[0]
        where = ".".join(map(str, ("spec", *detail["loc"])))
        raise Refused("InvalidSpec", f"{where}: {detail['msg']}") from error


def _left_by(infrastructure: Object) -> KVMMachineSpec:
    """What of its spec says where things of it are; the rest need not be valid any more for it to go."""
    spec = objects.mapping(infrastructure.get("spec"))
    kept = ("resources", "host", "storageRoot", "etcdVolume")
    return _spec({"spec": {key: spec[key] for key in kept if key in spec}})


def _subject(infrastructure: Object, place: _Place, host: Object) -> Subject:
    spec = _spec(infrastructure)
    return Subject(
        namespace=objects.namespace(infrastructure),
        name=objects.name(infrastructure),
        cluster_name=place.cluster_name,
        uuid=identity.uuid_of(spec.provider_id or ""),
        spec=spec,
        cluster=place.cluster_spec,
        host=KVMHostSpec.model_validate(host.get("spec")),
        is_control_plane=clusterapi.is_control_plane(infrastructure),
    )


def _was_provisioned(infrastructure: Object) -> bool:
    return bool(objects.at(infrastructure, "status", "initialization", "provisioned"))


def _addresses(infrastructure: Object) -> tuple[str, ...]:
    known = objects.sequence(objects.at(infrastructure, "status", "addresses"))
    return tuple(str(each["address"]) for each in known if each.get("type") == "InternalIP")


def _known_address(infrastructure: Object) -> str:
    return next(iter(_addresses(infrastructure)), "")


def _version(machine: Object) -> str:
    return str(objects.at(machine, "spec", "version") or "")
