"""What the platform itself puts into its API at every start: definitions and policies.

Each carries a digest of what was applied. One that has the digest and still holds what was applied is left alone:
merging it field by field only to find nothing new took half of the time between loading the platform and serving it. A
field that is no longer wanted changes the digest; what somebody else changed no longer holds. Either way it is applied
again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Sequence
from typing import Any, Final, cast

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource

DIGEST: Final = "steelyard.dev/applied"


async def ensure(
    client: Client, resource: Resource, wanted: Object, *, field_manager: str, found: Object | None = None
) -> None:
    """Applies the object, unless it stands already. `found` is what there is, where somebody has looked already."""
    annotations = {**objects.annotations(wanted), DIGEST: _digest(wanted)}
    signed: Object = {**wanted, "metadata": {**objects.metadata(wanted), "annotations": annotations}}
    if found is None:
        with contextlib.suppress(errors.NotFound):
            found = await client.get(resource, objects.name(wanted), objects.namespace(wanted))
    if found is None or not _holds(found, signed):
        await client.apply(resource, signed, field_manager=field_manager)


@frozen
class Mark:
    """By which objects of one source are found again, when they are no longer among those that it gives."""

    label: str
    value: str
    kinds: tuple[Resource, ...]
    """Those that are taken away then, in this order."""


async def keep(
    client: Client,
    wanted: Sequence[tuple[Resource, Object]],
    mark: Mark,
    field_manager: str,
    spared: Collection[str] = (),
) -> list[str]:
    """Exactly these of the mark's: what is missing is made, in order, and what is too many is deleted, but for those
    with `spared` names; the names of those."""
    for resource, obj in wanted:
        await ensure(client, resource, obj, field_manager=field_manager)
    kept = {(resource, objects.namespace(obj), objects.name(obj)) for resource, obj in wanted}
    left: list[str] = []
    for kind in mark.kinds:
        try:
            found = (await client.list(kind, label_selector=f"{mark.label}={mark.value}")).items
        except errors.NotFound:
            continue
        for obj in found:
            if (kind, objects.namespace(obj), objects.name(obj)) in kept:
                continue
            if objects.name(obj) in spared:
                left.append(objects.name(obj))
                continue
            await client.delete(kind, objects.name(obj), objects.namespace(obj), uid=objects.uid(obj))
    return left


def _digest(wanted: Object) -> str:
    return hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def _holds(have: Any, want: Any) -> bool:
    """Whether everything that was wanted is there as it was. Further fields may be others', or defaults."""
    if isinstance(want, dict):
        if not isinstance(have, dict):
            return False
        there = cast(Object, have)
        return all(key in there and _holds(there[key], value) for key, value in cast(Object, want).items())
    if isinstance(want, list):
        items, found = cast("list[Any]", want), objects.sequence(have)
        return len(items) == len(found) and all(map(_holds, found, items))
    return bool(have == want) and isinstance(have, bool) == isinstance(want, bool)
