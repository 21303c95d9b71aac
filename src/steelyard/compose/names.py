"""Names and labels of composed objects. Deterministic: the same claim always leads to the same names.

A template carries a hash of its spec in its name. Machines are made from a template once and never follow a change of
it, so a change makes a new template, and its new name is what rolls the machines.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import orjson

from steelyard.kube import objects
from steelyard.kube.objects import Object

CLAIM_KIND: Final = "steelyard.dev/claim-kind"
CLAIM_NAMESPACE: Final = "steelyard.dev/claim-namespace"
CLAIM_NAME: Final = "steelyard.dev/claim-name"
"""The three together say whose an object is. By name and not by UID, so that a claim restored from a backup or from Git
finds its cluster again."""
ENVIRONMENT: Final = "steelyard.dev/environment"
RESOURCE_NAME: Final = "steelyard.dev/resource-name"
"""Annotation: which part of the composition the object is."""
REPLICAS: Final = "steelyard.dev/replicas"
"""Annotation of a MachineDeployment that an autoscaler scales: the number of machines that was applied. While it is
what there is, nobody else has set it."""

_POOL: Final = "-md-"
_FIRST_POOL: Final = "0"
_DIGITS: Final = 6
_READABLE: Final = 63 - 1 - _DIGITS
_OWN: Final = re.compile(rf"[a-z0-9-]+-[0-9a-f]{{{_DIGITS}}}")


def cluster(claim: Object) -> str:
    """The Cluster is called as its claim, in the claim's namespace."""
    return objects.name(claim)


def control_plane(cluster_name: str) -> str:
    return f"{cluster_name}-control-plane"


def machine_deployment(cluster_name: str, pool: str = "") -> str:
    """Of the first workers `dev-md-0`, of a pool `dev-md-gpu`. The names of pools have no `md-` in them, so that those
    of `dev-md-gpu`, another cluster, are never the same."""
    return f"{cluster_name}{_POOL}{pool or _FIRST_POOL}"


def pool_of(cluster_name: str, machine_deployment: str) -> str:
    """What people call the pool."""
    pool = machine_deployment.removeprefix(f"{cluster_name}{_POOL}")
    return f"md-{pool}" if pool == _FIRST_POOL else pool


def kubeconfig_secret(cluster_name: str) -> str:
    """As Cluster API names it."""
    return f"{cluster_name}-kubeconfig"


def template(base: str, spec: Object) -> str:
    """`dev-md-0` and its spec give `dev-md-0-3f2a9c1b`."""
    digest = hashlib.sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return f"{base}-{digest[:8]}"


def external(namespace: str, name: str) -> str:
    """For what a claim has outside its namespace, such as a namespace of its cluster's own: no two claims share it.

    >>> external("team-a", "shop")
    'team-a-shop-6b3e35'
    """
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_DIGITS]
    return f"{f'{namespace}-{name}'[:_READABLE].rstrip('-')}-{digest}"


def claim_of(namespace: str, cluster_name: str) -> tuple[str, str]:
    """Namespace and name of the claim for a cluster, by those of the cluster: it is in the claim's namespace, or in one
    of its own, whose name begins with that of the claim's.
    """
    readable = namespace[: -_DIGITS - 1]
    if _OWN.fullmatch(namespace):
        for end in range(1, len(readable) + 1):
            home = readable[:end]
            if f"{home}-{cluster_name}".startswith(readable) and external(home, cluster_name) == namespace:
                return home, cluster_name
    return namespace, cluster_name


def claim_labels(claim: Object) -> dict[str, str]:
    return {
        CLAIM_KIND: str(claim.get("kind") or ""),
        CLAIM_NAMESPACE: objects.namespace(claim),
        CLAIM_NAME: objects.name(claim),
    }
