"""PostgreSQL's own programs as children of the platform: pg_dump, pg_restore, and the copier of masked rows.

They end with whoever runs them: cancelled, they are ended and waited for; if the platform is killed, the kernel ends
them. What they need to log in is in their environment alone, never among their arguments. One that fails tells its
story: what was run, the exit code, its last words; `problem_of` is the one place where those words are told apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from steelyard.providers.postgres.embedded import programs as installed
from steelyard.providers.postgres.problems import Away, Broken, Full, Invalid, Missing, Problem, Refused
from steelyard.providers.postgres.servers import Servers

_WORDS_KEPT: Final = 4000
_LAST_LINES: Final = 6
_ENDS_WITHIN: Final = 5.0
_PIPE_BYTES: Final = 1024 * 1024
_PARENT_DEATH_SIGNAL: Final = 1
_LIBC: Final = ctypes.CDLL(None)
_INHERITED: Final = ("PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_WORDS: Final[tuple[tuple[str, type[Problem]], ...]] = (
    ("No space left on device", Full),
    ("Disk quota exceeded", Full),
    ("server version mismatch", Invalid),
    ("unsupported version", Invalid),
    ("connection to server", Away),
    ("server closed the connection", Away),
    ("terminating connection", Away),
    ("the database system is", Away),
    ("password authentication failed", Refused),
    ("permission denied", Refused),
    ("does not exist", Missing),
)


class Program:
    """One that runs. `process` for its pipes; `words` is the end of what it complained of."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.words = ""
        self._reading = asyncio.create_task(self._read_words())

    async def _read_words(self) -> None:
        assert self.process.stderr is not None
        while piece := await self.process.stderr.read(4096):
            self.words = (self.words + piece.decode(errors="replace"))[-_WORDS_KEPT:]

    async def succeed(self) -> None:
        """Waits for its end. Raises a `Problem` unless it was a good one."""
        code = await self.process.wait()
        await self._reading
        if code:
            raise problem_of(self.name, code, self.words)

    async def end(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_ENDS_WITHIN):
                    await self.process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()
        self._reading.cancel()


@contextlib.asynccontextmanager
async def started(
    program: Path | str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] | None = None,
) -> AsyncGenerator[Program]:
    """Runs it for as long as the block lasts; whatever ends the block ends it."""
    inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            str(program),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
            stdout=asyncio.subprocess.DEVNULL if stdout is None else stdout,
            stderr=asyncio.subprocess.PIPE,
            env={**inherited, "LC_ALL": "C.UTF-8", **environment},
            limit=_PIPE_BYTES,
            preexec_fn=_prepare,
        )
    except OSError as error:
        raise Missing(
            f"{program} cannot be run: {error.strerror or error}. Install PostgreSQL's client programs "
            "(postgresql-client)"
        ) from error
    running = Program(Path(program).name, process)
    try:
        yield running
    finally:
        await _shielded(running.end())


async def suited(servers: Servers, provider_config: str) -> Path:
    """The folder with the programs of the server's own version, else of the next newer one: an older pg_dump refuses,
    and a newer pg_restore sets what an older server does not know."""
    given = servers.programs(provider_config)
    async with servers.connect(provider_config) as connection:
        major = connection.info.server_version // 10_000
    found = await asyncio.to_thread(_nearest, given, major)
    if found is None:
        raise Missing(
            f"there is no pg_dump for PostgreSQL {major} on this machine: install its client programs "
            f"(postgresql-client-{major})"
        )
    return found


@functools.cache
def _nearest(given: Path | None, major: int) -> Path | None:
    """`given` where its version is the one."""
    folders = [*([given] if given is not None else []), *(each.folder for each in installed.everywhere())]
    known = [(version, index) for index, folder in enumerate(folders) if (version := _major(folder)) >= major]
    return folders[min(known)[1]] if known else None


def _major(folder: Path) -> int:
    """Of the pg_restore in there; 0 where there is none that runs."""
    try:
        said = subprocess.run(  # noqa: S603 (a program that was looked for)
            [folder / "pg_restore", "--version"], capture_output=True, text=True, timeout=_ENDS_WITHIN, check=True
        ).stdout
        return int(re.findall(r"[0-9]+", said)[0])
    except (OSError, subprocess.SubprocessError, IndexError):
        return 0


async def run(program: Path, arguments: Sequence[str], environment: Mapping[str, str], *, deadline: float) -> None:
    """To its end, within so many seconds."""
    with told_of_deadline(program.name, deadline):
        async with asyncio.timeout(deadline), started(program, arguments, environment) as running:
            await running.succeed()


async def output_of(
    program: Path, arguments: Sequence[str], environment: Mapping[str, str], *, deadline: float, at_most: int
) -> bytes:
    """What it prints. More than so many bytes is a problem, and nothing that is kept."""
    with told_of_deadline(program.name, deadline):
        async with (
            asyncio.timeout(deadline),
            started(program, arguments, environment, stdout=asyncio.subprocess.PIPE) as running,
        ):
            assert running.process.stdout is not None
            found = bytearray()
            while piece := await running.process.stdout.read(65536):
                found += piece
                if len(found) > at_most:
                    raise Broken(f"{program.name} printed more than {at_most} bytes")
            await running.succeed()
            return bytes(found)


@contextlib.contextmanager
def told_of_deadline(name: str, deadline: float) -> Generator[None]:
    try:
        yield
    except TimeoutError:
        raise Broken(f"{name} was not finished after {deadline:g} seconds, and was ended") from None


def problem_of(name: str, code: int, words: str) -> Problem:
    """
    >>> type(problem_of("pg_dump", 1, "pg_dump: error: No space left on device"))
    <class 'steelyard.providers.postgres.problems.Full'>
    """
    lines = [line.strip() for line in words.splitlines() if line.strip()][-_LAST_LINES:]
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    told = f"{name} {how}{': ' if lines else ''}{' | '.join(lines)}"
    family = next((family for text, family in _WORDS if text in words), Broken)
    if family is Full:
        return Full(f"the disk is full: {told}. Make room, or keep fewer dumps")
    return family(told)


async def _shielded(ending: Coroutine[Any, Any, None]) -> None:
    """A second cancellation does not leave a process behind either."""
    task = asyncio.create_task(ending)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    if is_cancelled:
        raise asyncio.CancelledError


def _prepare() -> None:
    """In the child, before it becomes the program: it dies with the platform, and its files are its owner's alone."""
    _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    os.umask(0o077)
