"""The order in which parts go when Crossplane deletes a composite: with Usages, as it has no order of its own.

    Role, Database, Grant   ->   the Database is in use by the Grant, the Role is in use by the Database

Crossplane lets all parts go at once. A Grant whose Database went first can never be revoked; what is in use is not
deleted before what uses it is gone. A Usage knows both by name in one namespace, or both in none: parts of which one is
in a namespace and the other is not go at once all the same.

Nobody deletes what is in use, Cluster API neither. It deletes a cluster's machines, control plane and infrastructure
itself, and the Cluster when they are gone: none of them may be in use by the Cluster. It keeps its order when all are
deleted at once, but for one thing: what machines run on would be deleted under them. A control plane goes last of all
that has machines.

    SimulatedCluster, KubeadmControlPlane   ->   the first is in use by the second

Each Usage is written five times while it comes to be, and Crossplane stops listening to a composite with more than 50
events at once: so there is one only where it matters, and not before both are there.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steelyard.api.clusterapi import resources
from steelyard.api.crossplane import CLUSTER_USAGES, USAGES
from steelyard.api.resources import DATA_GROUP
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

PREFIX: Final = "usage-of-"
"""What the resource names of Usages begin with."""


@frozen
class Part:
    name: str
    """Its resource name."""
    resource: Resource
    """Of what is composed, whatever holds it."""
    object: Object
    """As Crossplane makes it."""
    stage: int


def matters(part: Desired) -> bool:
    """Not of templates, which machines outlive, nor of what only looks after others."""
    return not (part.is_shared or part.in_use_while_rolling or part.resource.group == DATA_GROUP)


def of(claim: Object, parts: Sequence[Part]) -> dict[str, Object]:
    """Of parts that are there, by resource name. What goes in the first stage is in nobody's way: copies of
    credentials, registrations."""
    stages: dict[int, list[Part]] = {}
    for part in parts:
        if part.stage > FIRST_STAGE:
            stages.setdefault(part.stage, []).append(part)
    ordered = [stages[stage] for stage in sorted(stages)]
    found: dict[str, Object] = {}
    pairs = list(_infrastructures(parts))
    for earlier, later in itertools.pairwise(ordered):
        for of_, by in itertools.product(later, earlier):
            if not (_is_cluster_apis(of_) and _is_cluster_apis(by)):
                pairs.append((of_, by))
    for of_, by in pairs:
        if objects.namespace(of_.object) == objects.namespace(by.object):
            found[f"{PREFIX}{of_.name}-by-{by.name}"] = _usage(claim, of_, by)
    return found


def _infrastructures(parts: Sequence[Part]) -> Iterator[tuple[Part, Part]]:
    """What machines run on, with what is there as long as they are."""
    for of_, by in itertools.product(parts, parts):
        is_under = of_.resource.group == resources.INFRASTRUCTURE_GROUP
        if is_under and by.resource == resources.KUBEADM_CONTROL_PLANES:
            yield of_, by


def _is_cluster_apis(part: Part) -> bool:
    group = part.resource.group
    return group == resources.CORE_GROUP or group.endswith(f".{resources.CORE_GROUP}")


def _usage(claim: Object, of_: Part, by: Part) -> Object:
    namespace = objects.namespace(of_.object)
    resource = USAGES if namespace else CLUSTER_USAGES
    identity = "/".join((str(claim.get("kind")), objects.qualified_name(claim), of_.name, by.name))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    metadata: Object = {"name": f"{objects.name(claim)[:40].rstrip('-.')}-{digest}"}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": {
            "of": _referred(of_.object),
            "by": _referred(by.object),
            "reason": f"{by.object['kind']} {objects.name(by.object)} goes first",
            "replayDeletion": True,
        },
    }


def _referred(obj: Object) -> Mapping[str, object]:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "resourceRef": {"name": objects.name(obj)}}
