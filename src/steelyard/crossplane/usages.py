"""The order in which parts go when Crossplane deletes a composite: with Usages, as it has no order of its own.

    Role, Database, Grant   ->   the Database is in use by the Grant, the Role is in use by the Database

Crossplane lets all parts go at once. A Grant whose Database went first can never be revoked, and machines whose
control plane went before their Cluster are left behind; what is in use is not deleted before what uses it is gone. A
Usage knows both by name in one namespace, or both in none: parts of which one is in a namespace and the other is not go
at once all the same.

Each Usage is written five times while it comes to be, and Crossplane stops listening to a composite with more than 50
events at once: so there is one only where it matters, and not before both are there.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from steelyard.api.crossplane import CLUSTER_USAGES, USAGES
from steelyard.api.databases import GROUP as DATA_GROUP
from steelyard.compose.composed import FIRST_STAGE, Desired
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object

PREFIX: Final = "usage-of-"
"""What the resource names of Usages begin with."""


@frozen
class Part:
    name: str
    """Its resource name."""
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
    for earlier, later in itertools.pairwise(ordered):
        for of_, by in _pairs(earlier, later):
            found[f"{PREFIX}{of_.name}-by-{by.name}"] = _usage(claim, of_, by)
    return found


def _pairs(earlier: Sequence[Part], later: Sequence[Part]) -> Iterator[tuple[Part, Part]]:
    for of_ in later:
        for by in earlier:
            if objects.namespace(of_.object) == objects.namespace(by.object):
                yield of_, by


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
