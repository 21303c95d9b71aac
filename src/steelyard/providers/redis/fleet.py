"""All servers of this platform, grouped by the RedisServer that they are of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.keys import Key
from steelyard.providers.redis import program
from steelyard.providers.redis.folders import Folders
from steelyard.providers.redis.server import Launch, Server

_AT_ONCE: Final = 32


class Group:
    """The servers of one RedisServer."""

    def __init__(self, uid: str, folders: Folders, launch: Launch, wake: Callable[[], None]) -> None:
        self.uid = uid
        self.primary = 0
        self.servers: dict[int, Server] = {}
        self._folders = folders
        self._launch = launch
        self._wake = wake
        self._is_gathered = False

    def server(self, ordinal: int) -> Server:
        if ordinal not in self.servers:
            self.servers[ordinal] = Server(ordinal, self._folders.of(self.uid, ordinal), self._launch, self._wake)
        return self.servers[ordinal]

    @property
    def version(self) -> str:
        """Of the program that its servers are, or will be."""
        return self.server(self.primary).folder.written_by or self._launch.program.version

    async def gather(self) -> None:
        """Takes over what runs, of every server that has a directory. Once: afterwards all of them are known."""
        if self._is_gathered:
            return
        self._is_gathered = True
        for ordinal in await asyncio.to_thread(self._folders.ordinals, self.uid):
            self.server(ordinal)
        for server in self.servers.values():
            await server.adopt()

    async def remove(self, ordinal: int) -> None:
        server = self.servers.pop(ordinal)
        await server.stop()
        await asyncio.to_thread(server.folder.erase)

    async def stop(self) -> None:
        """The primary first, while the others can still take what it was last told."""
        leading = self.servers.get(self.primary)
        if leading is not None:
            await leading.stop()
        await asyncio.gather(*(each.stop() for each in self.servers.values()))


class Fleet:
    def __init__(self, root: Path, clock: Clock) -> None:
        self.folders = Folders(root)
        self.wake: Callable[[Key], None] = lambda _: None
        """Called when a server has ended by itself."""
        self.groups: dict[str, Group] = {}
        self._clock = clock
        self._launch: Launch | None = None
        self._launching = asyncio.Lock()

    @property
    def launch(self) -> Launch | None:
        """None while no server was needed."""
        return self._launch

    @property
    def running(self) -> int:
        return sum(server.is_running for group in self.groups.values() for server in group.servers.values())

    async def group(self, uid: str, key: Key) -> Group:
        """Raises `NoProgram`. What runs of it is taken over when it is first asked for."""
        async with self._launching:
            if self._launch is None:
                self._launch = await asyncio.to_thread(self._prepare)
        if uid not in self.groups:
            self.groups[uid] = Group(uid, self.folders, self._launch, lambda: self.wake(key))
        group = self.groups[uid]
        await group.gather()
        return group

    def _prepare(self) -> Launch:
        found = program.find()
        self.folders.prepare()
        return Launch(found, program.runner(), self.folders.programs.name, self._clock.monotonic)

    async def erase(self, uid: str, *, keep_files: str = "") -> None:
        """Ends the servers and removes what they have; with `keep_files`, it is put aside under that name."""
        group = self.groups.pop(uid, None)
        if group is None and self.folders.group(uid).is_dir():
            launch = Launch(program.Program(Path(), "", ""), None, "", self._clock.monotonic)
            group = Group(uid, self.folders, launch, lambda: None)
            await group.gather()
        if group is not None:
            await group.stop()
        if keep_files:
            await asyncio.to_thread(self.folders.put_aside, uid, keep_files)
        else:
            await asyncio.to_thread(self.folders.erase, uid)

    async def close(self) -> None:
        """With the platform: in order, and all of them at once as far as the machine can."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def stop(group: Group) -> None:
            async with turns:
                await group.stop()

        await asyncio.gather(*(stop(group) for group in self.groups.values()))
        self.groups.clear()
