"""Two KVMMachines that name the same domain, or whose hardware addresses would be the same: whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.providers.kvm import identity, indexes, placing
from steelyard.providers.kvm.refusals import Refused


def new_identity(machines: Sequence[Object]) -> str:
    """One whose hardware address no other machine has: that is shorter than the UUID."""
    taken = {identity.mac(identity.uuid_of(each)) for machine in machines for each in indexes.provider_ids(machine)}
    while True:
        uuid = identity.new_uuid()
        if identity.mac(uuid) not in taken:
            return identity.provider_id(uuid)


def refuse_if_anothers(infrastructure: Object, same: Iterable[Object]) -> None:
    """`same` are those that name the same domain: it is that of the one that was accepted, or of the older one. What
    the domain itself says is seen later. Raises Refused."""
    for other in same:
        if objects.uid(other) != objects.uid(infrastructure) and _age(other) < _age(infrastructure):
            raise Refused(
                "ProviderIDTaken",
                f"spec.providerID is that of another KVMMachine, {objects.qualified_name(other)}: delete this one",
            )


def refuse_twin(infrastructure: Object, machines: Sequence[Object]) -> None:
    """Where another machine has the hardware address that follows from a given UUID. Raises Refused."""
    (own,) = indexes.provider_ids(infrastructure)
    for other in machines:
        for known in indexes.provider_ids(other):
            is_twin = identity.mac(identity.uuid_of(known)) == identity.mac(identity.uuid_of(own))
            if is_twin and known != own and placing.is_accepted(other):
                raise Refused(
                    "ProviderIDTaken",
                    "the hardware address that follows from spec.providerID is another machine's: make this KVMMachine "
                    "again without it, and one is chosen",
                )


def _age(infrastructure: Object) -> tuple[bool, str, str]:
    """What was accepted comes before what was not."""
    created = str(objects.metadata(infrastructure).get("creationTimestamp") or "")
    return not placing.is_accepted(infrastructure), created, objects.uid(infrastructure)
