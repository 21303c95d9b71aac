"""What a server had when it answered a request with a 5xx, and the same brought to another server.

A 5xx often lies in what was there before: an object, its definition, a webhook that cannot be reached. Only a server
that has the same can be asked whether it would answer so too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import aiohttp
import orjson

from tests.conformance import replay
from tests.conformance.replay import Server
from tests.soak.fuzz.request import Request

Object = dict[str, Any]

_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS: Final = (f"{_ADMISSION}/mutatingwebhookconfigurations", f"{_ADMISSION}/validatingwebhookconfigurations")
_RIGHTS: Final = "/apis/rbac.authorization.k8s.io/v1"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAMESPACES: Final = "/api/v1/namespaces"
_KEPT: Final = ("name", "namespace", "labels", "annotations", "finalizers")
_MOST: Final = 50
"""Objects of a collection that are brought."""
_LOOKS: Final = 100
_LOOK_SECONDS: Final = 0.05
_SETTLE_SECONDS: Final = 1.5
"""Until an apiserver has heard of its own webhooks, which it does through a watch."""


@dataclass(frozen=True, slots=True)
class Situation:
    definitions: tuple[Object, ...]
    objects: tuple[tuple[str, Object], ...]
    """What the request is about, each with the path of its collection."""
    siblings: tuple[tuple[str, Object], ...]
    """Others of the same collections."""
    webhooks: tuple[tuple[str, Object], ...]


NOTHING: Final = Situation((), (), (), ())


async def taken(server: Server, request: Request) -> Situation:
    """What the request is about: what is on its path and around it, the definition of its kind, all webhooks."""
    async with _client(server) as client:
        objects: list[tuple[str, Object]] = []
        siblings: list[tuple[str, Object]] = []
        for path in dict.fromkeys(_around(request.path)):
            for collection, obj in await client.at(path):
                is_about = collection != path or obj["metadata"]["name"] == _named_in(request.body)
                (objects if is_about else siblings).append((collection, obj))
        # A namespace before what is in it.
        objects.sort(key=lambda pair: len(pair[0]))
        group, plural = _kind(request.path)
        definitions = [each for _, each in await client.at(f"{_DEFINITIONS}/{plural}.{group}")] if plural else []
        webhooks = [pair for path in WEBHOOKS for pair in await client.at(path)]
    return Situation(tuple(definitions), tuple(objects), tuple(siblings), tuple(webhooks))


@contextlib.asynccontextmanager
async def brought(server: Server, situation: Situation, *, with_webhooks: bool) -> AsyncGenerator[None]:
    """No webhook is left afterwards, for it would meet whatever follows."""
    webhooks = situation.webhooks if with_webhooks else ()
    async with _client(server) as client:
        for definition in situation.definitions:
            await client.put_in_place(_DEFINITIONS, definition)
            await client.served(definition)
        for collection, obj in situation.objects:
            await client.put_in_place(collection, obj)
        for collection, obj in situation.siblings:
            await client.create(collection, obj)
        for collection, obj in webhooks:
            await client.put_in_place(collection, obj)
        if webhooks:
            await asyncio.sleep(_SETTLE_SECONDS)
        try:
            yield
        finally:
            await client.remove_webhooks()


def _around(path: str) -> Iterator[str]:
    """The path, and what it lies in: a subresource in its object, an object in its collection and its namespace."""
    parts = path.strip("/").split("/")
    root = 2 if parts[0] == "api" else 3
    if parts[root : root + 1] == ["namespaces"] and len(parts) > root + 1:
        yield f"/api/v1/namespaces/{parts[root + 1]}"
        # Whoever may do something there may do it at the other server.
        for plural in ("roles", "rolebindings"):
            yield f"{_RIGHTS}/namespaces/{parts[root + 1]}/{plural}"
    for length in range(len(parts), max(root, len(parts) - 3), -1):
        yield "/" + "/".join(parts[:length])


def _named_in(body: bytes | None) -> str:
    try:
        return str(orjson.loads(body or b"")["metadata"]["name"])
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return ""


def _kind(path: str) -> tuple[str, str]:
    """Group and plural; an empty plural where the path has none."""
    match path.strip("/").split("/"):
        case ["apis", group, _, "namespaces", _, plural, *_] | ["apis", group, _, plural, *_]:
            return group, plural
        case _:
            return "", ""


class _Client:
    def __init__(self, session: aiohttp.ClientSession, server: Server) -> None:
        self._session = session
        self._server = server
        self._headers = {"Authorization": f"Bearer {server.tokens[replay.ADMIN]}"}

    async def _ask(self, method: str, path: str, body: Object | None = None, **headers: str) -> tuple[int, Object]:
        async with self._session.request(
            method, self._server.url + path, json=body, headers={**self._headers, **headers}
        ) as response:
            is_json = response.content_type == "application/json"
            answer: Any = await response.json() if is_json else None
            return response.status, cast("Object", answer) if isinstance(answer, dict) else {}

    async def at(self, path: str) -> list[tuple[str, Object]]:
        """The object of a path, or those of a collection, each with its collection's path; none where there is none."""
        code, answer = await self._ask("GET", f"{path}?limit={_MOST}")
        if code != 200:
            return []
        if "items" in answer and str(answer.get("kind")).endswith("List"):
            about = {"apiVersion": answer["apiVersion"], "kind": str(answer["kind"]).removesuffix("List")}
            return [(path, {**about, **each}) for each in cast("list[Object]", answer["items"] or [])]
        return [(path.rpartition("/")[0], answer)] if cast("Object", answer.get("metadata", {})).get("name") else []

    async def put_in_place(self, collection: str, obj: Object) -> None:
        """In place of what is there; what a server refuses to take is left out."""
        name = obj["metadata"]["name"]
        path = f"{collection}/{name}"
        for _ in range(_LOOKS):
            if await self.create(collection, obj) or await self._is_as(path, obj):
                return
            if collection == _NAMESPACES:
                # Something in it may hold it for good.
                await self._ask("PUT", f"{path}/finalize", {**obj, "metadata": {"name": name}, "spec": {}})
            await self._let_go(path)

    async def create(self, collection: str, obj: Object) -> bool:
        """As it was elsewhere; false if there is one of that name."""
        metadata = cast("Object", obj["metadata"])
        fresh = {**obj, "metadata": {key: metadata[key] for key in _KEPT if key in metadata}}
        code, created = await self._ask("POST", collection, fresh)
        if code == 201 and "status" in obj and obj["status"] != created.get("status"):
            path = f"{collection}/{metadata['name']}/status"
            await self._ask("PUT", path, {**created, "status": obj["status"]})
        return code != 409

    async def _is_as(self, path: str, wanted: Object) -> bool:
        _, present = await self._ask("GET", path)
        if "deletionTimestamp" in present.get("metadata", {}):
            return False
        apart = {"metadata": None, "status": None}
        return path.rpartition("/")[0] == _NAMESPACES or {**present, **apart} == {**wanted, **apart}

    async def remove_webhooks(self) -> None:
        present = [f"{path}/{obj['metadata']['name']}" for path in WEBHOOKS for _, obj in await self.at(path)]
        for path in present:
            await self._let_go(path)
        if present:
            await asyncio.sleep(_SETTLE_SECONDS)

    async def _let_go(self, path: str) -> None:
        """Deletes it, whatever holds it."""
        await self._ask("DELETE", path, {"gracePeriodSeconds": 0})
        unheld = {"metadata": {"finalizers": None}}
        code, _ = await self._ask("PATCH", path, unheld, **{"Content-Type": replay.MEDIA["merge"]})
        if code != 404:
            await asyncio.sleep(_LOOK_SECONDS)

    async def served(self, definition: Object) -> None:
        spec = definition["spec"]
        versions = [each["name"] for each in spec["versions"] if each["served"]]
        for version in versions:
            path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}?limit=1"
            for _ in range(_LOOKS):
                if (await self._ask("GET", path))[0] != 404:
                    break
                await asyncio.sleep(_LOOK_SECONDS)


@contextlib.asynccontextmanager
async def _client(server: Server) -> AsyncGenerator[_Client]:
    async with replay.session() as session:
        yield _Client(session, server)
