"""Composes a cluster, whichever kind of claim asks for it: the settled wishes and what was observed in, objects,
conditions and the common part of the status out.

A kind of claim reads its own parameters, brings them into `Asked`, and adds to the status what only it reports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from steelyard.api.claims import SecretReference
from steelyard.api.clusterapi import resources, wellknown
from steelyard.compose import autoscaling, clusterapi, managed, names
from steelyard.compose.cluster import conditions, integrating, namesakes, progress, watching
from steelyard.compose.cluster import kubeconfig as kubeconfigs
from steelyard.compose.cluster.progress import Progress
from steelyard.compose.composed import Composed, Desired, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.integrations.subject import Subject
from steelyard.compose.shape import Shape
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

REVISION: Final = "v2"
"""The revision that new claims get. A change of what is composed is a new one, beside the old."""
REVISIONS: Final = frozenset({"v1", "v2"})


@frozen
class Asked:
    """What a claim asks for, each choice made."""

    shape: Shape
    infrastructure: Infrastructure
    parameters: Object
    """What is used for each parameter, as the status reports it."""
    counts: frozenset[str]
    """Those of the parameters whose change replaces no machine by itself, such as how many there are."""
    connection: SecretReference | None = None
    held_back: str = ""
    """Why the environment's version is not used, where it cannot be."""
    vault_path: str | None = None
    """Where in Vault the kubeconfig is to go, where the claim says so."""
    requirements: Mapping[str, Requirement] = field(default_factory=dict[str, Requirement])
    """What must be looked up to know which ranges are free."""
    without_effect: tuple[str, ...] = ()
    """What the claim says and this infrastructure or platform does not act on, a sentence each."""


def compose(claim: Object, asked: Asked, observed: Observed, platform: Platform) -> Composed:
    shape = asked.shape
    is_newer = shape.revision != "v1"
    if is_newer:
        namesakes.refuse_anothers(claim, observed, asked.infrastructure)
    desired = clusterapi.parts(shape, asked.infrastructure)
    kubeconfig = kubeconfigs.own(observed)
    machines = observed.required.get(watching.MACHINES, ())
    workers = tuple(map(clusterapi.workers, shape.pools))
    here = progress.of(desired, observed.resources, machines, workers=workers)
    refusal = kubeconfigs.not_to_pass_on(kubeconfig, here.endpoint)
    secret = None if refusal else kubeconfigs.secret(claim, asked.connection, shape, kubeconfig)
    integrated = integrating.of(
        Subject(
            shape=shape,
            claim=claim,
            infrastructure=asked.infrastructure,
            platform=platform,
            observed=observed,
            machines=machines,
            endpoint=here.endpoint,
            kubeconfig=None if refusal else kubeconfig,
            vault_path=asked.vault_path,
        )
    )
    desired |= integrated.parts
    if secret is not None:
        desired[CONNECTION] = secret
    waiting_for = (
        refusal
        or here.waiting_for
        or kubeconfigs.waiting_for(claim, asked.connection, shape, observed)
        or integrated.waiting_for
    )
    reported = conditions.of(
        claim, asked.parameters, asked.counts, here, waiting_for=waiting_for, held_back=asked.held_back
    )
    return Composed(
        desired=_with_readiness(desired, observed, here, workers),
        requirements={
            **asked.requirements,
            **(namesakes.requirements(claim, asked.infrastructure) if is_newer else {}),
            kubeconfigs.KUBECONFIG: Requirement(SECRETS, shape.namespace, names.kubeconfig_secret(shape.name)),
            watching.MACHINES: Requirement(
                resources.MACHINES, shape.namespace, label=(wellknown.CLUSTER_NAME_LABEL, shape.name)
            ),
            **integrated.requirements,
        },
        conditions=[
            *reported,
            *integrated.conditions,
            *autoscaling.conditions(shape.pools),
            *managed.not_in_force(asked.without_effect),
        ],
        status={**_status(asked, here, kubeconfig), **integrated.status},
        rolling=not (here.control_plane.complete and here.workers.complete),
        retained=integrated.retained | frozenset({CONNECTION} if secret is None and asked.connection else ()),
        waits_untold=integrated.waits_untold,
        takes_turns=bool(asked.requirements),
    )


def _with_readiness(
    desired: dict[str, Desired], observed: Observed, here: Progress, workers: Sequence[str]
) -> dict[str, Desired]:
    ready = {
        **dict.fromkeys(workers, here.workers.complete),
        clusterapi.INFRASTRUCTURE: here.infrastructure_provisioned,
        clusterapi.CONTROL_PLANE: here.control_plane.complete,
        clusterapi.CLUSTER: here.infrastructure_provisioned and here.control_plane_initialized and not here.trouble,
    }
    return {
        name: dataclasses.replace(part, ready=name in observed.resources and ready.get(name, True))
        for name, part in desired.items()
    }


def _status(asked: Asked, here: Progress, kubeconfig: Object | None) -> Object:
    shape = asked.shape
    status: Object = {
        "parameters": asked.parameters,
        "compositionRevision": shape.revision,
        "clusterRef": {"name": shape.name, "namespace": shape.namespace},
        "controlPlane": here.control_plane.to_json(),
        "workers": here.workers.to_json(),
    }
    if here.endpoint:
        status["endpoint"] = here.endpoint
    if kubeconfig is not None:
        status["kubeconfigSecret"] = {"name": objects.name(kubeconfig), "namespace": objects.namespace(kubeconfig)}
    return status
