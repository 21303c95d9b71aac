"""Parts in Objects of provider-kubernetes, which applies what an Object holds, and says what became of it.

An Object is in the claim's namespace, and holds what Crossplane cannot compose: in a namespace what is elsewhere, and
everywhere what somebody else is to control. Crossplane makes the composite the controller of whatever it composes,
Cluster API a Cluster that of its control plane and its infrastructure, and an object has one controller only.
"""

from __future__ import annotations

import hashlib
from typing import Final

from steelyard.api import troubles
from steelyard.api.clusterapi import resources
from steelyard.api.crossplane import CLUSTER_PROVIDER_CONFIGS, KUBERNETES_CONFIG, OBJECTS
from steelyard.compose import names
from steelyard.compose.composed import Desired
from steelyard.crossplane.selecting import Selector
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS

ORPHANED: Final = ("Observe", "Create", "Update", "LateInitialize")
"""Management policies of what stays where it is when its object is deleted."""
_CONTROLLED: Final = (resources.CONTROL_PLANE_GROUP, resources.INFRASTRUCTURE_GROUP)


def is_anothers_to_control(part: Desired) -> bool:
    """Of templates nobody is the controller."""
    return part.resource.group in _CONTROLLED and not part.in_use_while_rolling


def wrapped(claim: Object, name: str, part: Desired, manifest: Object) -> Object:
    """`name` is the resource name of what holds it."""
    spec: Object = {
        "forProvider": {"manifest": manifest},
        "providerConfigRef": {"kind": CLUSTER_PROVIDER_CONFIGS.kind, "name": KUBERNETES_CONFIG},
        "readiness": {"policy": "SuccessfulCreate"},
        "watch": True,
    }
    if part.is_shared:
        # Somebody else makes it, and takes it away.
        spec["managementPolicies"] = list(ORPHANED)
    return {
        "apiVersion": OBJECTS.api_version,
        "kind": OBJECTS.kind,
        "metadata": _metadata(claim, name, part),
        "spec": spec,
    }


def is_wrapped(obj: Object) -> bool:
    return (obj.get("apiVersion"), obj.get("kind")) == (OBJECTS.api_version, OBJECTS.kind)


def unwrapped(obj: Object) -> Object | None:
    """What provider-kubernetes says is there; None before it has said anything."""
    found = objects.mapping(objects.at(obj, "status", "atProvider", "manifest"))
    if not found:
        return None
    if found.get("kind") != SECRETS.kind or found.get("apiVersion") != SECRETS.api_version:
        return found
    # The provider is told to say nothing of what is in Secrets; what it was to write is there when it says so.
    is_there = troubles.condition(obj, "Ready").get("status") == "True"
    data = objects.at(obj, "spec", "forProvider", "manifest", "data")
    return {**found, "data": objects.mapping(data) if is_there else {}}


def place_of(obj: Object) -> Selector:
    """Where the part is that a composed resource is, or holds."""
    part = objects.mapping(objects.at(obj, "spec", "forProvider", "manifest")) if is_wrapped(obj) else obj
    return Selector(
        str(part.get("apiVersion") or ""), str(part.get("kind") or ""), objects.namespace(part), objects.name(part)
    )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _metadata(claim: Object, name: str, part: Desired) -> Object:
    """Of what holds a part. Two claims of different kinds may have one name."""
    kind = str(claim.get("kind") or "").lower()
    suffix = digest(f"{kind}/{objects.name(claim)}/{name}")[:10]
    readable = f"{objects.name(claim)}-{name}"[:52].rstrip("-.")
    resource_name = objects.annotations(part.object).get(names.RESOURCE_NAME, name)
    return {
        "name": f"{readable}-{suffix}",
        "namespace": objects.namespace(claim),
        "labels": names.claim_labels(claim),
        "annotations": {names.RESOURCE_NAME: resource_name},
    }
