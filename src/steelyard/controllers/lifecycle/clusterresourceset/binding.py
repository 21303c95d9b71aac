"""ClusterResourceSetBinding: what of which set is in a cluster. Read and changed as values, in upstream's form. Pure.

spec: {clusterName: shop, bindings: [{clusterResourceSetName: a, resources: [{kind, name, applied, hash, …}]}]}
"""

from __future__ import annotations

from typing import Any, Final, cast

from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS
from steelyard.controllers.lifecycle.contract import Reference
from steelyard.kube import objects
from steelyard.kube.objects import Object

APPLY_ONCE: Final = "ApplyOnce"
RECONCILE: Final = "Reconcile"


def new(cluster: Object) -> Object:
    return {
        "apiVersion": CLUSTER_RESOURCE_SET_BINDINGS.api_version,
        "kind": CLUSTER_RESOURCE_SET_BINDINGS.kind,
        "metadata": {"name": objects.name(cluster), "namespace": objects.namespace(cluster)},
        "spec": {"clusterName": objects.name(cluster), "bindings": []},
    }


def entry(source: Reference, *, digest: str, applied: bool, at: str) -> Object:
    """`at` is when it was applied, and empty where it was not."""
    fields = {"kind": source.kind, "name": source.name, "hash": digest, "applied": applied, "lastAppliedTime": at}
    return {name: value for name, value in fields.items() if value != ""}


def find(binding: Object | None, set_name: str, source: Reference) -> Object | None:
    return next((each for each in _resources(binding, set_name) if _is_about(each, source)), None)


def is_due(found: Object | None, strategy: str, digest: str) -> bool:
    """Whether a resource must be applied, going by what is recorded of it."""
    if found is None or not found.get("applied"):
        return True
    return strategy == RECONCILE and found.get("hash") != digest


def names(binding: Object, set_name: str) -> bool:
    return any(each.get("clusterResourceSetName") == set_name for each in _sets(binding))


def put(binding: Object, set_name: str, made: Object) -> None:
    """In place of what is recorded of the same resource. Changes the binding, which is the caller's."""
    sets = _sets(binding)
    own = next((each for each in sets if each.get("clusterResourceSetName") == set_name), None)
    if own is None:
        own = cast(Object, {"clusterResourceSetName": set_name})
        sets.append(own)
    source = Reference("", str(made["kind"]), str(made["name"]))
    resources = _resources(binding, set_name)
    positions = [index for index, each in enumerate(resources) if _is_about(each, source)]
    if positions:
        resources[positions[0]] = made
    else:
        resources.append(made)
    own["resources"] = resources
    cast(Object, binding.setdefault("spec", {}))["bindings"] = sets


def take_out(binding: Object, set_: Object) -> bool:
    """All that is recorded of the set, and its ownership; whether another set is left in the binding."""
    left = [each for each in _sets(binding) if each.get("clusterResourceSetName") != objects.name(set_)]
    cast(Object, binding.setdefault("spec", {}))["bindings"] = left
    owners = objects.owner_references(binding)
    objects.metadata(binding)["ownerReferences"] = [
        each for each in owners if (each.get("kind"), each.get("name")) != (set_.get("kind"), objects.name(set_))
    ]
    return bool(left)


def _sets(binding: Object | None) -> list[Object]:
    return [objects.mapping(each) for each in _sequence(binding, "spec", "bindings")]


def _resources(binding: Object | None, set_name: str) -> list[Object]:
    for each in _sets(binding):
        if each.get("clusterResourceSetName") == set_name:
            return [objects.mapping(found) for found in _sequence(each, "resources")]
    return []


def _sequence(obj: Object | None, *path: str) -> list[Any]:
    return objects.sequence(objects.at(obj, *path))


def _is_about(found: Object, source: Reference) -> bool:
    return (found.get("kind"), found.get("name")) == (source.kind, source.name)
