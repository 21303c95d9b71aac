"""Processes of servers: started, found again, noticed when they end, ended.

A server outlives a platform that is killed. The next one finds it by the directory that it works in, which no other
process does, and holds it by a descriptor of the very process (pidfd): its end is told at once and without asking, and
a signal reaches it or nobody, whatever became of its number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.providers.redis import program
from steelyard.providers.redis.folders import Folder
from steelyard.providers.redis.program import Runner

_DELETED: Final = " (deleted)"


class CannotStart(Exception):
    """The message has what was run, and why it could not be."""


@frozen
class Ticket:
    """A process as it is known to others: a number alone may be another's by now."""

    pid: int
    started: str
    """In the kernel's ticks since the machine started."""


class Process:
    """One that runs, or ran. `on_end` is called once, from the event loop, when it has ended."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None, on_end: Callable[[], None]) -> None:
        """Raises `ProcessLookupError` where there is none of that number."""
        self.ticket = Ticket(pid, started(pid))
        self._child = child
        self._descriptor = os.pidfd_open(pid)
        self._on_end = on_end
        self._ended = asyncio.Event()
        self.status: int | None = None
        """How it ended, where that is known: negative for a signal. Of one that was found again it is not."""
        asyncio.get_running_loop().add_reader(self._descriptor, self._notice_end)

    @property
    def pid(self) -> int:
        return self.ticket.pid

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    def send(self, number: signal.Signals) -> None:
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    async def end(self, within: float) -> None:
        """In order; by force after so many seconds."""
        self.send(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._ended.wait(), within)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        self.send(signal.SIGKILL)
        await self._ended.wait()

    @property
    def told(self) -> str:
        match self.status:
            case None:
                return "ended"
            case number if number < 0:
                return f"was ended by signal {-number} ({_signal_name(-number)})"
            case number:
                return f"ended with exit code {number}"

    def forget(self) -> None:
        """It runs on, and nobody here looks at it any more."""
        if self.is_running:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended.set()

    def _notice_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        self.status = self._child.poll() if self._child is not None else None
        self._ended.set()
        self._on_end()


def start(executable: Path, folder: Folder, runner: Runner | None) -> subprocess.Popen[bytes]:
    """Blocks for some milliseconds. What it is told comes by standard input: neither a password nor a file's name is
    among its arguments."""
    try:
        with folder.configuration.open("rb") as told, _opened_log(folder.log) as log:
            return subprocess.Popen(  # noqa: S603 (no word of it is anybody's input)
                [program.NAME, "-"],
                executable=os.path.relpath(executable, folder.directory)
                if _is_beside(executable, folder)
                else executable,
                cwd=folder.directory,
                stdin=told,
                stdout=log,
                stderr=log,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
                start_new_session=True,
                umask=0o077,
                user=runner.uid if runner is not None else None,
                group=runner.gid if runner is not None else None,
                extra_groups=[] if runner is not None else None,
            )
    except OSError as error:
        whom = f" as {runner.name}" if runner is not None else ""
        raise CannotStart(f"{executable} could not be started{whom}: {error.strerror or error}") from error


def working_in(directory: Path) -> list[int]:
    """Processes of redis-server that work in the directory, also if it was deleted meanwhile: the server, and children
    that write its files."""
    wanted = str(directory.resolve())
    return [pid for pid, where in _everybody() if where == wanted]


def below(root: Path) -> dict[Path, list[int]]:
    """All that work somewhere below it, by their directory."""
    found: dict[Path, list[int]] = {}
    prefix = f"{root.resolve()}/"
    for pid, where in _everybody():
        if where.startswith(prefix):
            found.setdefault(Path(where), []).append(pid)
    return found


def leader(pids: list[int]) -> int | None:
    """The server among processes of one directory: the one whose parent is none of them."""
    return next((pid for pid in pids if _parent(pid) not in pids), None)


def started(pid: int) -> str:
    """Raises `ProcessLookupError`."""
    fields = _stat(pid)
    if not fields:
        raise ProcessLookupError(pid)
    return fields[19]


def _everybody() -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if Path(os.readlink(f"/proc/{name}/exe").removesuffix(_DELETED)).name.startswith(program.NAME[:5]):
                    found.append((int(name), os.readlink(f"/proc/{name}/cwd").removesuffix(_DELETED)))
    return found


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _stat(pid: int) -> list[str]:
    """From the state on; the program's name before it may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _is_beside(executable: Path, folder: Folder) -> bool:
    return executable.is_relative_to(folder.directory.parent.parent)


@contextlib.contextmanager
def _opened_log(path: Path) -> Generator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
