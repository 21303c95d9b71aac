"""What is known of a move that has begun: a ConfigMap at the source, written before anything else is.

    pausing -> copying -> removing -> resuming -> (gone)
        \\         \\--> cancelling --> (gone)
         \\-----------/

One move at a time goes out of an API. Whoever runs the command again goes on where it stands; who names another target
or other namespaces is refused. A write counts for the record that was read only: of two processes that think that they
have the move, one is stopped.
"""

from __future__ import annotations

import dataclasses
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
MOST_ROOTS: Final = 20_000
"""So many fit into a ConfigMap."""
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
    roots: tuple[str, ...] = ()
    """UIDs of what moves with all that belongs to it. What is made in the namespaces afterwards stays."""
    left_behind: tuple[tuple[str, str, str], ...] = ()
    """Claims that stay: kind, namespace, name."""
    kinds: tuple[Resource, ...] = ()
    """Of what has been copied; known from copying on."""
    revision: str = ""
    """Of the ConfigMap, as it was read or written last."""

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
            tuple(map(str, content["roots"])),
            tuple(cast("tuple[str, str, str]", tuple(map(str, each))) for each in content["leftBehind"]),
            tuple(Resource(*each) for each in content["kinds"]),
            objects.resource_version(found),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(
            f"ConfigMap {NAMESPACE}/{NAME} is the record of a move, and was made by another version or damaged: {error}"
        ) from error


async def create(client: Client, record: Record) -> Record:
    """Raises AlreadyExists where a move has begun."""
    body: Object = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "data": _data(record)}
    made = await client.create(CONFIG_MAPS, {**body, "metadata": {"name": NAME, "namespace": NAMESPACE}})
    return dataclasses.replace(record, revision=objects.resource_version(made))


async def write(client: Client, record: Record) -> Record:
    """Raises Conflict where it has been written since it was read, and NotFound where it is gone."""
    patch: Object = {"metadata": {"resourceVersion": record.revision}, "data": _data(record)}
    written = await client.patch(CONFIG_MAPS, NAME, patch, NAMESPACE)
    return dataclasses.replace(record, revision=objects.resource_version(written))


async def remove(client: Client, record: Record) -> None:
    """Raises Conflict as `write` does."""
    try:
        await client.delete(CONFIG_MAPS, NAME, NAMESPACE, resource_version=record.revision)
    except errors.NotFound:
        return


def _data(record: Record) -> Object:
    content: Object = {
        "id": record.id,
        "phase": record.phase,
        "target": record.target,
        "server": record.server,
        "namespaces": record.namespaces,
        "roots": record.roots,
        "leftBehind": record.left_behind,
        "kinds": [[each.group, each.version, each.plural, each.kind, each.namespaced] for each in record.kinds],
    }
    return {_KEY: orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()}
