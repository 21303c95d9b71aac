"""Objects inside a cluster, delivered by a ClusterResourceSet of Cluster API: one Secret with the manifests beside the
Cluster, and the set that says into which cluster they go.

Cluster API applies them as soon as the cluster's API answers, before any Node is ready, and again when they change. It
needs nothing else: no chart, no repository, and not the network that it may be the one to bring. What is inside goes
with the cluster.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from steelyard.api import troubles
from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SETS
from steelyard.compose.composed import Desired, Observed
from steelyard.compose.parts import of_cluster
from steelyard.compose.shape import Shape
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

_APPLIED: Final = "ResourcesApplied"


def resource_name(what: str) -> str:
    """Of the set."""
    return f"inside-{what}"


def manifests_name(what: str) -> str:
    """Resource name of the Secret."""
    return f"{resource_name(what)}-manifests"


def delivered(shape: Shape, what: str, manifests: Mapping[str, str]) -> dict[str, Desired]:
    """`manifests` by a key for each, YAML or JSON; `what` tells one delivery of a cluster from its others."""
    name = f"{shape.name}-{what}"
    secret: Object = {
        **of_cluster(shape, SECRETS, name),
        "type": wellknown.RESOURCE_SET_SECRET_TYPE,
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in manifests.items()},
    }
    spec: Object = {
        "clusterSelector": {"matchLabels": {wellknown.CLUSTER_NAME_LABEL: shape.name}},
        "resources": [{"kind": SECRETS.kind, "name": name}],
        # The other strategy never changes what is there already, such as the Corefile that kubeadm writes.
        "strategy": "Reconcile",
    }
    return {
        manifests_name(what): Desired(SECRETS, secret),
        resource_name(what): Desired(CLUSTER_RESOURCE_SETS, of_cluster(shape, CLUSTER_RESOURCE_SETS, name, spec)),
    }


def manifests(made: Iterable[Object]) -> dict[str, str]:
    """Together, so that Cluster API puts namespaces before what is in them."""
    return {"objects.json": orjson.dumps(list(made)).decode()}


def waiting_for(shape: Shape, what: str, observed: Observed) -> str:
    """What keeps the objects from being inside; empty if they are."""
    applied = troubles.condition(observed.resources.get(resource_name(what)), _APPLIED)
    if applied.get("status") == "True":
        return ""
    because = str(applied.get("message") or "Cluster API has not looked at it yet")
    return f"ClusterResourceSet {shape.namespace}/{shape.name}-{what}: {because}"
