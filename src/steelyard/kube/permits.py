"""What a program must be allowed to do: said once, beside the code that does it.

Of the same list are made the rules of its role (`rules`), and the questions that it asks before it begins
(`kube/runtime/asking.py`): a right that is missing is told by its name, and not found out in the middle of the work.

    reads(SECRETS)            get, list, watch
    reports(KVM_MACHINES)     the same, patch of the object (finalizers, what was decided) and of its status
    makes(MACHINES)           get, list, watch, create, patch, delete: server-side apply is a patch, and a creation
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, LEASES, Resource

_READ: Final = ("get", "list", "watch")


@frozen
class Permit:
    verb: str
    resource: Resource
    subresource: str = ""
    name: str = ""
    """Only the object of this name; empty for all."""

    @property
    def place(self) -> str:
        """`machines.cluster.x-k8s.io/status`, and the name where it is about one object."""
        within = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource.group_resource}{within}{f' {self.name}' if self.name else ''}"


def only(verbs: Iterable[str], *resources: Resource, subresource: str = "", name: str = "") -> list[Permit]:
    return [Permit(verb, resource, subresource, name) for resource in resources for verb in verbs]


def reads(*resources: Resource) -> list[Permit]:
    return only(_READ, *resources)


def reports(*resources: Resource) -> list[Permit]:
    """Of kinds that a controller brings about."""
    return [*only((*_READ, "patch"), *resources), *only(("patch",), *resources, subresource="status")]


def makes(*resources: Resource) -> list[Permit]:
    return only((*_READ, "create", "patch", "delete"), *resources)


def of_every_controller() -> list[Permit]:
    return only(("get", "create", "patch"), EVENTS)


def of_leases() -> list[Permit]:
    """In one namespace."""
    return only(("get", "create", "update"), LEASES)


def words(permits: Iterable[Permit]) -> list[str]:
    """As a person would ask for them, a line for each kind.

    >>> words(reads(EVENTS))
    ['get, list, watch events']
    """
    verbs_of: dict[str, set[str]] = {}
    for each in permits:
        verbs_of.setdefault(each.place, set()).add(each.verb)
    return [f"{', '.join(_ordered(verbs))} {place}" for place, verbs in verbs_of.items()]


def rules(permits: Iterable[Permit]) -> list[Object]:
    """The fewest rules with these rights and no others; always in the same order.

    >>> [rule["verbs"] for rule in rules(reads(EVENTS))]
    [['get', 'list', 'watch']]
    """
    verbs_of: dict[tuple[str, str, str], set[str]] = {}
    for each in permits:
        plural = f"{each.resource.plural}/{each.subresource}" if each.subresource else each.resource.plural
        verbs_of.setdefault((each.resource.group, each.name, plural), set()).add(each.verb)
    plurals_of: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    names_of: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, plural), verbs in verbs_of.items():
        if name:
            names_of.setdefault((group, plural, _ordered(verbs)), []).append(name)
        else:
            plurals_of.setdefault((group, (), _ordered(verbs)), []).append(plural)
    for (group, plural, verbs), names in names_of.items():
        plurals_of.setdefault((group, tuple(sorted(names)), verbs), []).append(plural)
    return [
        _rule(group, sorted(plurals), names, verbs) for (group, names, verbs), plurals in sorted(plurals_of.items())
    ]


def _rule(group: str, plurals: list[str], names: Sequence[str], verbs: Sequence[str]) -> Object:
    named: Object = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": plurals, **named, "verbs": list(verbs)}


def _ordered(verbs: Iterable[str]) -> tuple[str, ...]:
    order = (*_READ, "create", "update", "patch", "delete")
    return tuple(sorted(verbs, key=lambda verb: (order.index(verb) if verb in order else len(order), verb)))
