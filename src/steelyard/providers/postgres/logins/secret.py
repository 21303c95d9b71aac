"""The Secret with the login in use: written whole in one request, so that nobody reads half of the old and half of the
new.

It is controlled by the TemporaryLogin and goes with it. One of that name that is somebody else's is never written to.
"""

from __future__ import annotations

import base64
import datetime
import urllib.parse
from typing import Final

from steelyard.api.databases import LOGINS, SecretPlace, TemporaryLoginSpec
from steelyard.kube import errors, objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.runtime.cached import CachedClient
from steelyard.providers.postgres.logins.plan import Login
from steelyard.providers.postgres.problems import Taken
from steelyard.providers.postgres.servers import Place, decoded

EXPIRES_AT: Final = "expires-at"


def content(spec: TemporaryLoginSpec, place: Place, login: Login, password: str, ssl_mode: str) -> dict[str, str]:
    quoted = urllib.parse.quote(password, safe="")
    user, database = urllib.parse.quote(login.name, safe=""), urllib.parse.quote(spec.database, safe="")
    host = f"[{place.endpoint}]" if ":" in place.endpoint else place.endpoint
    mode = place.endpoint_ssl_mode or ssl_mode
    return {
        "username": login.name,
        "password": password,
        "endpoint": place.endpoint,
        "port": str(place.endpoint_port),
        "database": spec.database,
        "uri": f"postgresql://{user}:{quoted}@{host}:{place.endpoint_port}/{database}?sslmode={mode}",
        EXPIRES_AT: clocks.rfc3339(login.expires_at),
    }


def login_in(values: dict[str, str], *, now: datetime.datetime) -> Login | None:
    """The login that a Secret has, whole and not at its end."""
    try:
        found = Login(values["username"], clocks.parse_rfc3339(values[EXPIRES_AT]))
    except (KeyError, ValueError):
        return None
    is_whole = all(values.get(key) for key in ("password", "endpoint", "port", "database", "uri"))
    return found if is_whole and found.expires_at > now else None


async def read(client: CachedClient, place: SecretPlace, owner: Object) -> dict[str, str]:
    """What the object's Secret says; nothing where there is none, or one of somebody else's."""
    secret = await _get(client, place)
    return decoded(secret) if secret is not None and _is_of(secret, owner) else {}


async def write(client: CachedClient, place: SecretPlace, owner: Object, values: dict[str, str]) -> None:
    data = {key: base64.b64encode(text.encode()).decode() for key, text in values.items()}
    secret = await _get(client, place)
    if secret is None:
        await client.create(SECRETS, _new(place, owner, data))
        return
    if not _is_of(secret, owner):
        raise Taken(
            f"Secret {place.namespace}/{place.name} is there already and is not of this {LOGINS.kind}: delete it, or "
            "name another in spec.writeConnectionSecretToRef"
        )
    if objects.mapping(secret.get("data")) != data:
        await client.update(SECRETS, {**secret, "data": data})


async def delete(client: CachedClient, place: SecretPlace, owner: Object) -> None:
    secret = await _get(client, place)
    if secret is not None and _is_of(secret, owner):
        try:
            await client.delete(SECRETS, place.name, place.namespace, uid=objects.uid(secret))
        except errors.NotFound:
            return


def _new(place: SecretPlace, owner: Object, data: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "connection.crossplane.io/v1alpha1",
        "metadata": {
            "name": place.name,
            "namespace": place.namespace,
            "ownerReferences": [objects.owner_reference(owner, controller=True)],
        },
        "data": data,
    }


def _is_of(secret: Object, owner: Object) -> bool:
    controller = objects.controller_of(secret)
    return controller is not None and controller.get("uid") == objects.uid(owner)


async def _get(client: CachedClient, place: SecretPlace) -> Object | None:
    try:
        return await client.get(SECRETS, place.name, place.namespace)
    except errors.NotFound:
        return None
