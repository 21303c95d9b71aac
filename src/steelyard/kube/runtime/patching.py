"""The smallest JSON merge patch between two states of an object, and sending it only when there is one.

Reconcilers compute the status they want and call `patch_status` once at the end; when nothing differs there is no
request, so an idle platform writes nothing.
"""

from __future__ import annotations

from typing import Any, cast

from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource


def merge_patch(before: Object, after: Object) -> Object:
    """What RFC 7386 needs to turn one into the other; empty when they are equal.

    >>> merge_patch({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2, "d": 4}})
    {'b': {'d': 4}, 'a': None}

    A value of None means absent, in both arguments: a merge patch cannot set a null.
    """
    patch: Object = {}
    for key, wanted in after.items():
        current = before.get(key)
        if wanted == current and type(wanted) is type(current):
            continue
        if isinstance(wanted, dict) and isinstance(current, dict):
            inner = merge_patch(cast(Object, current), cast(Object, wanted))
            if inner:
                patch[key] = inner
        elif isinstance(wanted, dict):
            patch[key] = without_nulls(wanted)
        else:
            patch[key] = wanted
    for key, current in before.items():
        if key not in after and current is not None:
            patch[key] = None
    return patch


def without_nulls(value: Any) -> Any:
    """Fields of None left out, at any depth of objects."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in cast(Object, value).items() if inner is not None}
    return value


async def patch(
    client: Client, resource: Resource, before: Object, after: Object, *, optimistic: bool = True
) -> Object:
    """Brings everything but the status from `before` to `after`; returns the new object, or `before` without request.

    With `optimistic`, somebody else's write since `before` raises `errors.Conflict`.
    """
    difference = merge_patch(_without_status(before), _without_status(after))
    return await _send(client, resource, before, difference, subresource="", optimistic=optimistic)


async def patch_status(
    client: Client, resource: Resource, before: Object, status: Object, *, optimistic: bool = True
) -> Object:
    """Brings the status of `before` to `status`; returns the new object, or `before` when there was nothing to do."""
    inner = merge_patch(objects.mapping(before.get("status")), status)
    difference: Object = {"status": inner} if inner else {}
    return await _send(client, resource, before, difference, subresource="status", optimistic=optimistic)


async def _send(
    client: Client, resource: Resource, before: Object, difference: Object, *, subresource: str, optimistic: bool
) -> Object:
    if not difference:
        return before
    metadata = objects.mapping(difference.get("metadata"))
    identity: Object = {"uid": objects.uid(before)}
    if optimistic:
        identity["resourceVersion"] = objects.resource_version(before)
    difference["metadata"] = {**metadata, **identity}
    return await client.patch(
        resource, objects.name(before), difference, objects.namespace(before), subresource=subresource
    )


def _without_status(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "status"}
