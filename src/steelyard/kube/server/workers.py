"""Processes for what would hold Python's lock, or grow while it is read: long YAML and protobuf, in and out.

They start when there is something to do and end by themselves when there is not. Each job has a deadline; a worker that
misses it is killed, and the next job gets a new one. Whoever waits takes turns by flow.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Hashable
from typing import Final

import orjson

from steelyard.kube import errors
from steelyard.kube.server import syntax, workerprocess
from steelyard.kube.server.negotiation import Format
from steelyard.kube.server.rotation import Rotation

_AT_ONCE: Final = 2
_WAITING_PER_FLOW: Final = 16
_READ_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 60.0
_FAILURES: Final = {
    "BadRequest": errors.BadRequest, "NotAcceptable": errors.NotAcceptable, "TooLarge": errors.TooLarge,
    "Unreadable": syntax.Unreadable,
}  # fmt: skip
_TOO_LONG_TO_READ: Final = "the body of the request takes too long to read as {}: send it as JSON, or less of it"
_TOO_LONG_TO_WRITE: Final = (
    "the answer takes too long to write in this form: ask for plain JSON, or for less with limit"
)


class _Ended(Exception):
    """The worker has gone, with or without a reason."""


class Workers:
    """For one event loop at a time."""

    def __init__(self) -> None:
        self._rotation = Rotation(_AT_ONCE, _WAITING_PER_FLOW)
        self._idle: list[asyncio.subprocess.Process] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._servers = 0

    def join(self) -> None:
        """A server begins, which may have something to do. Whoever joins must `leave`."""
        self._servers += 1

    async def leave(self) -> None:
        """The processes end with the last server."""
        self._servers -= 1
        if not self._servers:
            await self._close()

    async def read_yaml(self, data: bytes, flow: Hashable) -> tuple[bytes, tuple[str, ...]]:
        """The text as JSON, and the keys that it gives twice. Raises what `yamlbodies.load` does."""
        try:
            repeated, text = await self._do(flow, workerprocess.READ, data, _READ_SECONDS)
        except _Ended:
            raise errors.BadRequest(_TOO_LONG_TO_READ.format("YAML")) from None
        return text, tuple(orjson.loads(repeated))

    async def read_protobuf(self, data: bytes, flow: Hashable) -> bytes:
        """The message as JSON. Raises what `protobuf.decode` does."""
        try:
            return (await self._do(flow, workerprocess.READ_PROTOBUF, data, _READ_SECONDS))[1]
        except _Ended:
            raise errors.BadRequest(_TOO_LONG_TO_READ.format("protobuf")) from None

    async def write(self, form: Format, data: bytes, flow: Hashable) -> bytes:
        """JSON in another form, or indented. Raises what `forms.encode` does."""
        work = {"yaml": workerprocess.WRITE, "protobuf": workerprocess.WRITE_PROTOBUF, "json": workerprocess.INDENT}
        try:
            return (await self._do(flow, work[form], data, _WRITE_SECONDS))[1]
        except _Ended:
            raise errors.Timeout(_TOO_LONG_TO_WRITE) from None

    async def _do(self, flow: Hashable, work: bytes, data: bytes, deadline: float) -> tuple[bytes, bytes]:
        async with self._rotation.turn(flow):
            process = self._take()
            if process is not None:
                # It may have ended in the moment in which it was taken.
                with contextlib.suppress(_Ended):
                    return await self._ask(process, work, data, deadline)
            return await self._ask(await _start(), work, data, deadline)

    def _take(self) -> asyncio.subprocess.Process | None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._idle, self._loop = [], loop
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        return None

    async def _ask(
        self, process: asyncio.subprocess.Process, work: bytes, data: bytes, deadline: float
    ) -> tuple[bytes, bytes]:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(deadline):
                process.stdin.write(workerprocess.JOB.pack(work, len(data)))
                process.stdin.write(data)
                await process.stdin.drain()
                head = await process.stdout.readexactly(workerprocess.RESULT.size)
                status, first, second = workerprocess.RESULT.unpack(head)
                result = await process.stdout.readexactly(first), await process.stdout.readexactly(second)
        except (TimeoutError, OSError, EOFError):
            raise _Ended from None
        else:
            self._idle.append(process)
        finally:
            if process not in self._idle:
                await _end(process)
        if status == workerprocess.FAILED:
            raise _FAILURES[result[0].decode()](result[1].decode())
        return result

    async def _close(self) -> None:
        """Ends the processes that do nothing; those at work end with their input."""
        idle, self._idle = self._idle, []
        for process in idle:
            await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    # Until its pipes are closed as well.
    await process.communicate()


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        workerprocess.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )


SHARED: Final = Workers()
"""Of all servers of the process."""
