"""Plays one sequence against one server and writes down everything it answered."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import aiohttp
import orjson

from tests.conformance import corpus, picking
from tests.conformance.corpus import Sequence

ADMIN: Final = "admin"
MEDIA: Final = {
    "json": "application/json",
    "merge": "application/merge-patch+json",
    "jsonpatch": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
    "yaml": "application/yaml",
}
FORMS: Final = {
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "partial": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "partiallist": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "aggregated": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "aggregatedbeta": "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "yaml": "application/yaml",
}
UNTIL_SECONDS: Final = 30.0
_QUIET_SECONDS: Final = 0.25
"""How long a drained watch must stay silent after the events that were expected of it."""


class DidNotHappen(Exception):
    """The server never came to the state that the sequence waits for."""


@dataclass(frozen=True)
class Server:
    """`tokens` by user; a user without one calls anonymously. `certificates` are what a client can show instead."""

    name: str
    url: str
    tokens: Mapping[str, str]
    certificates: Mapping[str, ssl.SSLContext] = field(default_factory=dict[str, ssl.SSLContext])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """What sequences may name besides their own: where webhooks are."""


@dataclass
class Exchange:
    step: str
    code: int = 0
    content_type: str = ""
    warnings: list[str] = field(default_factory=list[str])
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    """Those that the step wants to see."""
    is_picked: bool = False
    events: list[Any] = field(default_factory=list[Any])
    """Of a drained watch."""


class Watch:
    """A watch that is read in the background; `events` grows."""

    def __init__(self, response: aiohttp.ClientResponse, *, has_timed_bookmarks: bool = True) -> None:
        self._response = response
        self._has_timed_bookmarks = has_timed_bookmarks
        self.events: list[Any] = []
        self._grown = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while line := await self._response.content.readline():
                event = orjson.loads(line)
                if self._has_timed_bookmarks or not _is_timed_bookmark(event):
                    self.events.append(event)
                    self._grown.set()
        except (aiohttp.ClientError, ValueError, asyncio.CancelledError):
            return

    async def drain(self, expected: int, seconds: float) -> list[Any]:
        deadline = time.monotonic() + seconds
        while len(self.events) < expected and not self._task.done() and time.monotonic() < deadline:
            self._grown.clear()
            await self._wait(deadline - time.monotonic())
        while not self._task.done():
            self._grown.clear()
            if not await self._wait(_QUIET_SECONDS):
                break
        events, self.events = self.events, []
        return events

    async def _wait(self, seconds: float) -> bool:
        waiting = asyncio.create_task(self._grown.wait())
        await asyncio.wait((waiting, self._task), timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return self._grown.is_set()

    async def close(self) -> None:
        self._task.cancel()
        self._response.close()
        await asyncio.gather(self._task, return_exceptions=True)


def _is_timed_bookmark(event: Any) -> bool:
    return at(event, "type") == "BOOKMARK" and at(event, "object.metadata.annotations") is None


def session() -> aiohttp.ClientSession:
    """Speaks to any server of this machine; what is compared is what is said, not who signed it."""
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None, sock_connect=10))


async def prepare(http: aiohttp.ClientSession, server: Server) -> None:
    """Installs the kind that the whole corpus shares."""
    player = _Player(http, server, {})
    await player.install(corpus.widget(), f"/apis/{corpus.GROUP}/v1/namespaces/default/widgets")


async def play(http: aiohttp.ClientSession, server: Server, sequence: Sequence) -> list[Exchange]:
    variables = {**sequence.given(), **server.variables}
    player = _Player(http, server, variables)
    await player.must("POST", "/api/v1/namespaces", _namespace(variables["NS"]))
    if sequence.crd is not None:
        path = variables["G"] if sequence.crd.get("scope") != "Cluster" else f"/apis/{variables['GROUP']}/v1/gears"
        await player.install(corpus.definition(sequence, variables), path)
    try:
        return [await player.step(step) for step in sequence.steps]
    finally:
        await player.close()


def _namespace(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


class _Player:
    def __init__(self, http: aiohttp.ClientSession, server: Server, variables: dict[str, str]) -> None:
        self._http = http
        self._server = server
        self._variables = variables
        self._watches: dict[str, Watch] = {}

    async def step(self, step: Mapping[str, Any]) -> Exchange:
        if "drain" in step:
            watch = self._watches[step["drain"]]
            events = await watch.drain(int(step.get("events", 0)), float(step.get("seconds", 5)))
            return Exchange(f"events of {step['drain']}", events=events)
        if "watch" in step:
            return await self._open(step)
        if "pause" in step:
            # `second` is until the clock's next second, after which requests for a while carry the same time.
            seconds = 1.01 - time.time() % 1 if step["pause"] == "second" else float(step["pause"])
            await asyncio.sleep(seconds)
            return Exchange("pause")
        exchange = await self._until(step) if "until" in step else await self._once(step)
        for name, path in cast("dict[str, str]", step.get("save") or {}).items():
            self._variables[name] = (
                exchange.headers[path[1:].title()] if path[0] == "@" else str(at(exchange.body, path))
            )
        return _cut(exchange, self._filled_cut(step))

    def _filled_cut(self, step: Mapping[str, Any]) -> Mapping[str, Any]:
        """The places that the step names may hold variables: `$NS` is in the names of a custom kind's schemas."""
        return {**step, **{key: corpus.filled(step[key], self._variables) for key in ("pick", "drop") if key in step}}

    async def _once(self, step: Mapping[str, Any]) -> Exchange:
        method, _, path = str(step["do"]).partition(" ")
        variables = self._variables | ({"PADDING": "x" * int(step["padding"])} if "padding" in step else {})
        path = corpus.expand(path, variables)
        body = step.get("body")
        data = None
        if "raw" in step:
            data = corpus.expand(str(step["raw"]), variables).encode()
        elif body is not None:
            data = orjson.dumps(corpus.filled(body, variables))
        shown = self._server.certificates[step["cert"]] if "cert" in step else None
        return await self._send(str(step["do"]), method, path, data, self._headers(step, data), shown)

    def _headers(self, step: Mapping[str, Any], data: bytes | None) -> dict[str, str]:
        headers: dict[str, str] = {}
        token = self._server.tokens.get(str(step.get("by", "" if "cert" in step else ADMIN)))
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if data is not None:
            headers["Content-Type"] = MEDIA[step.get("as", "json")]
        headers["Accept"] = FORMS[step["form"]] if "form" in step else "application/json"
        given = cast("dict[str, str]", corpus.filled(step.get("headers") or {}, self._variables))
        return headers | given

    async def _until(self, step: Mapping[str, Any]) -> Exchange:
        until = cast("dict[str, Any]", corpus.filled(step["until"], self._variables))
        deadline = time.monotonic() + float(until.get("seconds", UNTIL_SECONDS))
        while True:
            exchange = await self._once(step)
            if _holds(exchange, until):
                return exchange
            if time.monotonic() > deadline:
                raise DidNotHappen(f"{step['do']}: never {until}; last answer {exchange.code}: {exchange.body}")
            await asyncio.sleep(0.05)

    async def _open(self, step: Mapping[str, Any]) -> Exchange:
        path = corpus.expand(str(step["path"]), self._variables)
        headers = self._headers(step, None)
        label = f"watch {step['path']}"
        response = await self._http.get(self._server.url + path, headers=headers)
        if response.status != 200:
            return _cut(await _exchange(label, response), step)
        is_timed = step.get("without") != "timed bookmarks"
        self._watches[step["watch"]] = Watch(response, has_timed_bookmarks=is_timed)
        return Exchange(label, response.status, _media(response), response.headers.getall("Warning", []))

    async def _send(
        self,
        label: str,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        shown: ssl.SSLContext | None = None,
    ) -> Exchange:
        skipped = () if "Content-Type" in headers else ("Content-Type",)
        async with self._http.request(
            method,
            self._server.url + path,
            data=data,
            headers=headers,
            skip_auto_headers=skipped,
            ssl=shown if shown is not None else False,
            allow_redirects=False,
        ) as response:
            return await _exchange(label, response)

    async def must(self, method: str, path: str, body: Any) -> None:
        data = orjson.dumps(body) if body is not None else None
        exchange = await self._send(method, method, path, data, self._headers({}, data))
        if exchange.code >= 300:
            raise DidNotHappen(f"{method} {path}: {exchange.code} {exchange.body}")

    async def install(self, definition: Any, path: str) -> None:
        """Creates a CRD and waits until its resource is served for writing: upstream needs a moment."""
        await self.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        await self.step({"do": f"GET {path}", "until": {"code": 200}})
        kind, api_version = definition["spec"]["names"]["kind"], path.split("/")
        probe = {"apiVersion": "/".join(api_version[2:4]), "kind": kind, "metadata": {"name": "Not A Name"}}
        await self.step({"do": f"POST {path}?dryRun=All", "body": probe, "until": {"code": 422}})

    async def close(self) -> None:
        for watch in self._watches.values():
            await watch.close()


async def _exchange(label: str, response: aiohttp.ClientResponse) -> Exchange:
    raw = await response.read()
    try:
        body = orjson.loads(raw) if raw else None
    except orjson.JSONDecodeError:
        body = raw.decode("utf-8", "replace")
    warnings = response.headers.getall("Warning", [])
    headers = {name.title(): value for name, value in response.headers.items()}
    return Exchange(label, response.status, _media(response), warnings, body, headers)


def _cut(exchange: Exchange, step: Mapping[str, Any]) -> Exchange:
    """The part of the answer that the step compares: everything but most headers, unless it says otherwise."""
    body = exchange.body
    if "drop" in step:
        body = picking.drop(body, step["drop"])
    if "pick" in step:
        body = picking.pick(body, step["pick"])
    headers = {name: exchange.headers.get(name.title(), "") for name in cast("list[str]", step.get("see") or [])}
    return dataclasses.replace(exchange, body=body, headers=headers, is_picked="pick" in step)


def _media(response: aiohttp.ClientResponse) -> str:
    return response.headers.get("Content-Type", "")


def _holds(exchange: Exchange, until: Mapping[str, Any]) -> bool:
    if "code" in until and exchange.code != until["code"]:
        return False
    if "warnings" in until and len(exchange.warnings) != until["warnings"]:
        return False
    if "has" in until and until["has"] not in str(exchange.body):
        return False
    return "at" not in until or at(exchange.body, str(until["at"])) == until.get("is")


def at(value: Any, path: str) -> Any:
    """`status.conditions.0.type` of a JSON value; None where there is no such place. `#` is the length of a list, and
    `status.conditions.Ready` the entry of that type.
    """
    for part in path.split("."):
        if part == "#":
            value = len(cast("list[Any]", value)) if isinstance(value, list) else None
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            if part.isdecimal():
                value = items[int(part)] if int(part) < len(items) else None
            else:
                value = next((each for each in items if at(each, "type") == part), None)
        elif isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(part)
        else:
            return None
    return value
