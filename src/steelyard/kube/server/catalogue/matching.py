"""Whether a webhook or a policy is concerned with a request: its rules, and then its selectors.

Rules are about kinds and operations and so are decided once per kind (`target`); selectors are about objects and their
namespaces and are decided for each request (`selects`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, Resource
from steelyard.kube.selectors import LabelSelector
from steelyard.kube.server.call import User
from steelyard.kube.server.catalogue.registry import Registry, Served
from steelyard.kube.server.webhooks.clientconfig import ClientConfig

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@frozen
class Rule:
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """Resource and subresource, each of which may be `*`."""
    scope: str
    names: frozenset[str] = frozenset()
    """Of the objects that it is about; none is any. Only policies have them."""

    def matches(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return (
            _has(self.operations, operation)
            and _has(self.groups, resource.group)
            and _has(self.versions, resource.version)
            and (self.scope == "*" or (self.scope == "Namespaced") == resource.namespaced)
            and any(plural in ("*", resource.plural) and sub in ("*", subresource) for plural, sub in self.resources)
        )


def _has(accepted: frozenset[str], value: str) -> bool:
    return value in accepted or "*" in accepted


@frozen
class Criteria:
    """What a webhook, a policy or a binding of one is concerned with."""

    rules: tuple[Rule, ...]
    is_exact: bool
    namespaces: LabelSelector
    objects: LabelSelector
    excluded: tuple[Rule, ...] = ()
    is_open: bool = False
    """No rules mean any request, and not none."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One webhook of one configuration; the same hook is the same object until its configuration changes."""

    name: str
    criteria: Criteria
    client_config: ClientConfig
    timeout: float
    ignores_failure: bool
    review_versions: tuple[str, ...]
    side_effects: str
    reinvoked: bool
    conditions: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Attributes:
    """What a request wants to do, as webhooks are told of it."""

    served: Served
    operation: Operation
    name: str
    namespace: str
    """For a namespace its own name."""
    user: User
    options: Object
    subresource: str = ""
    obj: Object | None = None
    """The object as it is to be, in the served version; None for a deletion."""
    old: Object | None = None
    dry_run: bool = False


def target(
    criteria: Criteria,
    registry: Registry,
    served: Served,
    subresource: str,
    operation: Operation,
    name: str | None = None,
) -> Served | None:
    """The version of the resource in which such a request is to be seen; None if it is not.

    Without a name the answer is about requests of that sort, and some of them may turn out to be of no concern.
    """

    def found(rules: tuple[Rule, ...]) -> Served | None:
        if any(_is_about(rule, served, subresource, operation, name) for rule in rules):
            return served
        if criteria.is_exact or not rules:
            return None
        others = list(_equivalents(registry, served))
        for rule in rules:
            for other in others:
                if _is_about(rule, other, subresource, operation, name):
                    return other
        return None

    if name is not None and criteria.excluded and found(criteria.excluded) is not None:
        return None
    return served if criteria.is_open and not criteria.rules else found(criteria.rules)


def _is_about(rule: Rule, served: Served, subresource: str, operation: Operation, name: str | None) -> bool:
    is_named = name is None or not rule.names or name in rule.names
    return is_named and rule.matches(served.resource, subresource, operation)


def _equivalents(registry: Registry, served: Served) -> Iterable[Served]:
    """The other versions of the same resource: they show the same objects."""
    resource = served.resource
    for other in registry.custom() if served.custom is not None else registry.all():
        same = other.resource.plural == resource.plural and other.resource.group == resource.group
        if same and other is not served:
            yield other


def selects(criteria: Criteria, attributes: Attributes, namespace: Callable[[str], Object | None]) -> bool:
    if criteria.objects and not any(
        criteria.objects.matches(objects.labels(obj)) for obj in (attributes.obj, attributes.old) if obj is not None
    ):
        return False
    if not criteria.namespaces or not attributes.namespace:
        return True
    is_namespace = attributes.served.resource == NAMESPACES
    if is_namespace and not attributes.subresource and attributes.obj is not None:
        return criteria.namespaces.matches(objects.labels(attributes.obj))
    found = namespace(attributes.namespace)
    return found is not None and criteria.namespaces.matches(objects.labels(found))
