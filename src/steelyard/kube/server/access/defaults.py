"""The roles and bindings that a control plane starts with: upstream's, from the table in `kube/builtin`.

They are stored like any others and can be changed; at a start what is missing of them is put back, except where the
annotation `rbac.authorization.kubernetes.io/autoupdate` says "false".
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from steelyard.kube import objects
from steelyard.kube.builtin import types
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.server.access import aggregation
from steelyard.kube.server.bodies.options import WriteOptions
from steelyard.kube.server.candidates import candidates, completing
from steelyard.kube.server.catalogue import registry
from steelyard.kube.server.rights import rules
from steelyard.kube.server.rights.policy import GROUP, Policy

RESOURCES: Final = {
    "clusterroles": aggregation.CLUSTER_ROLES,
    "clusterrolebindings": Resource(GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    "roles": Resource(GROUP, "v1", "roles", "Role"),
    "rolebindings": Resource(GROUP, "v1", "rolebindings", "RoleBinding"),
}
_OPTIONS: Final = WriteOptions(manager="kube-apiserver")
_EPOCH: Final = "1970-01-01T00:00:00Z"
_AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"


def wanted() -> Iterator[tuple[Resource, Object]]:
    """Every object in the order of creation; each is a fresh one."""
    table = types.load("policy")
    for plural, resource in RESOURCES.items():
        for item in table[plural]:
            yield resource, {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def _granted() -> list[tuple[Resource, Object]]:
    """The same with the rules of aggregated roles, which stand behind the roles that they gather."""
    listed = list(wanted())
    roles = {objects.name(obj): obj for resource, obj in listed if resource.plural == "clusterroles"}
    # `admin` gathers `edit`, which gathers `view`.
    aggregated = [obj for _, obj in reversed(listed) if obj.get("aggregationRule")]
    for role in aggregated:
        chosen = aggregation.selected(role, {name: objects.labels(each) for name, each in roles.items()})
        role["rules"] = aggregation.gathered(roles[name] for name in chosen if name != objects.name(role))
    behind = [(aggregation.CLUSTER_ROLES, role) for role in aggregated]
    first = [entry for entry in listed[: len(roles)] if not entry[1].get("aggregationRule")]
    return [*first, *behind, *listed[len(roles) :]]


@functools.cache
def complete() -> Sequence[tuple[Resource, Object]]:
    """Every object as a server stores it, but for UID and times.

    Made once for all servers of the process, read-only: `fresh` gives one to a server.
    """
    made: list[tuple[Resource, Object]] = []
    for resource, obj in _granted():
        served = registry.builtin()[resource.group, resource.version, resource.plural]
        rules_of_others = obj.pop("rules", []) if obj.get("aggregationRule") else None
        built = completing.new(served, candidates.decode(served, obj, _OPTIONS), _OPTIONS, _EPOCH)
        if rules_of_others is not None:
            built = aggregation.with_rules(built, rules_of_others, _EPOCH)
        made.append((resource, built))
    return made


def fresh(default: Object, timestamp: str) -> Object:
    obj = objects.copy(default)
    metadata: Object = obj["metadata"]
    metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp}
    for managed in objects.sequence(metadata.get("managedFields")):
        managed["time"] = timestamp
    return obj


@functools.cache
def policy() -> Policy:
    """What all of them together grant; shared, read-only."""
    found = Policy()
    for resource, obj in _granted():
        found.put(resource.plural, obj)
    return found


def reconciled(existing: Object, default: Object) -> Object:
    """What a start makes of a stored default: `existing` itself if nothing of it is missing."""
    if objects.annotations(existing).get(_AUTOUPDATE) == "false":
        return existing
    changes: Object = {}
    metadata = objects.metadata(existing)
    merged = {**metadata}
    for field in ("labels", "annotations"):
        given = objects.mapping(objects.metadata(default).get(field))
        merged[field] = {**given, **objects.mapping(metadata.get(field))}
        if merged[field] != objects.mapping(metadata.get(field)):
            changes["metadata"] = merged
    if "roleRef" in default:
        changes |= _subjects(existing, default)
    elif "aggregationRule" in default:
        changes |= _selectors(existing, default)
    else:
        granted = objects.sequence(default.get("rules"))
        given_rules = objects.sequence(existing.get("rules"))
        missing = rules.uncovered(rules.compiled(given_rules), granted) if given_rules != granted else []
        if missing:
            changes["rules"] = [*given_rules, *missing]
    return {**existing, **changes} if changes else existing


def _subjects(existing: Object, default: Object) -> Object:
    return _added(existing, "subjects", objects.sequence(default.get("subjects")))


def _selectors(existing: Object, default: Object) -> Object:
    aggregation_rule = objects.mapping(existing.get("aggregationRule"))
    changed = _added(
        aggregation_rule, "clusterRoleSelectors", objects.sequence(default["aggregationRule"]["clusterRoleSelectors"])
    )
    return {"aggregationRule": {**aggregation_rule, **changed}} if changed else {}


def _added(existing: Object, field: str, wanted_items: list[Any]) -> Object:
    items = objects.sequence(existing.get(field))
    missing = [item for item in wanted_items if item not in items]
    return {field: [*items, *missing]} if missing else {}
