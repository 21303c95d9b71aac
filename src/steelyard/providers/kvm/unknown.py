"""Machines that run on hosts and that a restored state does not know: told, never removed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from steelyard.api.resources import KVM_HOSTS, KVM_MACHINES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.providers.kvm import identity
from steelyard.providers.kvm.documents import domains as domain_documents
from steelyard.providers.kvm.fleet import Fleet
from steelyard.providers.kvm.libvirt import domains
from steelyard.providers.kvm.libvirt.problems import Problem
from steelyard.providers.toolkit.provider import World


def machines(world: World) -> Sequence[str]:
    """As `namespace/name (domain on host)`. A host that does not answer is named as well: what runs there is not
    known."""
    hosts = world.restored(KVM_HOSTS)
    if not hosts:
        return ()
    known = {
        identity.uuid_of(str(objects.at(each, "spec", "providerID") or "")) for each in world.restored(KVM_MACHINES)
    }
    found: list[str] = []
    # Whoever restores may have an event loop of its own.
    asking = threading.Thread(target=lambda: found.extend(asyncio.run(asked(hosts, known, Fleet()))))
    asking.start()
    asking.join()
    return sorted(found)


async def asked(hosts: Sequence[Object], known: set[str], fleet: Fleet) -> list[str]:
    found: list[str] = []
    try:
        for host in hosts:
            try:
                there = await domains.all_of(fleet.connection(host))
            except Problem as problem:
                found.append(f"those on KVMHost {objects.name(host)}, which does not answer ({problem})")
                continue
            for domain in there:
                owner = domain_documents.owner_of(domain.xml)
                if owner is not None and domain.uuid not in known:
                    found.append(f"{owner.namespace}/{owner.name} ({domain.name} on {objects.name(host)})")
    finally:
        await fleet.close()
    return found
