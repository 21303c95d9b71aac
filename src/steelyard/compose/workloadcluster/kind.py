"""The description of the kind: what `claimkind.py` asks of every kind, said of WorkloadCluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

from steelyard.api import troubles, workloadcluster
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.api.clusterapi import wellknown
from steelyard.compose import clusterapi, names
from steelyard.compose.claimkind import ClaimKey, ClaimKind, Watched
from steelyard.compose.composed import Composed
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.workloadcluster import composing, effects
from steelyard.compose.workloadcluster.guide import GUIDE
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

_SHOWN = 3


def claim_kind(infrastructures: Sequence[Infrastructure]) -> ClaimKind:
    own = (resource for each in infrastructures for resource in (each.cluster, each.template))
    return ClaimKind(
        noun="cluster",
        nouns="clusters",
        definition=functools.partial(workloadcluster.kind, offered=tuple(each.name for each in infrastructures)),
        parameters=workloadcluster.Parameters,
        compose=functools.partial(composing.compose, infrastructures={each.name: each for each in infrastructures}),
        guide=GUIDE,
        makes=(*own, *clusterapi.MAKES, SECRETS),
        watches=(
            Watched(SECRETS, _of_kubeconfig),
            Watched(clusterapi_resources.MACHINES, _of_machine, has_machine_news),
        ),
        indexed=((clusterapi_resources.MACHINES, wellknown.CLUSTER_NAME_LABEL),),
        left=_left,
        effects=_effects,
    )


def _of_kubeconfig(secret: Object) -> Iterable[ClaimKey]:
    """The cluster, and with it the claim, has its name in a label."""
    cluster = objects.labels(secret).get(wellknown.CLUSTER_NAME_LABEL)
    is_kubeconfig = cluster is not None and objects.name(secret) == names.kubeconfig_secret(cluster)
    return [(objects.namespace(secret), cluster)] if cluster and is_kubeconfig else []


def _of_machine(machine: Object) -> Iterable[ClaimKey]:
    cluster = objects.labels(machine).get(wellknown.CLUSTER_NAME_LABEL)
    return [(objects.namespace(machine), cluster)] if cluster else []


def has_machine_news(old: Object | None, new: Object | None) -> bool:
    """Only what a claim tells of a machine: that it came, went, became ready, or what is wrong with it."""
    if old is None or new is None:
        return True
    return (
        troubles.is_ready(old) != troubles.is_ready(new)
        or troubles.of(old) != troubles.of(new)
        or troubles.problem_of(old) != troubles.problem_of(new)
        or objects.is_being_deleted(old) != objects.is_being_deleted(new)
    )


def _left(required: Mapping[str, Sequence[Object]]) -> str:
    machines = required.get(composing.MACHINES, ())
    if not machines:
        return ""
    more = f" and {len(machines) - _SHOWN} more" if len(machines) > _SHOWN else ""
    return f"machines left: {', '.join(map(objects.name, machines[:_SHOWN]))}{more}"


def _effects(before: Composed, after: Composed, required: Mapping[str, Sequence[Object]]) -> Sequence[str]:
    return effects.of(before, after, required.get(composing.MACHINES, ()))
