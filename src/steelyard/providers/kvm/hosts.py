"""KVMHost: whether a host can be used, what it has, and what of it is promised.

A host that does not answer is told as such and asked again; its machines are left as they are. It goes only when no
machine or cluster is on it any more.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.kvmhost import KVMHostSpec
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions, finalizers, patching
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.controller import Result
from steelyard.kube.runtime.keys import Key
from steelyard.providers.kvm import placing, probe
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt import hosts
from steelyard.providers.kvm.libvirt.connection import Connection
from steelyard.providers.kvm.libvirt.hosts import Facts
from steelyard.providers.kvm.libvirt.problems import Problem
from steelyard.providers.kvm.pace import STEADY, Pace
from steelyard.providers.kvm.placing import Host
from steelyard.providers.kvm.probe import Found

FINALIZER: Final = "kvmhost.infrastructure.cluster.x-k8s.io"
VIRTUALIZATION: Final = "HardwareVirtualization"
_EMULATED: Final = "machines there are emulated, and many times slower: "


class KVMHostReconciler:
    def __init__(self, client: CachedClient, fleet: Fleet, clock: Clock, *, token: str, pace: Pace = STEADY) -> None:
        """`token` tells this platform from others on the same hosts."""
        self._client = client
        self._fleet = fleet
        self._clock = clock
        self._token = token
        self._pace = pace
        self._tried: set[str] = set()
        """Those on which a guest was run by this process."""

    async def reconcile(self, key: Key) -> Result:
        try:
            host = await self._client.get(KVM_HOSTS, key.name)
        except errors.NotFound:
            self._fleet.forget(key.name)
            self._tried.discard(key.name)
            return Result()
        if objects.is_being_deleted(host):
            return await self._delete(host)
        host = await finalizers.ensure(self._client, KVM_HOSTS, host, FINALIZER)
        connection = self._fleet.connection(host)
        try:
            facts = await hosts.facts(connection)
            found = await self._probe(host, connection, facts)
        except Problem as problem:
            text = f"{problem}. Its machines are left as they are"
            await self._report(host, conditions.set_(host, "Ready", False, "Away", text, now=self._clock.now()), None)
            return Result(requeue_after=self._pace.host_retry)
        await self._report(host, self._told(host, found), facts, found)
        return Result(requeue_after=self._pace.hosts if found.virtualization else self._pace.host_retry * 4)

    async def _probe(self, host: Object, connection: Connection, facts: Facts) -> Found:
        """Once for each spec; again after the host was away, and where hardware could help by now."""
        known = self._recorded(host)
        spec = KVMHostSpec.model_validate(host["spec"])
        could_help = known is not None and known.virtualization == "emulated" and not probe.obstacle(facts, spec)
        if known is not None and (not could_help or objects.name(host) in self._tried):
            return known
        self._tried.add(objects.name(host))
        return await probe.probe(connection, facts, spec, token=f"{self._token}/{objects.name(host)}")

    def _recorded(self, host: Object) -> Found | None:
        """What was found out before, also by an earlier process."""
        ready = conditions.find(host, "Ready")
        kind = objects.at(host, "status", "virtualization")
        if ready is None or ready["status"] != "True" or ready.get("observedGeneration") != objects.generation(host):
            return None
        if kind == "hardware":
            return Found("hardware")
        said = conditions.message_of(host, VIRTUALIZATION)
        return Found("emulated", said.removeprefix(_EMULATED)) if kind == "emulated" else None

    def _told(self, host: Object, found: Found) -> list[Object]:
        now, generation = self._clock.now(), objects.generation(host)
        if found.virtualization is None:
            text = f"no guest runs there: {found.problem}"
            return conditions.set_(host, "Ready", False, "NoGuestRuns", text, now=now, observed_generation=generation)
        told = conditions.set_(host, "Ready", True, "Ready", now=now, observed_generation=generation)
        if found.virtualization == "hardware":
            return conditions.set_(told, VIRTUALIZATION, True, "Hardware", now=now, observed_generation=generation)
        text = f"{_EMULATED}{found.problem}"
        return conditions.set_(told, VIRTUALIZATION, False, "Emulated", text, now=now, observed_generation=generation)

    async def _report(self, host: Object, told: list[Object], facts: Facts | None, found: Found | None = None) -> None:
        status: Object = {**objects.mapping(host.get("status")), "conditions": told}
        machines = (await self._client.list(KVM_MACHINES)).items
        promised = Host.of(host, machines)
        status["used"] = {
            "cpu": promised.used.cpus,
            "memoryBytes": promised.used.memory,
            "diskBytes": promised.used.disk,
            "machines": promised.machines,
        }
        if facts is not None:
            status["there"] = {"cpu": facts.cpus, "memoryBytes": facts.memory}
        if found is not None and found.virtualization is not None:
            status["virtualization"] = found.virtualization
        await patching.patch_status(self._client, KVM_HOSTS, host, status)

    async def _delete(self, host: Object) -> Result:
        if not finalizers.has(host, FINALIZER):
            return Result()
        name = objects.name(host)
        on_it = [
            objects.qualified_name(each)
            for resource in (KVM_MACHINES, KVM_CLUSTERS)
            for each in (await self._client.list(resource)).items
            if objects.at(each, "spec", "host") == name and placing.is_accepted(each)
        ]
        if on_it:
            text = f"it is being deleted, and goes when nothing is on it any more: {', '.join(sorted(on_it)[:10])}"
            told = conditions.set_(host, "Ready", False, "Deleting", text, now=self._clock.now())
            await self._report(host, told, None)
            return Result(requeue_after=self._pace.hosts)
        self._fleet.forget(name)
        await finalizers.remove(self._client, KVM_HOSTS, host, FINALIZER)
        return Result()
