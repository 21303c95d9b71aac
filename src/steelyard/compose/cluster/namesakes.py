"""A namespace has one cluster of a name, whichever kind of claim asks for it, and whatever its machines are made of.

Clusters of different kinds would be called the same: in the claim's namespace, in Argo CD, in Backstage, in Vault. So a
claim whose name is taken is refused before anything is made for it.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.clusterapi import resources
from steelyard.compose import names
from steelyard.compose.composed import Observed, Requirement
from steelyard.compose.infrastructure import Infrastructure
from steelyard.compose.refusing import Refused
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES

_NAMESPACE: Final = "namesake"
_CLUSTER: Final = "namesake-cluster"


def requirements(claim: Object, infrastructure: Infrastructure) -> dict[str, Requirement]:
    """The place that is the cluster's, always; before it is made also the one that it would have elsewhere."""
    namespace, name = objects.namespace(claim), objects.name(claim)
    places = {
        _NAMESPACE: Requirement(NAMESPACES, "", names.external(namespace, name)),
        _CLUSTER: Requirement(resources.CLUSTERS, namespace, name),
    }
    if objects.at(claim, "status", "parameters") is None:
        return places
    own = _NAMESPACE if infrastructure.has_namespace else _CLUSTER
    return {own: places[own]}


def refuse_anothers(claim: Object, observed: Observed, infrastructure: Infrastructure) -> None:
    """Raises `Refused` where another claim's cluster has one of the places, or the namespace is anybody else's."""
    for place in (_NAMESPACE, _CLUSTER):
        found = observed.one(place)
        if found is None or objects.matches(names.claim_labels(claim), found):
            continue
        labels = objects.labels(found)
        if names.CLAIM_KIND in labels:
            raise Refused(
                "NameTaken",
                f"{labels[names.CLAIM_KIND]} {labels.get(names.CLAIM_NAMESPACE)}/{labels.get(names.CLAIM_NAME)} has a "
                f"cluster of this name already, {found['kind']} {objects.qualified_name(found)}; make a claim with "
                "another name",
            )
        if place == _NAMESPACE and infrastructure.has_namespace:
            raise Refused(
                "NamespaceTaken",
                f"the cluster's namespace would be {objects.name(found)}, which was not made for this claim; delete "
                "it, or make a claim with another name",
            )
