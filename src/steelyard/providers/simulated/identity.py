"""Whose a simulated world is: the identities of clusters and machines, which outlive the objects that stand for them.

An object gets another UID when it is moved to another API or restored. So the first UID is recorded, of a cluster in an
annotation and of a machine in its provider ID, and the insides of clusters are kept under that.

Whoever may write such an object could name another's identity in it. Of several it is that of the one whose UID it is,
else of the one that was there first; the others get nothing of it, and erase nothing. Nor does an identity make a
world: where the provider has nothing of it, the machines are in the folder of another.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.resources import SIMULATED_CLUSTERS
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.server.hosting import Hosting

ANNOTATION: Final = "simulated.steelyard.dev/identity"
_SCHEME: Final = "simulated://"


def of_cluster(infrastructure: Object) -> str:
    return objects.annotations(infrastructure).get(ANNOTATION) or objects.uid(infrastructure)


def is_elsewhere(infrastructure: Object, hosting: Hosting) -> bool:
    """Whether the cluster was moved here, and its machines are not: an API made anew would be an empty one."""
    named = of_cluster(infrastructure)
    return named != objects.uid(infrastructure) and not hosting.holds(named)


def of_machine(infrastructure: Object) -> str:
    recorded = str(objects.at(infrastructure, "spec", "providerID") or "")
    return recorded.removeprefix(_SCHEME) or objects.uid(infrastructure)


def provider_id(infrastructure: Object) -> str:
    return f"{_SCHEME}{of_machine(infrastructure)}"


def was_moved(machine: Object) -> bool:
    """Whether it began its life as another object. It has joined its cluster then: nothing that boots is moved."""
    return of_machine(machine) != objects.uid(machine)


async def is_anothers(client: Client, infrastructure: Object) -> bool:
    """Whether the identity that a cluster names belongs to another one of this API."""
    own, named = objects.uid(infrastructure), of_cluster(infrastructure)
    if own == named:
        return False
    others = [each for each in (await client.list(SIMULATED_CLUSTERS)).items if objects.uid(each) != own]
    rivals = [each for each in others if of_cluster(each) == named]
    return any(objects.uid(each) == named or _age(each) < _age(infrastructure) for each in rivals)


def _age(infrastructure: Object) -> tuple[str, str]:
    return str(objects.metadata(infrastructure).get("creationTimestamp") or ""), objects.uid(infrastructure)
