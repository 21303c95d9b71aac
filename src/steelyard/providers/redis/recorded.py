"""What the status of a RedisServer says, read and written: the port, who is the primary, what was reported.

What must survive a crash is recorded before it is acted on; everything else is one patch at the end, and none where
nothing differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from steelyard.api.redisserver import RESOURCE
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.runtime import conditions, patching
from steelyard.kube.runtime.clock import Clock
from steelyard.providers.redis.configuration import ENDPOINT
from steelyard.providers.redis.credentials import Credentials


@frozen
class State:
    port: int = 0
    primary: int = 0
    history: str = ""
    version: str = ""


@frozen
class Said:
    """A condition without its time."""

    type: str
    status: bool
    reason: str
    message: str = ""


@frozen
class Member:
    ordinal: int
    role: Literal["primary", "replica"]
    address: str
    pid: int
    state: Literal["running", "loading", "copying", "down"]

    def to_json(self) -> Object:
        return dict(dataclasses.asdict(self))


def read(obj: Object) -> State:
    found = objects.mapping(objects.at(obj, "status", "atProvider"))
    return State(
        port=int(found.get("port") or 0),
        primary=int(found.get("primary") or 0),
        history=str(found.get("history") or ""),
        version=str(found.get("version") or ""),
    )


def was_ready(obj: Object) -> bool:
    """Whether it ever was: its port and its data are known to somebody."""
    return conditions.find(obj, "Ready") is not None and bool(read(obj).version)


async def write(
    client: Client,
    obj: Object,
    state: State,
    said: Sequence[Said],
    clock: Clock,
    *,
    members: Sequence[Member] | None = None,
    credentials: Credentials | None = None,
    withdrawn: Sequence[str] = (),
) -> Object:
    """The object as it is afterwards. Conditions of the types `withdrawn` are taken away."""
    status = objects.mapping(obj.get("status"))
    provider: Object = {
        **objects.mapping(status.get("atProvider")),
        "host": ENDPOINT,
        "port": state.port,
        "primary": state.primary,
        "history": state.history or None,
        "version": state.version or None,
    }
    if members is not None:
        provider["servers"] = [each.to_json() for each in members]
    if credentials is not None:
        provider["rotation"] = {
            "trigger": credentials.rotated_for or None,
            "at": credentials.rotated_at or None,
            "oldUntil": credentials.previous_until or None,
        }
    generation = objects.generation(obj)
    updates: list[Object] = [
        {
            "type": each.type,
            "status": "True" if each.status else "False",
            "reason": each.reason,
            "message": each.message,
            **({"observedGeneration": generation} if generation else {}),
        }
        for each in said
    ]
    found = conditions.merge(obj, updates, now=clock.now())
    for type_ in withdrawn:
        found = conditions.remove(found, type_)
    wanted: Object = {**status, "atProvider": provider if state.port else None, "conditions": found}
    return await patching.patch_status(client, RESOURCE, obj, patching.without_nulls(wanted))
