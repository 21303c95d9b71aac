"""The passwords of a RedisServer, in the Secret that it names; and how the application's becomes another.

A password is another in steps, each recorded in the Secret before it is acted on, so that a crash at any point goes on
from there and never locks anybody out:

    next-password        made up; the servers accept it beside the old one
    password             the new one, which applications are given; `previous-password` is still good
    (nothing else)       after the overlap, and sessions that the old one opened are ended

What a rotation was asked for by, when it was and until when the old password is good are annotations of the Secret,
written together with the passwords.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import secrets
from collections.abc import Mapping
from typing import Final

from steelyard.api import durations
from steelyard.api.redisserver import RedisServerSpec, Rotation
from steelyard.frozen import frozen
from steelyard.kube import errors, moments, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS
from steelyard.providers.redis.accounts import Passwords
from steelyard.providers.redis.configuration import ENDPOINT

TYPE: Final = "connection.crossplane.io/v1alpha1"
MOST_OFTEN: Final = 60.0
"""Seconds between two rotations that nobody asks for, at least."""
_FOR: Final = "redis.steelyard.dev/rotated-for"
_AT: Final = "redis.steelyard.dev/rotated-at"
_UNTIL: Final = "redis.steelyard.dev/previous-until"


class NotOurs(Exception):
    """A Secret of that name is there, and is somebody else's."""


@frozen
class Credentials:
    username: str
    password: str
    administrator: str
    next: str = ""
    previous: str = ""
    rotated_for: str = ""
    rotated_at: str = ""
    previous_until: str = ""

    @property
    def passwords(self) -> Passwords:
        accepted = tuple(dict.fromkeys(filter(None, (self.password, self.next, self.previous))))
        return Passwords(accepted, self.administrator)

    def due_in(self, rotation: Rotation, now: float) -> float | None:
        """Seconds until something about the passwords is to be done; None if nothing is foreseen."""
        is_asked_for = bool(rotation.trigger) and rotation.trigger != self.rotated_for
        if self.next or is_asked_for:
            return 0.0
        moments_due = [moments.seconds(self.previous_until)] if self.previous and self.previous_until else []
        if rotation.every and not self.previous:
            moments_due.append(
                moments.seconds(self.rotated_at) + max(MOST_OFTEN, durations.seconds(rotation.every) or 0.0)
            )
        return max(0.0, min(moments_due) - now) if moments_due else None

    def step(self, rotation: Rotation, now: float) -> Credentials | None:
        """What they are to become now; None if they stay as they are. To be called once every server accepts what these
        accept."""
        due = self.due_in(rotation, now)
        if due is None or due > 0:
            return None
        if self.next:
            until = moments.text(now + (durations.seconds(rotation.overlap) or 0.0))
            return dataclasses.replace(
                self,
                password=self.next,
                previous=self.password,
                next="",
                rotated_for=rotation.trigger or self.rotated_for,
                rotated_at=moments.text(now),
                previous_until=until,
            )
        if self.previous and moments.seconds(self.previous_until) <= now:
            return dataclasses.replace(self, previous="", previous_until="")
        # A rotation while an older password is still good ends that one's time: only one is kept beside the new.
        return dataclasses.replace(self, next=made_up())


def made_up() -> str:
    """Letters, digits, - and _: good in a URL, a shell and a file as it is."""
    return secrets.token_urlsafe(32)


async def ensure(client: Client, obj: Object, spec: RedisServerSpec, port: int, now: float) -> Credentials:
    """Those of the object; made up where there are none. Raises `NotOurs`."""
    place = spec.write_connection_secret_to_ref
    try:
        found = await client.get(SECRETS, place.name, place.namespace)
    except errors.NotFound:
        found = None
    if found is not None and (objects.controller_of(found) or {}).get("uid") != objects.uid(obj):
        raise NotOurs(f"Secret {place.namespace}/{place.name} is not this cache's. If it is somebody else's, delete it")
    rotation = spec.for_provider.rotation
    known = _read(found) if found is not None else None
    wanted = known or Credentials(
        spec.for_provider.username,
        made_up(),
        made_up(),
        rotated_for=rotation.trigger or "",
        rotated_at=moments.text(now),
    )
    wanted = dataclasses.replace(wanted, username=spec.for_provider.username)
    await _write(client, obj, spec, port, wanted, found)
    return wanted


async def write(client: Client, obj: Object, spec: RedisServerSpec, port: int, wanted: Credentials) -> None:
    place = spec.write_connection_secret_to_ref
    await _write(client, obj, spec, port, wanted, await client.get(SECRETS, place.name, place.namespace))


async def erase(client: Client, obj: Object, spec: RedisServerSpec) -> None:
    """The garbage collector would, too; but what a deletion leaves is better gone when it is over."""
    place = spec.write_connection_secret_to_ref
    try:
        found = await client.get(SECRETS, place.name, place.namespace)
        if (objects.controller_of(found) or {}).get("uid") == objects.uid(obj):
            await client.delete(SECRETS, place.name, place.namespace, uid=objects.uid(found))
    except errors.NotFound:
        return


async def _write(
    client: Client, obj: Object, spec: RedisServerSpec, port: int, wanted: Credentials, found: Object | None
) -> None:
    place = spec.write_connection_secret_to_ref
    data = {key: base64.b64encode(value.encode()).decode() for key, value in _data(wanted, port).items()}
    annotations = {_FOR: wanted.rotated_for, _AT: wanted.rotated_at, _UNTIL: wanted.previous_until}
    if found is None:
        await _namespace(client, place.namespace)
        owner = objects.owner_reference(obj, controller=True, block_owner_deletion=True)
        metadata: Object = {"name": place.name, "namespace": place.namespace, "ownerReferences": [owner]}
        metadata["annotations"] = {key: value for key, value in annotations.items() if value}
        await client.create(
            SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE, "data": data}
        )
        return
    present = objects.annotations(found)
    changed = {key: value or None for key, value in annotations.items() if (present.get(key) or "") != value}
    old = objects.mapping(found.get("data"))
    if data == old and not changed:
        return
    patch: Object = {
        "metadata": {
            "uid": objects.uid(found),
            "resourceVersion": objects.resource_version(found),
            "annotations": changed,
        },
        "data": {**dict.fromkeys(old), **data},
    }
    await client.patch(SECRETS, place.name, patch, place.namespace)


def _data(wanted: Credentials, port: int) -> Mapping[str, str]:
    found = {
        "username": wanted.username,
        "password": wanted.password,
        "endpoint": ENDPOINT,
        "host": ENDPOINT,
        "port": str(port),
        "admin-password": wanted.administrator,
        "next-password": wanted.next,
        "previous-password": wanted.previous,
    }
    return {key: value for key, value in found.items() if value}


def _read(secret: Object) -> Credentials | None:
    """None for one that lacks what it must have; it is filled anew."""
    try:
        data = {
            key: base64.b64decode(str(value), validate=True).decode()
            for key, value in objects.mapping(secret.get("data")).items()
        }
    except (binascii.Error, UnicodeDecodeError):
        return None
    if not data.get("password") or not data.get("admin-password"):
        return None
    annotations = objects.annotations(secret)
    return Credentials(
        username=data.get("username", ""),
        password=data["password"],
        administrator=data["admin-password"],
        next=data.get("next-password", ""),
        previous=data.get("previous-password", ""),
        rotated_for=annotations.get(_FOR, ""),
        rotated_at=annotations.get(_AT) or str(objects.metadata(secret).get("creationTimestamp") or ""),
        previous_until=annotations.get(_UNTIL, ""),
    )


async def _namespace(client: Client, name: str) -> None:
    try:
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except errors.AlreadyExists:
        return
