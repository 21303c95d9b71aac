"""Adding and taking off a finalizer, each with the resourceVersion as precondition so that none of another is lost."""

from __future__ import annotations

from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource


def has(obj: Object, finalizer: str) -> bool:
    return finalizer in objects.finalizers(obj)


async def ensure(client: Client, resource: Resource, obj: Object, finalizer: str) -> Object:
    """The object with the finalizer; no request when it has it. Raises `errors.Conflict` when `obj` is out of date."""
    if has(obj, finalizer):
        return obj
    return await _patch(client, resource, obj, [*objects.finalizers(obj), finalizer])


async def remove(client: Client, resource: Resource, obj: Object, finalizer: str) -> Object:
    """The object without the finalizer; when it was the last one of an object being deleted, the object is gone."""
    if not has(obj, finalizer):
        return obj
    return await _patch(client, resource, obj, [each for each in objects.finalizers(obj) if each != finalizer])


async def _patch(client: Client, resource: Resource, obj: Object, finalizers: list[str]) -> Object:
    patch: Object = {
        "metadata": {
            "resourceVersion": objects.resource_version(obj),
            "uid": objects.uid(obj),
            "finalizers": finalizers,
        }
    }
    return await client.patch(resource, objects.name(obj), patch, objects.namespace(obj))
