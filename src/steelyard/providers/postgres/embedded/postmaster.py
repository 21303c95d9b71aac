"""A server's first process: found by the file that it writes, told from any other by its folder and its program.

It outlives a platform that was killed, and is adopted by the next. Whether it is ours is read from /proc: a number in a
file can by now be somebody else's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

from steelyard.providers.postgres.embedded.account import Account

_PID_FILE: Final = "postmaster.pid"
_STATUS_LINE: Final = 7
_FAST: Final = 30.0
_IMMEDIATE: Final = 10.0


class Postmaster:
    """A process that runs, whether this one started it or not."""

    def __init__(self, pid: int, descriptor: int, child: subprocess.Popen[Any] | None) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._child = child
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._has_ended)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    async def wait(self) -> None:
        await self._ended.wait()

    async def stop(self) -> None:
        """In order, with its sessions ended; else at once, and it recovers at its next start."""
        for number, seconds in ((signal.SIGINT, _FAST), (signal.SIGQUIT, _IMMEDIATE), (signal.SIGKILL, _IMMEDIATE)):
            self.signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended.wait()
                    return

    def signal(self, number: signal.Signals) -> None:
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def _has_ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        if self._child is not None:
            self._child.wait()
        self._ended.set()


def start(program: Path, data: Path, account: Account, output: Path) -> Postmaster:
    """In a session of its own, so that a Ctrl-C meant for the platform does not reach it first."""
    with output.open("wb") as log:
        child = subprocess.Popen(  # noqa: S603 (a program that was looked for)
            [program, "-D", data],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=environment(),
            start_new_session=True,
            **account.starting(),
        )
    return Postmaster(child.pid, os.pidfd_open(child.pid), child)


def environment() -> dict[str, str]:
    """Nothing of the platform's own: no credentials of it are in the server's processes."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def find(data: Path) -> Postmaster | None:
    """The one that serves this folder, if any."""
    pid = _recorded(data)
    if pid is None:
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    # Looked at after it was opened, so that what was looked at is what is signalled.
    if not _serves(pid, data):
        os.close(descriptor)
        return None
    return Postmaster(pid, descriptor, None)


def forget_stale(data: Path) -> None:
    """Takes away the file of one that is gone: where its number is another process's by now, PostgreSQL would not
    start."""
    pid = _recorded(data)
    if pid is not None and not _serves(pid, data):
        (data / _PID_FILE).unlink(missing_ok=True)


def is_ready(data: Path, pid: int) -> bool:
    """Whether it says that it lets sessions in."""
    lines = _read(data)
    return len(lines) > _STATUS_LINE and lines[0].strip() == str(pid) and lines[_STATUS_LINE].strip() == "ready"


def _recorded(data: Path) -> int | None:
    lines = _read(data)
    return int(lines[0]) if lines and lines[0].strip().isdecimal() else None


def _read(data: Path) -> list[str]:
    try:
        return (data / _PID_FILE).read_text(errors="replace").splitlines()
    except OSError:
        return []


def _serves(pid: int, data: Path) -> bool:
    process = Path("/proc") / str(pid)
    try:
        is_there = (process / "cwd").readlink() == data.resolve()
        program = (process / "exe").readlink().name.removesuffix(" (deleted)")
    except OSError:
        return False
    return is_there and program == "postgres"
