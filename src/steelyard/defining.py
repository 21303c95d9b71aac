"""The definitions of kinds that the platform puts into its API, and whose they are.

Its own kinds are kept as this version has them. Kinds of upstream's (Cluster API's, provider-sql's, External Secrets')
are defined where nobody has done that: a definition that somebody else installed or changed keeps its versions,
conversion and labels, since whoever did that runs programs that need them. A kind that Crossplane defines is
Crossplane's, even if it is called like one of ours: one kind has one owner.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from steelyard import standing
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource, split_api_version

if TYPE_CHECKING:
    from steelyard.compose.offering import Offering

_CROSSPLANE: Final = "apiextensions.crossplane.io"
_XRD: Final = "CompositeResourceDefinition"
_VERSIONS: Final = ("f:spec", "f:versions")


@frozen
class Owner:
    """Who has a kind that is called like one of ours."""

    definition: str
    """As in `workloadclusters.compute.steelyard.dev`."""
    by: str
    """The CompositeResourceDefinition that makes it."""
    form: Literal["claim", "composite"]

    def __str__(self) -> str:
        what = "a claim" if self.form == "claim" else "a composite"
        return (
            f"{self.definition} is Crossplane's: {what} of CompositeResourceDefinition {self.by}. Two would undo each "
            "other's work, so it is left to Crossplane"
        )


async def define(
    client: Client,
    own: Sequence[Object],
    upstream: Sequence[Object],
    *,
    field_manager: str,
    tell: Callable[[str], None],
) -> list[Owner]:
    """Those of `own` that are others'."""
    found = await asyncio.gather(*(_own(client, each, field_manager) for each in own))
    for told in await asyncio.gather(*(_upstream(client, each, field_manager) for each in upstream)):
        if told:
            tell(told)
    return [owner for owner in found if owner is not None]


async def owners(client: Client, resources: Sequence[Resource]) -> list[Owner]:
    """Of these kinds, those that Crossplane defines."""
    found = await asyncio.gather(*(_definition(client, each.group_resource) for each in resources))
    made = [owner_of(each) for each in found if each is not None]
    return [owner for owner in made if owner is not None]


def owner_of(definition: Object) -> Owner | None:
    """Crossplane controls the definitions that it makes: of composites, and of their claims."""
    for each in map(objects.mapping, objects.sequence(objects.metadata(definition).get("ownerReferences"))):
        group, _ = split_api_version(str(each.get("apiVersion") or ""))
        if (group, each.get("kind")) == (_CROSSPLANE, _XRD):
            is_composite = "composite" in objects.sequence(objects.at(definition, "spec", "names", "categories"))
            form = "composite" if is_composite else "claim"
            return Owner(objects.name(definition), str(each.get("name")), form)
    return None


def left(offering: Offering, domain: str, owners: Sequence[Owner]) -> Offering:
    """Without the kinds that are somebody else's."""
    taken = {each.definition for each in owners}
    kinds = tuple(kind for kind in offering.kinds if kind.resource(domain).group_resource not in taken)
    return dataclasses.replace(offering, kinds=kinds)


async def _own(client: Client, wanted: Object, field_manager: str) -> Owner | None:
    found = await _definition(client, objects.name(wanted))
    owner = owner_of(found) if found is not None else None
    if owner is None:
        await standing.ensure(client, CUSTOM_RESOURCE_DEFINITIONS, wanted, field_manager=field_manager, found=found)
    return owner


async def _upstream(client: Client, wanted: Object, field_manager: str) -> str:
    found = await _definition(client, objects.name(wanted))
    if found is None or _is_ours(found, field_manager):
        await standing.ensure(client, CUSTOM_RESOURCE_DEFINITIONS, wanted, field_manager=field_manager, found=found)
        return ""
    missing = _versions(wanted) - _versions(found)
    if not missing:
        return ""
    return (
        f"{objects.name(wanted)} was defined by somebody else, without the version that is used here "
        f"({', '.join(sorted(missing))}): nothing is done with its objects until it is served"
    )


async def _definition(client: Client, name: str) -> Object | None:
    try:
        return await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except errors.NotFound:
        return None


def _is_ours(definition: Object, field_manager: str) -> bool:
    """Whether its versions are as we applied them: who installs another definition takes over that field."""
    for entry in map(objects.mapping, objects.sequence(objects.metadata(definition).get("managedFields"))):
        is_applied = (entry.get("manager"), entry.get("operation")) == (field_manager, "Apply")
        if is_applied and objects.at(objects.mapping(entry.get("fieldsV1")), *_VERSIONS) is not None:
            return True
    return False


def _versions(definition: Object) -> set[str]:
    """Those that are served."""
    listed = map(objects.mapping, objects.sequence(objects.at(definition, "spec", "versions")))
    return {str(each.get("name")) for each in listed if each.get("served")}
