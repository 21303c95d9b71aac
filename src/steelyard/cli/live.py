"""What there is of claims in an API, read with the rights of whoever asks, and nothing written.

What may not be read is told, and never guessed: in its place stands what the claim as it is now asks for. A look at
many claims lists each kind once, and asks for single objects only where the lists do not have them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from steelyard.cli import offered, targets
from steelyard.cli.claimfiles import Claim
from steelyard.cli.comparing import Known
from steelyard.compose import identity, names
from steelyard.compose.claimkind import ClaimKind
from steelyard.compose.composed import Composed, Observed, Requirement
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.plan import inventory, offline, planning, settling
from steelyard.plan.inventory import Entry
from steelyard.plan.planning import Plan, There
from steelyard.plan.settling import Answer, Found, Identity

_AT_ONCE: Final = 16
_WORTH_LISTING: Final = 10
"""From so many claims on, lists of all objects cost less than asking for each."""
_SHOWN: Final = 3
_UNCERTAIN: Final = (
    "the platform's settings are not known here (--platform FILE), so it is compared with what the claim asks for now, "
    "not with what is there"
)


class Reader:
    """Reads each object once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._found: dict[Identity, Object | None] = {}
        self._labelled: dict[tuple[Resource, str], dict[tuple[str, str], list[Object]]] = {}
        self._not_served: set[Resource] = set()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.forbidden: set[Identity] = set()

    async def prepare(self, kind: ClaimKind) -> None:
        """Lists what is made for claims of the kind. What may not be listed is asked for one by one."""
        name = kind.resource("").kind
        for resource in kind.makes:
            for each in await self._listed(resource, f"{names.CLAIM_KIND}={name}"):
                self._found[resource, objects.namespace(each), objects.name(each)] = each
        for resource, label in kind.indexed:
            with contextlib.suppress(errors.Forbidden):
                found: dict[tuple[str, str], list[Object]] = {}
                for each in await self._list(resource, label):
                    found.setdefault((objects.namespace(each), objects.labels(each)[label]), []).append(each)
                self._labelled[resource, label] = found

    async def find(self, identity: Identity) -> Object | None:
        resource, namespace, name = identity
        if resource in self._not_served or identity in self.forbidden:
            return None
        if identity not in self._found:
            try:
                async with self._slots:
                    self._found[identity] = await self._client.get(resource, name, namespace)
            except errors.NotFound:
                self._found[identity] = None
            except errors.Forbidden:
                self.forbidden.add(identity)
                return None
        return self._found[identity]

    async def require(self, requirement: Requirement) -> Sequence[Object] | None:
        """None where it may not be read."""
        resource, namespace = requirement.resource, requirement.namespace
        if requirement.name:
            found = await self.find((resource, namespace, requirement.name))
            return None if (resource, namespace, requirement.name) in self.forbidden else (found,) if found else ()
        label, value = requirement.label
        known = self._labelled.get((resource, label))
        if known is not None and namespace:
            return objects.by_name(known.get((namespace, value), ()))
        try:
            async with self._slots:
                return objects.by_name(await self._list(resource, f"{label}={value}", namespace))
        except errors.Forbidden:
            self.forbidden.add((resource, namespace, f"{label}={value}"))
            return None

    async def _listed(self, resource: Resource, selector: str) -> Sequence[Object]:
        with contextlib.suppress(errors.Forbidden):
            return await self._list(resource, selector)
        return ()

    async def _list(self, resource: Resource, selector: str, namespace: str = "") -> Sequence[Object]:
        try:
            return (await self._client.list(resource, namespace, label_selector=selector)).items
        except errors.NotFound:
            # Nobody serves the kind, so there is none.
            self._not_served.add(resource)
            return ()


async def claims(client: Client, domain: str, namespace: str) -> list[Claim]:
    """All that the platform looks after, in a namespace or in all of them."""
    found: list[Claim] = []
    for entry in await targets.claims(client):
        if targets.is_of_another_domain(entry, domain):
            continue
        for obj in (await client.list(entry.resource, namespace)).items:
            kind = offered.current().kind_of(obj)
            if kind is not None and not objects.is_being_deleted(obj):
                found.append(Claim(kind, obj))
    return found


async def claim(client: Client, resource: Resource, wanted: Object) -> Object | None:
    """The claim as it is now."""
    try:
        return await client.get(resource, objects.name(wanted), objects.namespace(wanted))
    except errors.NotFound:
        return None


async def plans(client: Client, changes: Sequence[tuple[Claim, Object | None]], now: Known) -> list[Plan]:
    """Of each claim as it is to be, beside the claim as it is now."""
    reader = Reader(client)
    if len(changes) >= _WORTH_LISTING:
        for kind in {each.kind.noun: each.kind for each, _ in changes}.values():
            await reader.prepare(kind)
    made: list[Plan] = []
    for first in range(0, len(changes), _AT_ONCE):
        batch = changes[first : first + _AT_ONCE]
        made += await asyncio.gather(*(_plan(reader, claim, old, now) for claim, old in batch))
    return made


async def _plan(reader: Reader, claim: Claim, old: Object | None, now: Known) -> Plan:
    kind, platform = claim.kind, now.platform

    def compose(obj: Object, observed: Observed) -> Composed:
        return identity.of_claim(obj, kind.compose(obj, observed, platform))

    found, unread = await _settled(reader, compose, claim.obj)
    if old is not None and not now.is_certain:
        before = compose(old, found.observed)
        return planning.between(
            kind, claim.obj, offline.parts(before), found.composed, old, found.observed.required, notes=(_UNCERTAIN,)
        )
    recorded = inventory.recorded(old) if old is not None else []
    resources = {(each.api_version, each.kind): each for each in kind.makes}
    known = {entry: resources[key] for entry in recorded if (key := (entry.api_version, entry.kind)) in resources}
    there: dict[Entry, Object] = {}
    for entry, resource in known.items():
        where = (resource, entry.namespace, entry.name)
        obj = await reader.find(where)
        if where in reader.forbidden:
            unread.append(where)
        elif obj is not None and inventory.is_entry_of(entry, obj, claim.obj):
            there[entry] = obj
    if unread and old is not None:
        before = compose(old, found.observed)
        found, there = _instead(found, there, before, recorded, unread)
    return planning.of(kind, claim.obj, found, There(old, recorded, there, list(_told(unread))))


async def _settled(reader: Reader, compose: settling.Compose, claim: Object) -> tuple[Found, list[Identity]]:
    unread: list[Identity] = []
    turns = settling.turns(compose, claim)
    try:
        question = next(turns)
        while True:
            found = dict(
                zip(
                    question.parts,
                    await asyncio.gather(*map(reader.find, question.parts.values())),
                    strict=True,
                )
            )
            required = {name: await reader.require(each) for name, each in question.requirements.items()}
            unread = [each for each in question.parts.values() if each in reader.forbidden]
            answer = Answer(
                {name: obj for name, obj in found.items() if obj is not None},
                {name: each for name, each in required.items() if each is not None},
            )
            question = turns.send(answer)
    except StopIteration as end:
        return cast(Found, end.value), unread


def _instead(
    found: Found,
    there: Mapping[Entry, Object],
    before: Composed,
    recorded: Sequence[Entry],
    unread: Iterable[Identity],
) -> tuple[Found, dict[Entry, Object]]:
    """In the place of what may not be read, what the claim as it is now composes."""
    hidden = {(resource.api_version, resource.kind, namespace, name) for resource, namespace, name in unread}
    known = {
        name: obj
        for name, obj in offline.parts(before).items()
        if (str(obj["apiVersion"]), str(obj["kind"]), objects.namespace(obj), objects.name(obj)) in hidden
    }
    resources = {**found.observed.resources, **planning.as_observed(known, found.composed)}
    old = {
        entry: known[entry.resource_name]
        for entry in recorded
        if entry.resource_name in known and objects.name(known[entry.resource_name]) == entry.name
    }
    return Found(found.composed, Observed(resources, found.observed.required), found.foreign), {**there, **old}


def _told(unread: Sequence[Identity]) -> Iterable[str]:
    if not unread:
        return
    named = [f"{resource.kind} {'/'.join(filter(None, (namespace, name)))}" for resource, namespace, name in unread]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    yield (
        f"you may not read {', '.join(named[:_SHOWN])}{more}: compared with what the claim asks for now, not with what "
        "is there"
    )
