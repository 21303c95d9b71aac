"""One redis-server: brought up, found again, asked how it is, and told what it should be.

It never decides; `reconcile.py` does. Between two looks it costs a connection that nobody writes to, and the kernel's
word when the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Callable
from typing import Final, TypeAlias

from steelyard.frozen import frozen
from steelyard.kube.runtime import logs
from steelyard.providers.redis import accounts, configuration, processes, program, replication, wire
from steelyard.providers.redis.accounts import Passwords
from steelyard.providers.redis.configuration import ENDPOINT, Limits, Live, Role
from steelyard.providers.redis.folders import Folder
from steelyard.providers.redis.processes import CannotStart, Process
from steelyard.providers.redis.program import NoProgram
from steelyard.providers.redis.replication import Seen
from steelyard.providers.redis.wire import Connection, Refused, Unreachable

END_DEADLINE: Final = 10.0
START_DEADLINE: Final = 10.0
_BACK_OFF: Final = 1.0
_BACK_OFF_MOST: Final = 60.0
_LIVES: Final = 60.0
"""Seconds after which a server counts as one that came up well."""
_MISSES: Final = 2
"""Looks in a row without an answer after which a server is taken for hung."""

_log = logs.get(__name__)

Wake: TypeAlias = Callable[[], None]


class PortTaken(Exception):
    pass


@frozen
class Wanted:
    """What a server should be."""

    role: Role
    port: int
    limits: Limits
    username: str
    passwords: Passwords

    @property
    def text(self) -> str:
        return configuration.text(self.role, self.port, self.limits, self.username, self.passwords)


@frozen
class Launch:
    """With what servers are started, and the clock."""

    program: program.Program
    runner: program.Runner | None
    folder: str
    monotonic: Callable[[], float]


class Server:
    def __init__(self, ordinal: int, folder: Folder, launch: Launch, wake: Wake) -> None:
        self.ordinal = ordinal
        self.folder = folder
        self.losses: list[str] = []
        """How it ended since somebody last asked, without having been told to."""
        self.put_right: list[str] = []
        """What of it had been changed by somebody else since somebody last asked."""
        self.was_promoted = False
        self._launch = launch
        self._wake = wake
        self._process: Process | None = None
        self._connection: Connection | None = None
        self._is_ending = False
        self._started_at = 0.0
        self._failures = 0
        self._misses = 0
        self._accepted: tuple[Passwords, list[str]] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None and self._process.is_running else 0

    @property
    def is_running(self) -> bool:
        return bool(self.pid)

    @property
    def is_whole(self) -> bool:
        """Whether its directory is where it was."""
        return self.folder.directory.is_dir()

    @property
    def address(self) -> str:
        return configuration.address(self.ordinal)

    @property
    def start_in(self) -> float:
        """Seconds until it may be started again: the longer, the more often it has ended soon after."""
        if not self._failures:
            return 0.0
        delay = min(_BACK_OFF * 2.0 ** (self._failures - 2), _BACK_OFF_MOST) if self._failures > 1 else 0.0
        return max(0.0, self._started_at + delay - self._launch.monotonic())

    async def adopt(self) -> bool:
        """Takes over the process that works in its directory, if there is one and it has not been taken over. What is
        left there of a server that has ended, such as a child that was writing, is ended."""
        if self.is_running:
            return True
        pids = await asyncio.to_thread(processes.working_in, self.folder.directory)
        first = processes.leader(pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                found = Process(pid, None, self._on_end if pid == first else _nothing)
                if pid == first:
                    self._process = found
                else:
                    found.forget()
        return self.is_running

    async def start(self, wanted: Wanted) -> None:
        """Raises `CannotStart` or `PortTaken`. To be called for one that `adopt` has not found."""
        await asyncio.to_thread(self.folder.prepare, wanted.text, self._launch.runner)
        for host in wanted.role.bind.split():
            if is_taken(host, wanted.port):
                raise PortTaken(f"port {wanted.port} of {host} is taken by another program")
        self._drop_connection()
        self._started_at = self._launch.monotonic()
        self._misses = 0
        child = await asyncio.to_thread(self._spawn)
        try:
            self._process = Process(child.pid, child, self._on_end)
        except ProcessLookupError:
            child.poll()
            self._on_end()

    def _spawn(self) -> subprocess.Popen[bytes]:
        folder = self.folder.directory.parent.parent / self._launch.folder
        try:
            suited = program.find(self.folder.written_by)
        except NoProgram as error:
            raise CannotStart(str(error)) from error
        executable = program.reachable(suited.path, folder, self._launch.runner)
        self.folder.is_written_by(suited.version)
        return processes.start(executable, self.folder, self._launch.runner)

    async def stop(self, within: float = END_DEADLINE) -> None:
        if self._process is not None and self._process.is_running:
            self._is_ending = True
            await self._process.end(within)
        self._drop_connection()

    async def kill(self) -> None:
        """One that hangs, or whose files are gone. Counts as lost."""
        if self._process is not None and self._process.is_running:
            await self._process.kill()

    def let_go(self) -> None:
        """It runs on without anybody looking."""
        self._is_ending = True
        if self._process is not None:
            self._process.forget()
        self._drop_connection()

    async def connect(self, wanted: Wanted) -> Connection:
        """Raises `Unreachable`, or `Refused` where it does not know our password."""
        if self._connection is not None and self._connection.is_usable:
            return self._connection
        opened = await Connection.open(
            self.address, wanted.port, accounts.ADMINISTRATOR, wanted.passwords.administrator
        )
        answering = wire.fields(await opened.call("INFO", "server")).get("process_id")
        if answering != str(self.pid):
            opened.close()
            raise Unreachable(f"process {answering} answers at {self.address}:{wanted.port} instead of {self.pid}")
        self._connection, self._accepted = opened, None
        return opened

    async def await_answer(self, wanted: Wanted, within: float = START_DEADLINE) -> bool:
        """Whether it takes commands; False for one that is still reading its files then. Raises as `connect` does."""
        end = self._launch.monotonic() + within
        while self.is_running:
            try:
                connection = await self.connect(wanted)
                await connection.call("PING")
            except Unreachable:
                if self._launch.monotonic() > end:
                    raise
            except Refused as refused:
                if refused.word not in ("LOADING", "MASTERDOWN", "BUSY"):
                    raise
                if self._launch.monotonic() > end:
                    return False
            else:
                return True
            await asyncio.sleep(0.02)
        raise Unreachable(self.folder.last_words() or "it has ended")

    async def look(self, wanted: Wanted) -> Seen:
        """What it says of itself, after it has been told what it is not yet. Raises as `connect` does."""
        try:
            connection = await self.connect(wanted)
            live = configuration.live(wanted.role, wanted.limits, wanted.passwords)
            asked = [("ACL", "LIST"), ("INFO", "memory"), ("INFO", "persistence"), ("INFO", "replication")]
            answers = await connection.all([*asked, *(("CONFIG", "GET", name) for name in live)])
        except Unreachable:
            self._misses += 1
            if self._misses >= _MISSES:
                _log.warning("a redis-server does not answer and is ended", pid=self.pid)
                await self.kill()
            raise
        self._misses = 0
        if self._failures and self._launch.monotonic() - self._started_at > _LIVES:
            self._failures = 0
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer
        users, memory, files, role = answers[:4]
        known = {**wire.fields(memory), **wire.fields(files)}
        await self._set_accounts(connection, wanted, users)
        seen = replication.seen(self.ordinal, {**known, **wire.fields(role)})
        is_to_lead = wanted.role.is_primary and not seen.is_primary
        primary = configuration.address(wanted.role.primary)
        is_to_follow = not wanted.role.is_primary and (seen.is_primary or seen.follows != primary)
        if is_to_lead:
            # Before it has the endpoint's address: nobody who writes is turned away as by a replica.
            await connection.call("REPLICAOF", "NO", "ONE")
            self.was_promoted = True
        await self._set_live(connection, live, answers[4:])
        if is_to_follow:
            await connection.call("REPLICAOF", primary, str(wanted.port))
        if is_to_lead or is_to_follow:
            role = await connection.call("INFO", "replication")
        return replication.seen(self.ordinal, {**known, **wire.fields(role)})

    async def _set_accounts(self, connection: Connection, wanted: Wanted, users: list[str]) -> None:
        known = self._accepted
        if known is not None and known == (wanted.passwords, users):
            return
        if known is not None and known[0] == wanted.passwords:
            self.put_right.append("its users and passwords")
        before = accounts.hashes(accounts.line_of(wanted.username, users))
        for answer in await connection.all(accounts.commands(wanted.username, wanted.passwords, users)):
            if isinstance(answer, Refused):
                raise answer
        if before - accounts.hashes_of(wanted.passwords.application):
            # Sessions that a password opened which is no longer good go with it; others come back at once.
            await connection.call("CLIENT", "KILL", "USER", wanted.username)
        self._accepted = (wanted.passwords, await connection.call("ACL", "LIST"))

    async def _set_live(self, connection: Connection, live: Live, answers: list[wire.Answer]) -> None:
        present = {name: wire.pairs(answer).get(name, "") for name, answer in zip(live, answers, strict=True)}
        for name, value in live.items():
            if present[name] == value:
                continue
            try:
                await connection.call("CONFIG", "SET", name, value)
            except Refused as refused:
                if name == "bind":
                    raise PortTaken(f"the address {ENDPOINT} cannot be taken over: {refused}") from refused
                raise

    def _on_end(self) -> None:
        self._drop_connection()
        process = self._process
        if self._is_ending:
            self._is_ending = False
            return
        how = process.told if process is not None else "ended"
        words = self.folder.last_words() if process is not None and process.status not in (None, -9, -15) else ""
        self._failures += 1
        self.losses.append(f"{how}{': ' if words else ''}{words}")
        self._wake()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._accepted = None


def is_taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
        return False


def port_is_taken(port: int) -> bool:
    """On any of the addresses that servers have."""
    return any(is_taken(host, port) for host in (configuration.ENDPOINT, configuration.address(0)))


def _nothing() -> None:
    return
