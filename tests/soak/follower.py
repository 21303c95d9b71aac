"""A watch that is broken off by every kill and resumes where it was: no change may be missing, none may come twice."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from tests.soak.ledger import Found
from tests.soak.load import Kind
from tests.soak.site import Site


@dataclass(slots=True)
class Follower:
    """What a watcher of one kind knows, from its events alone."""

    kind: Kind
    site: Site
    revision: int = 0
    """Of the last event or bookmark: where to resume."""
    state: dict[str, Found] = field(default_factory=dict[str, Found])
    events: int = 0
    resumed: int = 0
    wrong: list[str] = field(default_factory=list[str])

    async def run(self) -> None:
        """Until cancelled. A connection that breaks is what this is about."""
        while True:
            try:
                await self._follow()
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(0.02)

    async def _follow(self) -> None:
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self.revision}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=2)
        async with self.site.session.get(f"{self.site.url}{self.kind.collection}?{query}", timeout=timeout) as response:
            if response.status != 200:
                self.wrong.append(f"watching from {self.revision}: {response.status} {await response.text()}")
                await asyncio.sleep(0.5)
                return
            self.resumed += 1
            async for line in response.content:
                self.observe(orjson.loads(line))

    def observe(self, event: dict[str, Any]) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            self.wrong.append(f"watching from {self.revision}: {obj}")
            return
        revision = int(obj["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            self.revision = max(self.revision, revision)
            return
        self.events += 1
        if revision <= self.revision:
            self.wrong.append(f"{event['type']} at {revision} came after {self.revision} had been seen")
        self.revision = max(self.revision, revision)
        self._apply(event["type"], self.kind.key(obj), self.kind.found(obj))

    def _apply(self, type_: str, key: str, found: Found) -> None:
        before = self.state.get(key)
        if (type_ == "ADDED") != (before is None):
            self.wrong.append(f"{type_} of {key} at {found.revision}, which {'was' if before else 'was not'} known")
        if before is not None and type_ == "MODIFIED" and found.number <= before.number:
            self.wrong.append(f"{key} went from number {before.number} to {found.number}")
        if type_ == "DELETED":
            self.state.pop(key, None)
        else:
            self.state[key] = found

    async def caught_up(self, listed: dict[str, Found], seconds: float = 60.0) -> list[str]:
        """Once the events lead to the list, what has been wrong; that they do not, if they never do."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.state != listed:
            if asyncio.get_running_loop().time() > deadline:
                differing = [key for key in self.state.keys() | listed.keys() if self.state.get(key) != listed.get(key)]
                self.wrong.append(f"the watch of {self.kind.plural} leads elsewhere than the list: {differing[:5]}")
                break
            await asyncio.sleep(0.01)
        wrong, self.wrong = self.wrong, []
        return wrong
