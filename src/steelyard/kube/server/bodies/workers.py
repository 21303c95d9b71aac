"""Processes for what would hold Python's lock, or grow while it is read: long YAML and protobuf, in and out.

They start when there is something to do and end by themselves when there is not. Each job has a deadline; a worker that
misses it is killed, and the next job gets a new one. Whoever waits takes turns by flow. A large job takes many times
its bytes while it lasts, so that of those there is one at a time.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import subprocess
import sys
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

import orjson

from steelyard.kube import errors
from steelyard.kube.server.bodies import syntax, workerprocess
from steelyard.kube.server.bodies.negotiation import Format
from steelyard.kube.server.fairness.rotation import Rotation

_AT_ONCE: Final = 2
_WAITING_PER_FLOW: Final = 16
_LARGE: Final = 256 * 1024
_READ_SECONDS: Final = 10.0
_WRITE_SECONDS: Final = 60.0
_ALLOCATOR: Final = {"PYTHONMALLOC": "malloc"}
"""The C library's gives back what a job has left free; Python's own would be a third quicker, and keeps it."""
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


class _Worker:
    """A process, and the way to it. It is no business of any event loop, and lives longer than one may."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program with our own arguments
            [sys.executable, "-m", workerprocess.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_ALLOCATOR, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, work: bytes, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Blocks until the job is done, or the process has ended. Raises OSError and EOFError."""
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None
        assert taken is not None
        given.write(workerprocess.JOB.pack(work, len(data)))
        given.write(data)
        given.flush()
        status, first, second = workerprocess.RESULT.unpack(_exactly(taken, workerprocess.RESULT.size))
        return status, _exactly(taken, first), _exactly(taken, second)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def _exactly(taken: IO[bytes], size: int) -> bytes:
    data = taken.read(size)
    if len(data) < size:
        raise EOFError
    return data


class Workers:
    def __init__(self) -> None:
        self._rotation = Rotation(_AT_ONCE, _WAITING_PER_FLOW)
        self._large = Rotation(1, _WAITING_PER_FLOW)
        self._threads: ThreadPoolExecutor | None = None
        self._idle: list[_Worker] = []

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

    async def write(self, form: Format, data: bytes, flow: Hashable, *, patient: bool = False) -> bytes:
        """JSON in another form, or indented. Raises what `forms.encode` does. Who is `patient` waits however many of
        the flow do."""
        work = {"yaml": workerprocess.WRITE, "protobuf": workerprocess.WRITE_PROTOBUF, "json": workerprocess.INDENT}
        try:
            return (await self._do(flow, work[form], data, _WRITE_SECONDS, patient=patient))[1]
        except _Ended:
            raise errors.Timeout(_TOO_LONG_TO_WRITE) from None

    async def _do(
        self, flow: Hashable, work: bytes, data: bytes, deadline: float, *, patient: bool = False
    ) -> tuple[bytes, bytes]:
        async with contextlib.AsyncExitStack() as turns:
            if len(data) > _LARGE:
                await turns.enter_async_context(self._large.turn(flow, patient=patient))
            await turns.enter_async_context(self._rotation.turn(flow, patient=patient))
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    # It may end in the moment in which it is taken.
                    with contextlib.suppress(_Ended):
                        return await self._ask(worker, work, data, deadline)
                else:
                    worker.end()
            return await self._ask(_Worker(), work, data, deadline)

    async def _ask(self, worker: _Worker, work: bytes, data: bytes, deadline: float) -> tuple[bytes, bytes]:
        """Where somebody stops waiting, the process ends, and the thread that asks it with it."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_AT_ONCE, "worker")
            atexit.register(self._end)
        asking = asyncio.get_running_loop().run_in_executor(self._threads, worker.ask, work, data)
        try:
            async with asyncio.timeout(deadline):
                status, first, second = await asyncio.shield(asking)
        except (TimeoutError, OSError, EOFError):
            raise _Ended from None
        else:
            self._idle.append(worker)
        finally:
            if worker not in self._idle:
                worker.end()
                await asyncio.wait([asking])
                asking.exception()
        if status == workerprocess.FAILED:
            raise _FAILURES[first.decode()](second.decode())
        return first, second

    def _end(self) -> None:
        while self._idle:
            self._idle.pop().end()


SHARED: Final = Workers()
"""Of all servers of the process."""
