"""A cache's whole life on a platform that is killed right after its N-th write and started again: the same end always.

python -m tests.providers.redis.crashes 1 40        kills at each write from 1 to 40
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import aiohttp

from steelyard.api.redisserver import RESOURCE as SERVERS
from steelyard.kube import errors, objects
from steelyard.kube.client.http import HttpClient
from steelyard.kube.resources import SECRETS
from steelyard.providers.redis.wire import Refused, Unreachable
from tests.harness import INSTANT, DidNotStart, PlatformProcess
from tests.providers.redis import caches
from tests.providers.redis.caches import Cache

T = TypeVar("T")
_FILE = f"{INSTANT}redis: {{rotationOverlap: 1s}}\n"
_STEP_DEADLINE = 60.0


class Life:
    def __init__(self, folder: Path, kill_at: int) -> None:
        self.folder = folder
        self.kills = 0
        self._platform = PlatformProcess(folder, platform=_FILE, victim=["--kill-at", str(kill_at)])
        self._client: HttpClient | None = None

    async def live(self) -> list[str]:
        """What is left of it."""
        await asyncio.to_thread(self._platform.launch)
        try:
            await self.until(self.is_claimed)
            await self.until(lambda cache: cache.is_up_to_date())
            await self.until(self.is_written)
            before = await self.until(lambda cache: cache.secret())
            await self.until(lambda cache: _done(cache.annotate(**{"steelyard.dev/rotate": "once"})))
            await self.until(lambda cache: self.is_rotated(cache, before["password"]))
            await self.until(lambda cache: _done(cache.set(replicas=1, memoryGB=2)))
            await self.until(self.is_resized)
            assert await self.until(lambda cache: cache.ask("GET", "greeting")) == "hello"
            await self.until(self.is_deleted)
            return await self.until(self.left)
        finally:
            if self._client is not None:
                await self._client.close()
            self._platform.kill()
            for pids in caches.running(self.folder).values():
                for pid in pids:
                    os.kill(pid, signal.SIGKILL)

    async def until(self, do: Callable[[Cache], Awaitable[T]]) -> T:
        """Repeats it, through the platform's death, until it gives something."""
        last: object = None
        try:
            async with asyncio.timeout(_STEP_DEADLINE):
                while True:
                    try:
                        found = await do(Cache(await self._connected(), self.folder, "shop"))
                        if found is not False:
                            return found
                        last = found
                    except (errors.ApiError, aiohttp.ClientError, OSError, KeyError, Unreachable, Refused) as error:
                        last = error
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{do} never so; last: {last!r}\n{self._platform.log.read_text()[-3000:]}") from None

    async def _connected(self) -> HttpClient:
        if not self._platform.is_alive:
            self.kills += 1
            self._platform = PlatformProcess(self.folder, platform=_FILE)
            self._platform.launch()
            if self._client is not None:
                await self._client.close()
                self._client = None
        if self._client is None:
            try:
                await asyncio.to_thread(self._platform.await_ready)
            except DidNotStart as error:
                raise OSError(str(error)) from error
            self._client = self._platform.client()
        return self._client

    async def is_claimed(self, cache: Cache) -> bool:
        try:
            await cache.client.create(caches.CLAIMS, caches.claim(replicas=2))
        except errors.AlreadyExists:
            return True
        return True

    async def is_written(self, cache: Cache) -> bool:
        return await cache.ask("SET", "greeting", "hello") == "OK"

    async def is_rotated(self, cache: Cache, before: str) -> bool:
        known = await cache.credentials()
        is_over = "previous-password" not in known and "next-password" not in known
        return is_over and (await cache.secret())["password"] == known["password"] != before

    async def is_resized(self, cache: Cache) -> bool:
        return await cache.is_up_to_date() and len(caches.running(self.folder)) == 1

    async def is_deleted(self, cache: Cache) -> bool:
        try:
            await cache.client.delete(caches.CLAIMS, cache.name, caches.NAMESPACE)
        except errors.NotFound:
            return True
        return False

    async def left(self, cache: Cache) -> list[str]:
        made = [*(await cache.client.list(SERVERS)).items, *(await cache.client.list(SECRETS)).items]
        return [
            *(objects.name(each) for each in made if "shop" in objects.name(each)),
            *map(str, caches.files(self.folder)),
            *map(str, caches.running(self.folder)),
        ]


async def _done(do: Awaitable[None]) -> bool:
    await do
    return True


def main() -> None:
    first, last = map(int, sys.argv[1:])
    for number in range(first, last + 1):
        with tempfile.TemporaryDirectory() as folder:
            life = Life(Path(folder), number)
            left = asyncio.run(life.live())
            print(f"killed at write {number}: {life.kills} times, left over: {left or 'nothing'}", flush=True)
            assert not left


if __name__ == "__main__":
    main()
