"""Caches as applications have them: claimed, connected to by their Secret, looked at from outside."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.api import redis, state
from steelyard.api.redisserver import RESOURCE as SERVERS
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import EVENTS, SECRETS
from steelyard.kube.runtime import conditions
from steelyard.providers.redis import processes
from steelyard.providers.redis.wire import Connection
from tests import inprocess

CLAIMS = redis.resource("steelyard.dev")
NAMESPACE = "default"
CREDENTIALS = "crossplane-system"


def claim(name: str = "shop", **parameters: Any) -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "parameters": {"environment": "dev", "memoryGB": 1, **parameters},
            "writeConnectionSecretToRef": {"name": f"{name}-connection"},
        },
    }


@dataclass
class Cache:
    """A claimed cache."""

    client: Client
    folder: Path
    name: str

    async def claim(self) -> Object:
        return await self.client.get(CLAIMS, self.name, NAMESPACE)

    async def server(self) -> Object:
        return await self.client.get(SERVERS, (await self.claim())["status"]["server"])

    async def provider(self) -> Object:
        return (await self.server())["status"]["atProvider"]

    async def pids(self) -> dict[int, int]:
        """By ordinal."""
        return {each["ordinal"]: each["pid"] for each in (await self.provider())["servers"]}

    async def secret(self) -> dict[str, str]:
        return decoded(await self.client.get(SECRETS, f"{self.name}-connection", NAMESPACE))

    async def credentials(self) -> dict[str, str]:
        return decoded(await self.client.get(SECRETS, f"redis.{NAMESPACE}.{self.name}", CREDENTIALS))

    async def connect(self, password: str = "") -> Connection:
        found = await self.secret()
        return await Connection.open(
            found["host"], int(found["port"]), found["username"], password or found["password"]
        )

    async def administer(self, ordinal: int = 0) -> Connection:
        """As the provider itself does, past what tenants may."""
        found = await self.credentials()
        return await Connection.open(
            f"127.0.82.{ordinal + 1}", int(found["port"]), "steelyard", found["admin-password"]
        )

    async def ask(self, *command: str) -> Any:
        connection = await self.connect()
        try:
            return await connection.call(*command)
        finally:
            connection.close()

    async def set(self, **parameters: Any) -> None:
        await self.client.patch(CLAIMS, self.name, {"spec": {"parameters": parameters}}, NAMESPACE)

    async def annotate(self, **annotations: str) -> None:
        await self.client.patch(CLAIMS, self.name, {"metadata": {"annotations": annotations}}, NAMESPACE)

    async def look(self) -> None:
        """As the provider does by itself after a minute."""
        name = objects.name(await self.server())
        await self.client.patch(SERVERS, name, {"metadata": {"annotations": {"looked": str(id(object()))}}})

    async def is_up_to_date(self) -> bool:
        found = await self.claim()
        is_about_now = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        is_ready = state.of(found).word == state.READY and conditions.is_true(found, "UpToDate")
        if not is_about_now or not is_ready:
            return False
        server = await self.server()
        return not any(conditions.is_false(server, each) for each in ("Ready", "Synced", "Replicated"))

    async def events(self) -> list[str]:
        found = (await self.client.list(EVENTS)).items
        return [
            f"{each['reason']}: {each['message']}" for each in found if each["involvedObject"]["kind"] == "RedisServer"
        ]

    async def delete(self) -> None:
        await self.client.delete(CLAIMS, self.name, NAMESPACE)

        async def is_gone() -> bool:
            with contextlib.suppress(errors.NotFound):
                await self.claim()
                return False
            return True

        await eventually(is_gone)


@contextlib.asynccontextmanager
async def claimed(folder: Path, file: str = "", **parameters: Any) -> AsyncGenerator[Cache]:
    """A cache that is ready, on a platform of its own in this process."""
    async with inprocess.platform(folder, file) as client:
        await inprocess.becomes_ready(client, claim(**parameters))
        yield Cache(client, folder, "shop")


async def eventually(reached: Callable[[], Awaitable[object]], within: float = 60.0) -> None:
    last: object = None
    try:
        async with asyncio.timeout(within):
            while True:
                last = await reached()
                if last:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never so; last: {last!r}") from None


def decoded(secret: Object) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


def running(folder: Path) -> dict[Path, list[int]]:
    """redis-servers below a folder, by the directory in which each works."""
    return processes.below(folder)


def files(folder: Path) -> list[Path]:
    """Everything that the provider keeps on disk, besides the program."""
    root = folder / "data" / "redis"
    return [each for each in root.rglob("*") if each.relative_to(root).parts[0] != "bin"] if root.is_dir() else []


def answers(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((host, port)) == 0
