"""What is to be looked up, in Crossplane's words: a kind, and a name or labels, in a namespace or in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from steelyard.compose.composed import Requirement
from steelyard.frozen import frozen
from steelyard.kube.resources import Resource


@frozen
class Selector:
    api_version: str
    kind: str
    namespace: str = ""
    """Without one: what is in none, or, by labels, what is in any."""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def by_name(resource: Resource, namespace: str, name: str) -> Selector:
    return Selector(resource.api_version, resource.kind, namespace if resource.namespaced else "", name)


def of(requirement: Requirement) -> Selector:
    if requirement.name:
        return by_name(requirement.resource, requirement.namespace, requirement.name)
    label, value = requirement.label
    return Selector(
        requirement.resource.api_version,
        requirement.resource.kind,
        requirement.namespace if requirement.resource.namespaced else "",
        labels={label: value},
    )
