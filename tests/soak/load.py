"""Clients that create, update, patch, apply and delete for as long as the server lives; and the kinds they use."""

from __future__ import annotations

import asyncio
import base64
import random
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from tests.soak.ledger import ABSENT, Found, Ledger
from tests.soak.site import Site

NAMESPACE: Final = "soak"
KEYS_EACH: Final = 12
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_JSON_PATCH: Final = "application/json-patch+json"
_ACCEPTED: Final = frozenset((200, 201))


@dataclass(frozen=True, slots=True)
class Kind:
    """How a number is kept in an object of the kind: three times, in fields that one write sets together."""

    api_version: str
    kind: str
    plural: str
    field: str
    encoded: bool = False

    @property
    def collection(self) -> str:
        root = "/apis/" if "/" in self.api_version else "/api/"
        return f"{root}{self.api_version}/namespaces/{NAMESPACE}/{self.plural}"

    def content(self, number: int) -> dict[str, str]:
        texts = {"first": str(number), "text": _text(number), "last": str(number)}
        return {key: base64.b64encode(each.encode()).decode() if self.encoded else each for key, each in texts.items()}

    def object(self, name: str, number: int, revision: int = 0) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": name}
        if revision:
            metadata["resourceVersion"] = str(revision)
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": metadata,
            self.field: self.content(number),
        }

    def key(self, obj: dict[str, Any]) -> str:
        return f"{self.plural}/{obj['metadata']['name']}"

    def found(self, obj: dict[str, Any]) -> Found:
        content = obj[self.field]
        first = base64.b64decode(content["first"]).decode() if self.encoded else content["first"]
        number = int(first)
        return Found(number, int(obj["metadata"]["resourceVersion"]), content == self.content(number))


KINDS: Final = (
    Kind("v1", "ConfigMap", "configmaps", "data"),
    Kind("v1", "Secret", "secrets", "data", encoded=True),
    Kind("soak.example.com/v1", "Stone", "stones", "spec"),
)
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "stones.soak.example.com"},
    "spec": {
        "group": "soak.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Stone", "plural": "stones", "singular": "stone", "listKind": "StoneList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string"}}},
                    }
                },
            }
        ],
    },
}


def _text(number: int) -> str:
    """Now and then too large for one page of the database."""
    return f"{number}-" * (2000 if number % 17 == 0 else 20)


class Refused(Exception):
    """The server answered something that the client gave it no reason for."""


class Client:
    """One of several; its keys are nobody else's, so that it knows what every answer must be."""

    def __init__(self, number: int, site: Site, ledger: Ledger, random_: random.Random) -> None:
        self._site = site
        self._ledger = ledger
        self._random = random_
        self._keys = [(kind, f"c{number}-{index}") for kind in KINDS for index in range(KEYS_EACH)]
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Until the server is gone."""
        try:
            while True:
                await self._step()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return
        except Refused as refusal:
            self.wrong.append(str(refusal))

    async def _step(self) -> None:
        kind, name = self._random.choice(self._keys)
        key = f"{kind.plural}/{name}"
        entry = self._ledger.entry(key)
        if entry.number == ABSENT:
            number = self._ledger.attempt(key)
            if self._random.random() < 0.2:
                await self._send(key, "PATCH", f"{_path(kind, name)}?fieldManager=s&force=true",
                                 kind.object(name, number), _APPLY)  # fmt: skip
            else:
                await self._send(key, "POST", kind.collection, kind.object(name, number))
            return
        match self._random.randrange(6):
            case 0:
                self._ledger.attempt_deletion(key)
                await self._send(key, "DELETE", _path(kind, name))
            case 1:
                number = self._ledger.attempt(key)
                patch = {kind.field: kind.content(number)}
                await self._send(key, "PATCH", _path(kind, name), patch, _MERGE)
            case 2:
                number = self._ledger.attempt(key)
                operations = [{"op": "replace", "path": f"/{kind.field}", "value": kind.content(number)}]
                await self._send(key, "PATCH", _path(kind, name), operations, _JSON_PATCH)
            case 3:
                number = self._ledger.attempt(key)
                path = f"{_path(kind, name)}?fieldManager=s&force=true"
                await self._send(key, "PATCH", path, kind.object(name, number), _APPLY)
            case _:
                number = self._ledger.attempt(key)
                await self._send(key, "PUT", _path(kind, name), kind.object(name, number, entry.revision))

    async def _send(
        self, key: str, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> None:
        code, answer = await self._site.call(method, path, body, content_type)
        if code not in _ACCEPTED:
            raise Refused(f"{method} {path}: {code} {answer}")
        revision = int(answer.get("metadata", {}).get("resourceVersion") or 0)
        self.wrong += self._ledger.acknowledge(key, revision)


def _path(kind: Kind, name: str) -> str:
    return f"{kind.collection}/{name}"


async def prepare(site: Site) -> None:
    for path, body in (
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
    ):
        code, answer = await site.call("POST", path, body)
        assert code == 201, answer
    for _ in range(200):
        if (await site.call("GET", KINDS[-1].collection))[0] == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the kind is not served")


async def listed(site: Site, kind: Kind) -> tuple[dict[str, Found], int]:
    """Everything of the kind, and the revision of the list."""
    code, found = await site.call("GET", kind.collection)
    assert code == 200, found
    objects = {kind.key(item): kind.found(item) for item in found["items"]}
    return objects, int(found["metadata"]["resourceVersion"])
