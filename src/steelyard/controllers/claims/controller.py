"""When a claim is looked at: when it changes, when one of its objects does, and when its cluster's machines do."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from steelyard.api import resources, troubles
from steelyard.api.clusterapi import resources as clusterapi_resources
from steelyard.compose import names, workloadcluster
from steelyard.compose.composed import Composed, Observed
from steelyard.controllers.claims import conditions
from steelyard.controllers.claims.lookup import Lookup
from steelyard.controllers.claims.reconcile import ClaimReconciler
from steelyard.controllers.claims.rights import Rights
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import mapping
from steelyard.kube.runtime.controller import Controller, Watch
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.settings import Platform

WORKERS = 8


def controller(manager: Manager, platform: Platform, *, workers: int = WORKERS) -> Controller:
    """The controller of WorkloadCluster claims, for `manager.add`."""
    resource = resources.workload_clusters(platform.domain)
    lookup = Lookup(manager.client, manager.informers)
    lookup.index(clusterapi_resources.MACHINES)
    reconciler = ClaimReconciler(
        manager.client,
        resource,
        functools.partial(_compose, platform=platform),
        workloadcluster.RESOURCES,
        lookup=lookup,
        rights=Rights(manager.client, platform),
        recorder=Recorder(manager.client, "steelyard-claims", clock=manager.clock),
        clock=manager.clock,
    )
    return Controller(
        "claims", resource, reconciler, watches(resource), workers=workers, failure_condition=conditions.SYNCED
    )


def watches(resource: Resource) -> list[Watch]:
    to_claim = functools.partial(claim_of, kind=resource.kind)
    return [
        *(Watch(each, to_claim) for each in workloadcluster.RESOURCES if each != SECRETS),
        Watch(SECRETS, functools.partial(claims_of_secret, kind=resource.kind)),
        Watch(clusterapi_resources.MACHINES, mapping.to_label(names.CLUSTER_NAME), has_machine_news),
    ]


def claim_of(obj: Object, *, kind: str) -> Iterable[Key]:
    labels = objects.labels(obj)
    if labels.get(names.CLAIM_KIND) != kind:
        return []
    return [Key(labels.get(names.CLAIM_NAMESPACE, ""), labels.get(names.CLAIM_NAME, ""))]


def claims_of_secret(secret: Object, *, kind: str) -> Iterable[Key]:
    """A claim's own connection Secret, or the kubeconfig of its cluster, which is called as the claim."""
    cluster = objects.labels(secret).get(names.CLUSTER_NAME)
    if cluster and objects.name(secret) == names.kubeconfig_secret(cluster):
        return [Key(objects.namespace(secret), cluster)]
    return claim_of(secret, kind=kind)


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


def _compose(claim: Object, observed: Observed, *, platform: Platform) -> Composed:
    return workloadcluster.compose(claim, observed, platform)
