"""References of provider-sql's kinds: `databaseRef` and `databaseSelector` become `database`, and so on.

As Crossplane does it: a value that is there stays, unless the reference's policy says to resolve it always. What is
found is written into the spec, with the reference that a selector led to.
"""

from __future__ import annotations

from typing import Final

from steelyard.api.crossplane import DATABASES, ROLES, SCHEMAS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import patching
from steelyard.providers.postgres import records
from steelyard.providers.postgres.problems import Missing

_FIELDS: Final = (("database", DATABASES), ("schema", SCHEMAS), ("role", ROLES), ("memberOf", ROLES))


async def resolve(client: Client, resource: Resource, obj: Object) -> Object:
    """The object with its references resolved; written where that changed anything."""
    parameters = objects.mapping(objects.at(obj, "spec", "forProvider"))
    found: Object = {}
    for name, kind in _FIELDS:
        reference = objects.mapping(parameters.get(f"{name}Ref"))
        selector = objects.mapping(parameters.get(f"{name}Selector"))
        policy = objects.mapping((reference or selector).get("policy"))
        if not (reference or selector) or (parameters.get(name) and policy.get("resolve") != "Always"):
            continue
        target = await _target(client, obj, kind, reference, selector)
        if target is None:
            if policy.get("resolution") == "Optional":
                continue
            raise Missing(f"spec.forProvider.{name}: nothing is found by its reference")
        found[name] = records.external_name(target)
        found[f"{name}Ref"] = {**reference, "name": objects.name(target)}
    if not found:
        return obj
    wanted = objects.copy(obj)
    wanted["spec"]["forProvider"].update(found)
    return await patching.patch(client, resource, obj, wanted)


async def _target(client: Client, obj: Object, kind: Resource, reference: Object, selector: Object) -> Object | None:
    if reference.get("name"):
        try:
            return await client.get(kind, str(reference["name"]))
        except errors.NotFound:
            return None
    labels = {str(key): str(value) for key, value in objects.mapping(selector.get("matchLabels")).items()}
    controller = objects.controller_of(obj) or {}
    for candidate in objects.by_name((await client.list(kind)).items):
        if not objects.matches(labels, candidate):
            continue
        owner = objects.controller_of(candidate) or {}
        if selector.get("matchControllerRef") and (not owner or owner.get("uid") != controller.get("uid")):
            continue
        return candidate
    return None
