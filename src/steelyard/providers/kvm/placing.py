"""Which host a cluster or machine goes to, and if none, why. Pure, but for noting it.

The first, by name, that is ready, allows the namespace, has what is asked for, and has room for it.

A spec can name any host, and anybody who may write one could fill all hosts with words. So what counts is what was
judged: the provider notes that in the status, which tenants do not write.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard.api.kvm import KVMMachineSpec
from steelyard.api.kvmhost import KVMHostSpec
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import conditions, patching
from steelyard.providers.kvm import allowed, sizes
from steelyard.providers.kvm.addresses import PREFIX
from steelyard.providers.kvm.refusals import Refused

CPU_OVERCOMMIT: Final = 8.0
MEMORY_OVERCOMMIT: Final = 1.0
_OVERHEAD: Final = 256 << 20
"""Bytes that QEMU takes besides what its guest sees; the host needs them too."""


@frozen
class Need:
    cpus: int = 0
    memory: int = 0
    disk: int = 0
    """Bytes."""

    def __add__(self, other: Need) -> Need:
        return Need(self.cpus + other.cpus, self.memory + other.memory, self.disk + other.disk)

    @classmethod
    def of(cls, spec: KVMMachineSpec) -> Need:
        return cls(spec.resources.cpu, sizes.in_bytes(spec.resources.memory), sizes.of_disks(spec).total)


def is_accepted(obj: Object) -> bool:
    """Of a KVMMachine or KVMCluster. What was provisioned by an earlier version has been judged as well."""
    return bool(objects.at(obj, "status", "accepted") or objects.at(obj, "status", "initialization", "provisioned"))


async def accept(client: Client, resource: Resource, obj: Object) -> Object:
    if is_accepted(obj):
        return obj
    return await patching.patch_status(client, resource, obj, {**objects.mapping(obj.get("status")), "accepted": True})


def _promised(machine: Object) -> KVMMachineSpec:
    """What of its spec counts; the rest may be changed to anything."""
    spec = objects.mapping(machine.get("spec"))
    return KVMMachineSpec.model_validate({key: spec[key] for key in ("resources", "etcdVolume") if key in spec})


@frozen
class Host:
    """A KVMHost, and what is promised of it already."""

    name: str
    spec: KVMHostSpec
    is_ready: bool
    problem: str
    """Where it is not ready."""
    cpus: int
    memory: int
    """That it has, as libvirt sees it."""
    used: Need
    machines: int

    @classmethod
    def of(cls, host: Object, machines: Iterable[Object]) -> Host:
        """`machines` are KVMMachines, on whichever host."""
        name = objects.name(host)
        here = [each for each in machines if objects.at(each, "spec", "host") == name and is_accepted(each)]
        used = Need()
        for each in here:
            used += Need.of(_promised(each))
        there = objects.mapping(objects.at(host, "status", "there"))
        is_ready = conditions.is_true(host, "Ready") and not objects.is_being_deleted(host)
        leaving = "it is being deleted" if objects.is_being_deleted(host) else ""
        return cls(
            objects.name(host),
            KVMHostSpec.model_validate(host.get("spec")),
            is_ready,
            leaving or conditions.message_of(host, "Ready") or "nothing has been heard of it yet",
            int(there.get("cpu") or 0),
            int(there.get("memoryBytes") or 0),
            used,
            len(here),
        )

    @property
    def cores(self) -> float:
        """That may be promised."""
        capacity, often = self.spec.capacity, self.spec.overcommit
        there = capacity.cpu if capacity is not None and capacity.cpu else self.cpus
        return there * (often.cpu if often is not None and often.cpu else CPU_OVERCOMMIT)

    @property
    def bytes_of_memory(self) -> float:
        capacity, often = self.spec.capacity, self.spec.overcommit
        there = capacity.memory_gi << 30 if capacity is not None and capacity.memory_gi else self.memory
        return there * (often.memory if often is not None and often.memory else MEMORY_OVERCOMMIT)

    def lacks(self, need: Need) -> str:
        """What there is too little of, in words; empty where it fits."""
        if self.used.cpus + need.cpus > self.cores:
            return (
                f"{self.used.cpus} of {self.cores:g} cores are promised, and {need.cpus} are asked for (overcommit.cpu "
                "says how often each is)"
            )
        memory = self.used.memory + need.memory + _OVERHEAD * (self.machines + 1)
        if memory > self.bytes_of_memory:
            return (
                f"{_gib(self.used.memory)} of {_gib(self.bytes_of_memory)} GiB of memory are promised, "
                f"{_gib(need.memory)} are asked for, and each machine takes {_gib(_OVERHEAD)} besides"
            )
        limit = self.spec.capacity.disk_gi if self.spec.capacity is not None else None
        if limit is not None and self.used.disk + need.disk > limit << 30:
            return f"{_gib(self.used.disk)} of {limit} GiB of disks are promised, and {_gib(need.disk)} are asked for"
        return ""


def for_cluster(hosts: Sequence[Host], namespace: str) -> Host:
    """For a cluster with a network of its own; raises Refused."""
    return _first(hosts, lambda host: _against(host, namespace) or _no_network(host))


def for_machine(hosts: Sequence[Host], namespace: str, need: Need, *, on: str, bridge: str) -> Host:
    """`on` is the only host that comes into question, where a cluster has its network there."""
    candidates = [each for each in hosts if not on or each.name == on]
    if on and not candidates:
        raise Refused("NoHost", f"the cluster's network is on KVMHost {on}, which does not exist: bring it back")

    def against(host: Host) -> str:
        return _against(host, namespace) or _no_bridge(host, namespace, bridge) or host.lacks(need)

    return _first(candidates, against)


def _first(hosts: Sequence[Host], against: Callable[[Host], str]) -> Host:
    reasons: list[str] = []
    for host in sorted(hosts, key=lambda each: each.name):
        reason = against(host)
        if not reason:
            return host
        reasons.append(f"{host.name}: {reason}")
    if not reasons:
        raise Refused("NoHost", "there is no KVMHost: name one under kvm.hosts of the platform file, or create one")
    raise Refused("NoHost", f"no KVMHost fits. {'; '.join(reasons)}")


def _against(host: Host, namespace: str) -> str:
    if not allowed.serves(host.spec, namespace):
        return f"its namespaces do not name {namespace}"
    return "" if host.is_ready else f"it is not ready ({host.problem})"


def _no_network(host: Host) -> str:
    ranges = [ipaddress.ip_network(each, strict=False) for each in host.spec.networks.ranges or ()]
    if any(each.version == 4 and each.prefixlen <= PREFIX for each in ranges):
        return ""
    return f"networks.ranges has no range of IPv4 addresses that a /{PREFIX} could be cut from"


def _no_bridge(host: Host, namespace: str, bridge: str) -> str:
    if not bridge or allowed.bridge(host.spec, namespace, bridge):
        return ""
    return f"its networks.bridges do not allow {bridge} to namespace {namespace}"


def _gib(size: float) -> str:
    return f"{size / (1 << 30):.1f}".removesuffix(".0")
