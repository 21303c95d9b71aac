"""What is known of a move that has begun: a ConfigMap at the source, written before anything else is.

    pausing -> copying -> removing -> resuming -> (gone)
        \\         \\--> cancelling --> (gone)
         \\-----------/

One move at a time goes out of an API. Whoever runs the command again goes on where it stands; who names another target
or other namespaces is refused.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast, get_args

import orjson

from steelyard.frozen import frozen
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import CONFIG_MAPS, Resource

Phase: TypeAlias = Literal["pausing", "copying", "removing", "resuming", "cancelling"]
NAMESPACE: Final = "kube-system"
NAME: Final = "steelyard-move"
_KEY: Final = "move.json"
_LAST_TO_CANCEL: Final = ("pausing", "copying", "cancelling")


class Unreadable(Exception):
    """The record is there and says nothing that is understood here."""


@frozen
class Record:
    id: str
    phase: Phase
    target: str
    """The identity of the API that things go to: the UID of its namespace kube-system."""
    server: str
    """Its address, for people."""
    namespaces: tuple[str, ...] | None
    """None for all."""
    left_behind: tuple[tuple[str, str, str], ...] = ()
    """Claims that stay: kind, namespace, name."""
    kinds: tuple[Resource, ...] = ()
    """Of what has been copied; known from copying on."""

    @property
    def can_be_cancelled(self) -> bool:
        return self.phase in _LAST_TO_CANCEL

    @property
    def scope(self) -> str:
        if self.namespaces is None:
            return "all namespaces"
        return f"namespace{'s' if len(self.namespaces) > 1 else ''} {', '.join(self.namespaces)}"


async def identity(client: Client) -> str:
    """By which one API is told from another, whatever address it is reached at."""
    from steelyard.kube.resources import NAMESPACES

    return objects.uid(await client.get(NAMESPACES, NAMESPACE))


async def read(client: Client) -> Record | None:
    """Raises Unreadable."""
    try:
        found = await client.get(CONFIG_MAPS, NAME, NAMESPACE)
    except errors.NotFound:
        return None
    try:
        content = objects.mapping(orjson.loads(str(objects.at(found, "data", _KEY) or "")))
        namespaces = content["namespaces"]
        if content["phase"] not in get_args(Phase):
            raise ValueError(content["phase"])
        return Record(
            str(content["id"]),
            cast(Phase, content["phase"]),
            str(content["target"]),
            str(content["server"]),
            None if namespaces is None else tuple(map(str, namespaces)),
            tuple(cast("tuple[str, str, str]", tuple(map(str, each))) for each in content["leftBehind"]),
            tuple(Resource(*each) for each in content["kinds"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(
            f"ConfigMap {NAMESPACE}/{NAME} is the record of a move, and was made by another version or damaged: {error}"
        ) from error


async def write(client: Client, record: Record, *, is_new: bool = False) -> None:
    content: Object = {
        "id": record.id,
        "phase": record.phase,
        "target": record.target,
        "server": record.server,
        "namespaces": record.namespaces,
        "leftBehind": record.left_behind,
        "kinds": [[each.group, each.version, each.plural, each.kind, each.namespaced] for each in record.kinds],
    }
    data = {_KEY: orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()}
    if not is_new:
        await client.patch(CONFIG_MAPS, NAME, {"data": data}, NAMESPACE)
        return
    metadata: Object = {"name": NAME, "namespace": NAMESPACE}
    await client.create(
        CONFIG_MAPS,
        {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata, "data": data},
    )


async def remove(client: Client) -> None:
    try:
        await client.delete(CONFIG_MAPS, NAME, NAMESPACE)
    except errors.NotFound:
        return
