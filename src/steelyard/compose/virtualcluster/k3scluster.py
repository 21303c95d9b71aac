"""Composes a cluster of k3s servers in virtual machines that KubeVirt runs.

Nobody has to fetch a kubeconfig out of a machine: the platform makes the cluster's authorities, hands them to the
servers, and signs the administrator's kubeconfig itself (`controllers/virtualclusters`).
"""

from __future__ import annotations

import dataclasses
from typing import Final

from steelyard.api.k3s import VIRTUAL_MACHINES
from steelyard.compose import names
from steelyard.compose.cluster import conditions, integrating, namesakes
from steelyard.compose.cluster import kubeconfig as kubeconfigs
from steelyard.compose.cluster.composing import Asked
from steelyard.compose.cluster.progress import Progress
from steelyard.compose.clusterapi import NAMESPACE
from steelyard.compose.composed import Composed, Desired, Observed, Requirement
from steelyard.compose.connection import CONNECTION
from steelyard.compose.integrations.subject import Subject
from steelyard.compose.virtualcluster import progress, servers
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.settings import Platform

_MAKERS: Final = (NAMESPACE,)
"""What the kubeconfig's Secret is controlled by."""


def compose(claim: Object, asked: Asked, ingress_class: str, observed: Observed, platform: Platform) -> Composed:
    shape = asked.shape
    namesakes.refuse_anothers(claim, observed, asked.infrastructure)
    desired = servers.parts(shape, platform, ingress_class, observed)
    here = progress.of(desired, observed)
    kubeconfig = kubeconfigs.own(observed, _MAKERS)
    refusal = kubeconfigs.not_to_pass_on(kubeconfig, here.endpoint)
    secret = None if refusal else kubeconfigs.secret(claim, asked.connection, shape, kubeconfig)
    integrated = integrating.of(
        Subject(
            shape=shape,
            claim=claim,
            infrastructure=asked.infrastructure,
            platform=platform,
            observed=observed,
            machines=(),
            endpoint=here.endpoint,
            kubeconfig=None if refusal else kubeconfig,
            is_told_at_first=True,
            has_door=False,
        )
    )
    desired |= integrated.parts
    if secret is not None:
        desired[CONNECTION] = secret
    waiting_for = (
        refusal
        or here.waiting_for
        or kubeconfigs.waiting_for(claim, asked.connection, shape, observed, _MAKERS)
        or integrated.waiting_for
    )
    reported = conditions.of(
        claim, asked.parameters, asked.counts, here, waiting_for=waiting_for, held_back=asked.held_back
    )
    return Composed(
        desired=_with_readiness(desired, observed, here),
        requirements={
            kubeconfigs.KUBECONFIG: Requirement(SECRETS, shape.namespace, names.kubeconfig_secret(shape.name)),
            **namesakes.requirements(claim, asked.infrastructure),
            **integrated.requirements,
        },
        conditions=[*reported, *integrated.conditions],
        status={**_status(asked, here, kubeconfig, platform), **integrated.status},
        retained=integrated.retained | frozenset({CONNECTION} if secret is None and asked.connection else ()),
        waits_untold=integrated.waits_untold,
    )


def _with_readiness(desired: dict[str, Desired], observed: Observed, here: Progress) -> dict[str, Desired]:
    def is_ready(name: str, part: Desired) -> bool:
        found = observed.resources.get(name)
        if found is None:
            return False
        if name == servers.API:
            return bool(here.endpoint)
        return part.resource != VIRTUAL_MACHINES or objects.at(found, "status", "ready") is True

    return {name: dataclasses.replace(part, ready=is_ready(name, part)) for name, part in desired.items()}


def _status(asked: Asked, here: Progress, kubeconfig: Object | None, platform: Platform) -> Object:
    shape = asked.shape
    status: Object = {
        "parameters": asked.parameters,
        "compositionRevision": shape.revision,
        "release": platform.kubevirt.k3s.release(shape.version),
        "controlPlane": here.control_plane.to_json(),
    }
    if here.endpoint:
        status["endpoint"] = here.endpoint
    if kubeconfig is not None:
        status["kubeconfigSecret"] = {"name": objects.name(kubeconfig), "namespace": objects.namespace(kubeconfig)}
    return status
