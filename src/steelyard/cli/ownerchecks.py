"""Whose the kinds of claims are, for `steelyard doctor`: ours, or Crossplane's. Two owners undo each other's work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from steelyard import defining
from steelyard.cli import offered, targets
from steelyard.cli.findings import Finding
from steelyard.defining import Owner
from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client

_FINALIZER: Final = "steelyard.dev/claim"
_SUBJECT: Final = "kinds"


@frozen
class Owned:
    owner: Owner
    ours: tuple[str, ...]
    """Objects of the kind that our controllers have begun to look after."""


async def gather(client: Client) -> Sequence[Owned]:
    """Nothing for who may not read definitions: that is no one's who administers the cluster."""
    found: list[Owned] = []
    # Not by their category: Crossplane gives a composite another.
    kind_of = offered.current().kind_of
    served = [each.resource for each in await targets.served(client)]
    kinds = [each for each in served if kind_of({"apiVersion": each.api_version, "kind": each.kind}) is not None]
    try:
        owners = await defining.owners(client, kinds)
    except errors.Forbidden:
        return ()
    resources = {each.group_resource: each for each in kinds}
    for owner in owners:
        items = (await client.list(resources[owner.definition])).items
        ours = tuple(objects.qualified_name(each) for each in items if _FINALIZER in objects.finalizers(each))
        found.append(Owned(owner, ours))
    return found


def findings(owned: Sequence[Owned]) -> Iterator[Finding]:
    for each in owned:
        if each.ours:
            yield Finding(
                "FAIL",
                _SUBJECT,
                f"{each.owner.definition} has two owners: CompositeResourceDefinition {each.owner.by} of Crossplane "
                f"defines it, and our controllers look after {', '.join(each.ours[:5])}. End one of them: delete the "
                "CompositeResourceDefinition, or leave the kind to Crossplane",
            )
        else:
            yield Finding("note", _SUBJECT, str(each.owner))
