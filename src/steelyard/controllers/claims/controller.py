"""When a claim is looked at: when it changes, when one of its objects does, and when what its kind watches does."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Sequence

from steelyard.compose import names
from steelyard.compose.claimkind import ClaimKind, Watched
from steelyard.compose.offering import Offering
from steelyard.controllers.claims import conditions, rights
from steelyard.controllers.claims.lookup import Lookup
from steelyard.kube import objects, permits
from steelyard.kube.objects import Object
from steelyard.kube.permits import Permit
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import triggers
from steelyard.kube.runtime.controller import Controller, Reconciler, Watch
from steelyard.kube.runtime.deferred import Deferred
from steelyard.kube.runtime.events import Recorder
from steelyard.kube.runtime.informer import Informer
from steelyard.kube.runtime.keys import Key
from steelyard.kube.runtime.manager import Manager
from steelyard.settings import Platform

WORKERS = 8


def controllers(
    manager: Manager, platform: Platform, offering: Offering, *, workers: int = WORKERS
) -> Sequence[Controller]:
    """One for each kind of claim, for `manager.add`."""
    turns = asyncio.Lock()
    return [_controller(manager, platform, kind, workers, turns) for kind in offering.kinds]


def _controller(manager: Manager, platform: Platform, kind: ClaimKind, workers: int, turns: asyncio.Lock) -> Controller:
    resource = kind.resource(platform.domain)
    lookup = Lookup(manager.client, manager.informers)
    for required, label in kind.indexed:
        lookup.index(required, label)

    def reconciler() -> Reconciler:
        from steelyard.controllers.claims.reconcile import ClaimReconciler

        return ClaimReconciler(
            manager.client,
            resource,
            kind,
            platform,
            lookup=lookup,
            rights=rights.Rights(manager.client, platform),
            recorder=Recorder(manager.client, "steelyard-claims", clock=manager.clock),
            clock=manager.clock,
            turns=turns,
        )

    return Controller(
        resource.plural,
        resource,
        Deferred(reconciler),
        watches(kind, resource, manager.informers.of(resource)),
        workers=workers,
        failure_condition=conditions.SYNCED,
    )


def needed(platform: Platform, offering: Offering) -> list[Permit]:
    """What these controllers must be allowed to do, as the descriptions of the kinds have it."""
    kinds = offering.kinds
    own = [kind.resource(platform.domain) for kind in kinds]
    looked_at = [each for kind in kinds for each in (*kind.requires, *(watched.resource for watched in kind.watches))]
    return [
        *permits.reports(*own),
        *permits.only(("delete",), *own),
        *permits.makes(*(each for kind in kinds for each in kind.makes)),
        *permits.reads(*looked_at, *(resource for kind in kinds for resource, _ in kind.indexed)),
        *(each for infrastructure in offering.infrastructures for each in infrastructure.hands_on),
        *permits.only(("create",), rights.REVIEWS),
    ]


def watches(kind: ClaimKind, resource: Resource, claims: Informer) -> list[Watch]:
    own = functools.partial(claim_of, kind=resource.kind)
    made = (
        Watch(each, own, label=names.CLAIM_KIND, optional=each in kind.foreign, after=triggers.REPORT_AFTER)
        for each in kind.makes
    )
    return [*made, *(_watch(each, claims) for each in kind.watches)]


def claim_of(obj: Object, *, kind: str) -> Iterable[Key]:
    """The claim that an object was made for."""
    labels = objects.labels(obj)
    if labels.get(names.CLAIM_KIND) != kind:
        return []
    return [Key(labels.get(names.CLAIM_NAMESPACE, ""), labels.get(names.CLAIM_NAME, ""))]


def _watch(watched: Watched, claims: Informer) -> Watch:
    def mapper(obj: Object) -> Iterable[Key]:
        """Several kinds watch the same; what concerns a claim of another is left to that."""
        keys = (Key(namespace, name) for namespace, name in watched.claims(obj))
        return [key for key in keys if claims.get(*key) is not None]

    return Watch(watched.resource, mapper, watched.matters, after=triggers.REPORT_AFTER)
