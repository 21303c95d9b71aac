"""Work that takes longer than a reconcile may: dumps and copies, each for one object, a bounded number at once.

A reconciler starts the job of an object, looks at it again later, and cancels it when the object is deleted. Nothing of
it is remembered over a restart: what has to be is in the object's status and on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    def __init__(self, work: Callable[[], Awaitable[T]], room: asyncio.Semaphore) -> None:
        self.has_begun = False
        """Else it waits for others to end."""
        self._work = work
        self._room = room
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> T:
        async with self._room:
            self.has_begun = True
            return await self._work()

    @property
    def is_done(self) -> bool:
        return self.task.done()

    def result(self) -> T:
        """Of one that is done; raises what it raised."""
        return self.task.result()


class Jobs(Generic[T]):
    def __init__(self, at_once: int) -> None:
        self._room = asyncio.Semaphore(at_once)
        self._jobs: dict[str, Job[T]] = {}

    def find(self, uid: str) -> Job[T] | None:
        return self._jobs.get(uid)

    def start(self, uid: str, work: Callable[[], Awaitable[T]]) -> Job[T]:
        """There is at most one for each object."""
        assert uid not in self._jobs
        job = self._jobs[uid] = Job(work, self._room)
        return job

    def take(self, uid: str) -> Job[T] | None:
        """One that is done, and with that forgotten."""
        job = self._jobs.get(uid)
        return self._jobs.pop(uid) if job is not None and job.is_done else None

    async def cancel(self, uid: str) -> None:
        """Returns when it has ended, with every process of it."""
        job = self._jobs.pop(uid, None)
        if job is not None:
            job.task.cancel()
            await asyncio.wait([job.task])
            if not job.task.cancelled():
                job.task.exception()

    async def close(self) -> None:
        for uid in list(self._jobs):
            await self.cancel(uid)
