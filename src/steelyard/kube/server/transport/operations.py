"""Operations beside the API's own verbs, each on a path of its own.

Those on the server as a whole, such as a backup, are for `system:masters` only: no rule can grant them to anybody else,
since what they hand out or change is everything. One that is about a single object, such as the console of a machine,
is for whoever may get that object.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from steelyard.kube import errors
from steelyard.kube.objects import Object
from steelyard.kube.server.bodies.answers import Answer
from steelyard.kube.server.call import SYSTEM_MASTERS, User
from steelyard.kube.server.rights import authz
from steelyard.kube.server.rights.authz import Authorizer
from steelyard.kube.server.transport.exchange import Exchange

Perform = Callable[[Mapping[str, str]], AbstractAsyncContextManager[Object | Path]]
"""Does it, with the query parameters, and gives the answer: an object, or a file that is sent as it is."""

_CHUNK: Final = 256 * 1024


class About(NamedTuple):
    """The object that a request is about."""

    group: str
    plural: str
    namespace: str
    name: str


class Operation(NamedTuple):
    method: str
    perform: Perform
    about: Callable[[Mapping[str, str]], About] | None = None
    """Which object it is about, by the query parameters; raises BadRequest. None for the server as a whole."""


Operations = Mapping[str, Operation]
"""By path."""


def authorize(
    operation: Operation, user: User, method: str, path: str, options: Mapping[str, str], authorizer: Authorizer
) -> None:
    """Raises Forbidden, MethodNotAllowed and BadRequest."""
    if operation.about is None and SYSTEM_MASTERS not in user.groups:
        raise authz.forbidden(authz.Attributes(user, method.lower(), path=path))
    if method != operation.method:
        raise errors.MethodNotAllowed("the server does not allow this method on the requested resource")
    if operation.about is not None:
        about = operation.about(options)
        asked = authz.Attributes(user, "get", "", about.group, about.plural, "", about.namespace, about.name)
        authz.require(authorizer, asked)


async def perform(operation: Operation, options: Mapping[str, str], exchange: Exchange) -> Answer | None:
    """The answer, or None where a file has been sent. Fails before the first byte of it, or cuts the connection."""
    async with operation.perform(options) as result:
        if not isinstance(result, Path):
            return Answer(200, orjson.dumps(result))
        try:
            await _send(result, exchange)
        except Exception:
            # The head has gone out: only a cut connection tells the client that the file is not whole.
            exchange.connection.abort()
            raise
        return None


async def _send(path: Path, exchange: Exchange) -> None:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-length", b"%d" % size),
            (b"cache-control", b"no-store"),
        ]
        await exchange.begin(200, headers)
        while not exchange.is_gone and (chunk := await asyncio.to_thread(file.read, _CHUNK)):
            await exchange.send(chunk)
        await exchange.end()
