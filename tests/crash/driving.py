"""What a user has when the platform may be killed at any moment and is started again: requests are repeated until they
are answered, and waits go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.client.interface import Client
from tests.harness import PlatformProcess

T = TypeVar("T")

STEP_DEADLINE: Final = 60.0
_PASSING: Final = frozenset({"Event", "Lease"})


class Driven:
    """`replacement` is what runs after a kill: the same data directory, without a further kill."""

    def __init__(self, first: PlatformProcess, replacement: PlatformProcess) -> None:
        self.current = first
        self._replacement = replacement
        self._client: HttpClient | None = None
        self.kills = 0

    async def start(self) -> None:
        await asyncio.to_thread(self.current.start)

    async def close(self) -> None:
        """Of the connection; the platform runs on."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def request(self, action: Callable[[Client], Awaitable[T]]) -> T:
        """The answer, through as many restarts as it takes."""
        deadline = time.monotonic() + STEP_DEADLINE
        while True:
            try:
                return await action(await self._connected())
            except errors.ServiceUnavailable:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)

    async def until(self, holds: Callable[[Client], Awaitable[str]]) -> None:
        """Until `holds` has nothing to complain of."""
        deadline = time.monotonic() + STEP_DEADLINE
        while complaint := await self.request(holds):
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"after {STEP_DEADLINE:g} s still: {complaint}\n{self.current.log.read_text()[-3000:]}"
                )
            await asyncio.sleep(0.03)

    async def _connected(self) -> HttpClient:
        if not self.current.is_alive:
            self.kills += 1
            await self.close()
            self.current = self._replacement
            await asyncio.to_thread(self.current.start)
        if self._client is None:
            self._client = self.current.client()
        return self._client


async def inventory(client: Client) -> set[str]:
    """Every object of the platform that stays, as `Kind namespace/name`."""
    found: set[str] = set()
    for resource in await client.discover():
        if resource.kind in _PASSING:
            continue
        try:
            items = (await client.list(resource)).items
        except errors.MethodNotAllowed:
            continue
        found |= {f"{resource.kind} {objects.qualified_name(item)}" for item in items}
    return found
