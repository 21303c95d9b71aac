"""What moves, and in which order: claims, everything that was made for them, and everything that those own. Pure.

    claim shop ── inventory ─▶ Cluster shop ── owns ─▶ KubeadmControlPlane ── owns ─▶ Machines, Secrets ── own ─▶ ...

Clusters that nobody claimed move as well, as does whatever else of Cluster API is in the namespaces. An object is found
by who owns it, whatever its kind: nothing that belongs to a cluster is left to a garbage collector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from steelyard.api.clusterapi import wellknown
from steelyard.api.clusterapi.resources import CLUSTER_RESOURCE_SET_BINDINGS, CLUSTER_RESOURCE_SETS, CLUSTERS
from steelyard.api.resources import KVM_CLUSTERS, KVM_HOSTS, KVM_MACHINES
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource, split_api_version
from steelyard.moving import kinds
from steelyard.moving.kinds import Pause
from steelyard.plan import inventory

_SECRET_REFERENCE: Final = re.compile(r"(?i)^(.*secretref|secret)$")
_MADE_BY_CLUSTER_API: Final = ("ca", "etcd", "sa", "proxy", "kubeconfig")


@frozen
class Thing:
    """An object, and the resource under which it was found."""

    resource: Resource
    object: Object
    is_claim: bool = False

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where it is, at the source and at the target."""
        obj = self.object
        return self.resource.group, self.resource.plural, objects.namespace(obj), objects.name(obj)

    @property
    def pause(self) -> Pause | None:
        return Pause(kinds.CROSSPLANE) if self.is_claim else kinds.pause(self.resource)

    @property
    def is_cluster(self) -> bool:
        return (self.resource.group, self.resource.kind) == (CLUSTERS.group, CLUSTERS.kind)

    @property
    def is_held_by_cluster(self) -> bool:
        """Whether it is left alone as soon as its Cluster is paused."""
        is_for_itself = self.is_cluster or self.resource in (CLUSTER_RESOURCE_SETS, CLUSTER_RESOURCE_SET_BINDINGS)
        return kinds.is_of_cluster_api(self.resource) and not is_for_itself

    def __str__(self) -> str:
        return f"{self.resource.kind} {objects.qualified_name(self.object)}"


@frozen
class Belongings:
    moving: tuple[Thing, ...]
    """Each after whatever owns it: claims first, then Clusters."""
    copied: tuple[Thing, ...]
    """What the moving refer to and others may, too: it is made at the target where it is missing, and stays here."""
    namespaces: tuple[str, ...]
    """That must be there."""

    @property
    def claims(self) -> list[Thing]:
        return [each for each in self.moving if each.is_claim]

    @property
    def resources(self) -> list[Resource]:
        return list(dict.fromkeys(each.resource for each in (*self.copied, *self.moving)))


def select(
    found: Iterable[Thing], namespaces: Sequence[str] | None, left_behind: Iterable[tuple[str, str, str]] = ()
) -> Belongings:
    """Of everything `found`, what moves with these namespaces; None is all. `left_behind` are claims that stay with
    what is theirs, by kind, namespace and name."""
    everything = list(found)
    by_uid: dict[str, Thing] = {objects.uid(each.object): each for each in everything}
    by_name = {(each.resource.group, each.resource.kind, *each.place[2:]): each for each in everything}
    stays = set(left_behind)
    kept = {uid for uid, each in by_uid.items() if each.is_claim and _named(each) in stays}
    kept = _closure(kept, by_uid, by_name, everything)
    roots = {
        uid
        for uid, each in by_uid.items()
        if uid not in kept and _is_within(each, namespaces) and (each.is_claim or _is_of_a_cluster(each))
    }
    wanted = _closure(roots, by_uid, by_name, everything) - kept
    moving = ordered([by_uid[uid] for uid in wanted])
    copied = [each for each in _referred(moving, by_name) if objects.uid(each.object) not in wanted]
    used = [objects.namespace(each.object) for each in (*moving, *copied)]
    made = [objects.name(each.object) for each in moving if each.resource == NAMESPACES]
    return Belongings(
        tuple(each for each in moving if each.resource != NAMESPACES),
        tuple(copied),
        tuple(dict.fromkeys(filter(None, (*made, *used)))),
    )


def _named(thing: Thing) -> tuple[str, str, str]:
    return thing.resource.kind, objects.namespace(thing.object), objects.name(thing.object)


def _is_within(thing: Thing, namespaces: Sequence[str] | None) -> bool:
    """What is in no namespace moves only for something that is in one."""
    where = objects.namespace(thing.object)
    return bool(where) and (namespaces is None or where in namespaces)


def _is_of_a_cluster(thing: Thing) -> bool:
    return kinds.is_of_cluster_api(thing.resource) or (
        thing.resource == SECRETS
        and (
            wellknown.CLUSTER_NAME_LABEL in objects.labels(thing.object)
            or thing.object.get("type") == wellknown.CLUSTER_SECRET_TYPE
        )
    )


def _closure(
    roots: Iterable[str],
    by_uid: Mapping[str, Thing],
    by_name: Mapping[tuple[str, str, str, str], Thing],
    everything: Sequence[Thing],
) -> set[str]:
    """With everything that is owned by it, or recorded in the inventory of a claim in it."""
    owned: dict[str, list[str]] = {}
    for each in everything:
        for reference in objects.owner_references(each.object):
            owned.setdefault(str(reference.get("uid")), []).append(objects.uid(each.object))
    wanted: set[str] = set()
    waiting = list(roots)
    while waiting:
        uid = waiting.pop()
        if uid in wanted:
            continue
        wanted.add(uid)
        waiting += owned.get(uid, ())
        thing = by_uid[uid]
        if thing.is_claim:
            waiting += (objects.uid(part.object) for part in _parts(thing.object, by_name))
        if thing.is_cluster:
            waiting += (objects.uid(each.object) for each in _secrets_of(thing.object, by_name))
    return wanted


def _parts(claim: Object, by_name: Mapping[tuple[str, str, str, str], Thing]) -> Iterator[Thing]:
    """What the claim's inventory names and is truly the claim's."""
    for entry in inventory.recorded(claim):
        group, _ = split_api_version(entry.api_version)
        part = by_name.get((group, entry.kind, entry.namespace, entry.name))
        if part is not None and inventory.is_entry_of(entry, part.object, claim):
            yield part


def _secrets_of(cluster: Object, by_name: Mapping[tuple[str, str, str, str], Thing]) -> Iterator[Thing]:
    """Those that Cluster API knows by their names alone: whoever brought them may have left out the labels."""
    for purpose in _MADE_BY_CLUSTER_API:
        name = f"{objects.name(cluster)}-{purpose}"
        found = by_name.get((SECRETS.group, SECRETS.kind, objects.namespace(cluster), name))
        if found is not None:
            yield found


def ordered(things: Sequence[Thing]) -> list[Thing]:
    """Owners before what they own; among those that could be next, claims before Clusters before the rest, by name."""
    by_uid: dict[str, Thing] = {objects.uid(each.object): each for each in things}
    placed: dict[str, Thing] = {}
    left = sorted(things, key=_rank)
    while left:
        ready = [each for each in left if all(uid in placed or uid not in by_uid for uid in _owners(each))]
        # A circle has no order: it is taken as it comes, and the references follow when all are there.
        for each in ready or left[:1]:
            placed[objects.uid(each.object)] = each
        left = [each for each in left if objects.uid(each.object) not in placed]
    return list(placed.values())


def _rank(thing: Thing) -> tuple[bool, bool, tuple[str, str, str, str]]:
    return not thing.is_claim, not thing.is_cluster, thing.place


def _owners(thing: Thing) -> list[str]:
    return [str(each.get("uid")) for each in objects.owner_references(thing.object)]


def _referred(moving: Iterable[Thing], by_name: Mapping[tuple[str, str, str, str], Thing]) -> list[Thing]:
    """Secrets that specs name, and KVM hosts, with the Secrets that those name."""
    found: dict[tuple[str, str, str, str], Thing] = {}
    waiting = list(moving)
    while waiting:
        thing = waiting.pop(0)
        named = [
            (SECRETS.group, SECRETS.kind, namespace or objects.namespace(thing.object), name)
            for namespace, name in _secret_references(thing.object.get("spec"))
        ]
        if thing.resource in (KVM_CLUSTERS, KVM_MACHINES):
            named.append((KVM_HOSTS.group, KVM_HOSTS.kind, "", str(objects.at(thing.object, "spec", "host") or "")))
        for place in named:
            other = by_name.get(place)
            if other is not None and other.place not in found:
                found[other.place] = other
                waiting.append(other)
    return list(found.values())


def _secret_references(value: Any) -> Iterator[tuple[str, str]]:
    """Namespace, if said, and name of each Secret that is meant somewhere in a spec."""
    if isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _secret_references(each)
    if not isinstance(value, dict):
        return
    for key, each in cast(Object, value).items():
        reference = objects.mapping(each)
        if _SECRET_REFERENCE.match(key) and isinstance(reference.get("name"), str):
            yield str(reference.get("namespace") or ""), str(reference["name"])
        yield from _secret_references(each)
