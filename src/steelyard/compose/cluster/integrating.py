"""What a cluster gets from other programs: which parts are composed for those that are enabled, and what they wait for.

A claim of revision v1 gets none; what is enabled and composed for nobody is told in a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from steelyard.api.clusterapi import wellknown
from steelyard.compose.composed import Condition, Desired, Observed
from steelyard.compose.integrations import argocd, cni
from steelyard.compose.shape import Shape
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.settings import Platform

MAKES: Final[tuple[Resource, ...]] = (argocd.APPLICATIONS,)
"""Besides Secrets: kinds of the programs' own."""
COMPOSED: Final = frozenset({"argocd"})
"""Integrations that this version composes objects for, as the platform file names them."""


@frozen
class Integrated:
    parts: dict[str, Desired] = field(default_factory=dict[str, Desired])
    retained: frozenset[str] = frozenset()
    """Parts that cannot be composed yet."""
    waiting_for: str = ""
    conditions: Sequence[Condition] = ()


def of(
    shape: Shape,
    claim: Object,
    platform: Platform,
    *,
    observed: Observed,
    machines: Sequence[Object],
    endpoint: str,
    kubeconfig: Object | None,
) -> Integrated:
    enabled = platform.integrations.enabled()
    has_any = shape.revision != "v1"
    missing = [name for name in enabled if not has_any or name not in COMPOSED]
    conditions = [*_not_composed(missing), *_no_network(shape, enabled)]
    settings = platform.integrations.argocd
    if not has_any or not settings.enabled:
        return Integrated(conditions=conditions)
    parts = argocd.registration(shape, claim, settings, kubeconfig)
    wanted = {argocd.CLUSTER}
    if shape.network.plugin:
        wanted.add(cni.NETWORK)
        addresses = tuple(_addresses(machines))
        parts |= cni.application(shape, claim, settings, endpoint=endpoint, control_plane=addresses)
    return Integrated(parts, frozenset(wanted - parts.keys()), _waiting_for(shape, wanted, parts, observed), conditions)


def _waiting_for(shape: Shape, wanted: set[str], parts: dict[str, Desired], observed: Observed) -> str:
    if argocd.CLUSTER in wanted and argocd.CLUSTER not in observed.resources:
        return "waiting for the cluster's registration with Argo CD"
    if cni.NETWORK not in wanted:
        return ""
    if cni.NETWORK not in parts:
        return f"waiting for what {shape.network.plugin} must be told: the addresses of the control plane"
    problem = argocd.waiting_for(observed.resources.get(cni.NETWORK))
    application = objects.qualified_name(parts[cni.NETWORK].object)
    return (
        f"waiting for Argo CD to install {shape.network.plugin} (Application {application}: {problem})"
        if problem
        else ""
    )


def _addresses(machines: Sequence[Object]) -> Iterator[str]:
    """Of the control plane's machines, sorted: the order in which they come must not change what is composed."""
    found = {
        str(objects.mapping(address).get("address"))
        for machine in machines
        if wellknown.CONTROL_PLANE_LABEL in objects.labels(machine) and not objects.is_being_deleted(machine)
        for address in objects.sequence(objects.at(machine, "status", "addresses"))
        if objects.mapping(address).get("type") == "InternalIP"
    }
    yield from sorted(found)


def _not_composed(missing: Sequence[str]) -> list[Condition]:
    if not missing:
        return []
    return [
        Condition(
            "Integrated",
            "False",
            "IntegrationNotAvailable",
            f"the platform file enables {', '.join(missing)}, for which this version of Steelyard composes nothing; "
            f"the cluster is not known there",
        )
    ]


def _no_network(shape: Shape, enabled: Sequence[str]) -> list[Condition]:
    """Nodes of such a cluster wait for somebody to bring a network."""
    if not shape.network.plugin or "argocd" in enabled:
        return []
    return [
        Condition(
            "NetworkInstalled",
            "Unknown",
            "NobodyInstallsIt",
            f"nothing here installs {shape.network.plugin}, without which no Node becomes Ready: enable "
            "integrations.argocd in the platform file, or install it in the cluster by hand",
        )
    ]
