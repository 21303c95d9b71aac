"""Connection Secrets: what a login needs, where its Role says, controlled by the Role so that it goes with it.

The keys are provider-sql's: username, password, endpoint, port. One more, sslmode, is there only for a server that the
platform runs itself and that has no TLS.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import patching
from steelyard.providers.postgres.problems import Missing, Taken
from steelyard.providers.postgres.servers import Place, decoded

SECRET_TYPE: Final = "connection.crossplane.io/v1alpha1"  # noqa: S105 (the type of a Secret)
ROTATED_FOR: Final = "steelyard.dev/rotated-for"
"""Annotation of the Secret: the trigger of the rotation that its password is from."""


def details(place: Place, username: str, password: str) -> dict[str, str]:
    found = {
        "username": username,
        "password": password,
        "endpoint": place.endpoint,
        "port": str(place.endpoint_port),
    }
    return {**found, "sslmode": place.endpoint_ssl_mode} if place.endpoint_ssl_mode else found


def place_of(obj: Object) -> tuple[str, str] | None:
    """Namespace and name of the Secret that the object asks for."""
    reference = objects.mapping(objects.at(obj, "spec", "writeConnectionSecretToRef"))
    namespace, name = str(reference.get("namespace") or ""), str(reference.get("name") or "")
    return (namespace, name) if namespace and name else None


async def read(client: Client, obj: Object) -> Object | None:
    """The object's Secret; None where there is none yet. Raises `Taken` where it is another's."""
    asked = place_of(obj)
    if asked is None:
        return None
    namespace, name = asked
    try:
        found = await client.get(SECRETS, name, namespace)
    except errors.NotFound:
        return None
    owner = objects.controller_of(found)
    is_free = owner is None and found.get("type") == SECRET_TYPE
    if not is_free and (owner is None or owner.get("uid") != objects.uid(obj)):
        raise Taken(
            f"Secret {namespace}/{name}, into which the credentials go, is somebody else's; delete it, or name another "
            "in spec.writeConnectionSecretToRef"
        )
    return found


async def publish(
    client: Client, obj: Object, found: Object | None, values: Mapping[str, str], *, rotated_for: str = ""
) -> None:
    """Writes the Secret where it differs. Other keys in it stay."""
    asked = place_of(obj)
    if asked is None:
        return
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    owner = objects.owner_reference(obj, controller=True, block_owner_deletion=True)
    annotations = {ROTATED_FOR: rotated_for} if rotated_for else {}
    if found is None:
        namespace, name = asked
        metadata: Object = {"name": name, "namespace": namespace, "ownerReferences": [owner]}
        if annotations:
            metadata["annotations"] = annotations
        await client.create(
            SECRETS,
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": SECRET_TYPE, "data": encoded},
        )
        return
    wanted = objects.copy(found)
    wanted["data"] = {**objects.mapping(found.get("data")), **encoded}
    if objects.controller_of(found) is None:
        wanted["metadata"]["ownerReferences"] = [*objects.owner_references(found), owner]
    if annotations:
        wanted["metadata"]["annotations"] = {**objects.annotations(found), **annotations}
    await patching.patch(client, SECRETS, found, wanted)


async def referred(client: Client, reference: Object) -> str:
    """The value that a {namespace, name, key} names."""
    namespace, name, key = (str(reference.get(each) or "") for each in ("namespace", "name", "key"))
    try:
        found = decoded(await client.get(SECRETS, name, namespace))
    except errors.NotFound:
        raise Missing(f"there is no Secret {namespace}/{name} with the password") from None
    if not found.get(key):
        raise Missing(f"Secret {namespace}/{name} has no {key} with the password")
    return found[key]
