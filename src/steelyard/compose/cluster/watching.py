"""What a claim for a cluster is looked at again for besides its own objects: its kubeconfig and its machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from steelyard.api import troubles
from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import names
from steelyard.compose.claimkind import ClaimKey, Watched
from steelyard.compose.cluster import effects
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

MACHINES: Final = effects.MACHINES
INDEXED: Final = ((resources.MACHINES, wellknown.CLUSTER_NAME_LABEL),)
_SHOWN: Final = 3


def of_kubeconfig(secret: Object) -> Iterable[ClaimKey]:
    cluster = objects.labels(secret).get(wellknown.CLUSTER_NAME_LABEL)
    is_kubeconfig = cluster is not None and objects.name(secret) == names.kubeconfig_secret(cluster)
    return [names.claim_of(objects.namespace(secret), cluster)] if cluster and is_kubeconfig else []


def of_machine(machine: Object) -> Iterable[ClaimKey]:
    cluster = objects.labels(machine).get(wellknown.CLUSTER_NAME_LABEL)
    return [names.claim_of(objects.namespace(machine), cluster)] if cluster else []


def has_machine_news(old: Object | None, new: Object | None) -> bool:
    """Only what a claim tells of a machine: that it came, went, became ready, or what is wrong with it."""
    if old is None or new is None:
        return True
    return (
        troubles.is_ready(old) != troubles.is_ready(new)
        or troubles.of(old) != troubles.of(new)
        or troubles.problem_of(old) != troubles.problem_of(new)
        or troubles.held_by(old) != troubles.held_by(new)
        or objects.is_being_deleted(old) != objects.is_being_deleted(new)
    )


WATCHES: Final = (
    Watched(SECRETS, of_kubeconfig),
    Watched(resources.MACHINES, of_machine, has_machine_news),
)


def left(required: Mapping[str, Sequence[Object]]) -> str:
    """The machines that are there while the cluster is being deleted."""
    machines = required.get(MACHINES, ())
    if not machines:
        return ""
    more = f" and {len(machines) - _SHOWN} more" if len(machines) > _SHOWN else ""
    return f"machines left: {', '.join(map(objects.name, machines[:_SHOWN]))}{more}"


effects_of: Final = effects.of
"""For the description of a kind, beside the rest that it takes from here."""
