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
    roots = [
        objects.uid(each.object)
        for each in everything
        if _is_within(each, namespaces) and (each.is_claim or _is_of_a_cluster(each))
    ]
    return belonging_to(everything, roots, left_behind)


def belonging_to(
    found: Iterable[Thing], roots: Iterable[str], left_behind: Iterable[tuple[str, str, str]] = ()
) -> Belongings:
    """Of everything `found`, what moves with these, by their UIDs: whatever else has come about since stays."""
    everything = list(found)
    by_uid: dict[str, Thing] = {objects.uid(each.object): each for each in everything}
    holders = _holders(everything)
    stays = set(left_behind)
    kept = _closure({uid for uid, each in by_uid.items() if each.is_claim and _named(each) in stays}, holders)
    wanted = _closure({uid for uid in roots if uid in by_uid and uid not in kept}, holders) - kept
    moving = ordered([by_uid[uid] for uid in wanted])
    copied = [each for each in _referred(moving, _by_name(everything)) if objects.uid(each.object) not in wanted]
    used = [objects.namespace(each.object) for each in (*moving, *copied)]
    made = [objects.name(each.object) for each in moving if each.resource == NAMESPACES]
    return Belongings(
        tuple(each for each in moving if each.resource != NAMESPACES),
        tuple(copied),
        tuple(dict.fromkeys(filter(None, (*made, *used)))),
    )


def tops(moving: Sequence[Thing]) -> tuple[str, ...]:
    """UIDs of those that belong to none of the others: by them all are found again. Of a circle, all."""
    uids = {objects.uid(each.object) for each in moving}
    holders = _holders(moving)
    found = {uid for uid in uids if not uids.intersection(holders.get(uid, ()))}
    return tuple(sorted(found | (uids - _closure(found, holders))))


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


def _by_name(things: Iterable[Thing]) -> dict[tuple[str, str, str, str], Thing]:
    return {(each.resource.group, each.resource.kind, *each.place[2:]): each for each in things}


def _holders(things: Sequence[Thing]) -> dict[str, list[str]]:
    """From the UID of each to those of what it belongs to: its owners, the claim whose inventory names it, the Cluster
    whose name it bears."""
    by_name = _by_name(things)
    found: dict[str, list[str]] = {}
    for each in things:
        uid = objects.uid(each.object)
        found.setdefault(uid, []).extend(_owners(each))
        if each.is_claim:
            for part in _parts(each.object, by_name):
                found.setdefault(objects.uid(part.object), []).append(uid)
        if each.is_cluster:
            for secret in _secrets_of(each.object, by_name):
                found.setdefault(objects.uid(secret.object), []).append(uid)
    return found


def _closure(roots: Iterable[str], holders: Mapping[str, Iterable[str]]) -> set[str]:
    """With everything that belongs to it."""
    held: dict[str, list[str]] = {}
    for uid, above in holders.items():
        for each in above:
            held.setdefault(each, []).append(uid)
    wanted: set[str] = set()
    waiting = list(roots)
    while waiting:
        uid = waiting.pop()
        if uid not in wanted:
            wanted.add(uid)
            waiting += held.get(uid, ())
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
    """What others belong to before them; among those that could be next, claims before Clusters before the rest, by
    name."""
    uids: set[str] = {objects.uid(each.object) for each in things}
    holders = _holders(things)
    placed: dict[str, Thing] = {}
    left = sorted(things, key=_rank)
    while left:
        ready = [each for each in left if _held_by(each, holders, uids) <= placed.keys()]
        # A circle has no order: it is taken as it comes, and the references follow when all are there.
        for each in ready or left[:1]:
            placed[objects.uid(each.object)] = each
        left = [each for each in left if objects.uid(each.object) not in placed]
    return list(placed.values())


def _held_by(thing: Thing, holders: Mapping[str, Iterable[str]], among: set[str]) -> set[str]:
    return among.intersection(holders.get(objects.uid(thing.object), ()))


def _rank(thing: Thing) -> tuple[bool, bool, tuple[str, str, str, str]]:
    return not thing.is_claim, not thing.is_cluster, thing.place


def _owners(thing: Thing) -> list[str]:
    """Their UIDs."""
    return [str(each.get("uid")) for each in objects.owner_references(thing.object)]


def _referred(moving: Iterable[Thing], by_name: Mapping[tuple[str, str, str, str], Thing]) -> list[Thing]:
    """Secrets that specs name, and KVM hosts, with the Secrets that those name."""
    found: dict[tuple[str, str, str, str], Thing] = {}
    waiting = list(moving)
    while waiting:
        thing = waiting.pop(0)
        named = [(SECRETS.group, SECRETS.kind, *place) for place in _secrets_named_by(thing)]
        if thing.resource in (KVM_CLUSTERS, KVM_MACHINES):
            named.append((KVM_HOSTS.group, KVM_HOSTS.kind, "", str(objects.at(thing.object, "spec", "host") or "")))
        for place in named:
            other = by_name.get(place)
            if other is not None and other.place not in found:
                found[other.place] = other
                waiting.append(other)
    return list(found.values())


def _secrets_named_by(thing: Thing) -> Iterator[tuple[str, str]]:
    """Namespace and name. Whoever may write an object in a namespace does not thereby have Secrets of others copied:
    another namespace counts only where kinds that tenants do not write name it. What a topology's variables hold is
    anything; the objects that are made of them name what they need."""
    spec = dict(objects.mapping(thing.object.get("spec")))
    if thing.is_cluster:
        spec.pop("topology", None)
    own = objects.namespace(thing.object)
    for namespace, name in _secret_references(spec):
        if (namespace or own) == own if thing.resource.namespaced else kinds.names_secrets_anywhere(thing.resource):
            yield namespace or own, name


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
