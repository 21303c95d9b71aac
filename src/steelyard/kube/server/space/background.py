"""What a server does on its own: it follows the changes of its space and reacts to them.

One subscription and one task per server, whatever the number of concerns. A concern decides and writes in one go on the
newest state and does not wait for its writes: they are durable in order, and each comes back as a change. Work is done
in slices of a few milliseconds, so that a deletion of thousands of objects leaves the loop to others.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from steelyard.kube import turns
from steelyard.kube.store.errors import Lagging, StoreError, StoreFailed
from steelyard.kube.store.record import Change, Record
from steelyard.kube.store.store import Store

_log = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 1.0


def _nobody_listens() -> None:
    pass


class Work(abc.ABC):
    """A queue of distinct items, each looked at again whenever something that concerns it changes."""

    def __init__(self) -> None:
        self._items: dict[str, None] = {}
        self.wake: Callable[[], None] = _nobody_listens

    @abc.abstractmethod
    def load(self, records: Iterable[Record]) -> None:
        """The state at start, and again after falling behind."""

    @abc.abstractmethod
    def observe(self, change: Change) -> None: ...

    @abc.abstractmethod
    def process(self, item: str) -> None:
        """Looks at the newest state and does what it asks for; may enqueue more."""

    def enqueue(self, item: str) -> None:
        self._items[item] = None

    def write(self, write: asyncio.Future[Record], item: str) -> None:
        """Lets the write finish by itself; one that fails for want of space is tried again."""

        def done(future: asyncio.Future[Record]) -> None:
            error = None if future.cancelled() else future.exception()
            if isinstance(error, StoreFailed) and error.retryable:
                future.get_loop().call_later(_RETRY_SECONDS, self.retry, item)

        write.add_done_callback(done)

    def retry(self, item: str) -> None:
        self.enqueue(item)
        self.wake()

    def close(self) -> None:  # noqa: B027 (most have nothing to end)
        """Ends what goes on besides the queue."""

    def take(self) -> str | None:
        """The item that waits longest."""
        for item in self._items:
            del self._items[item]
            return item
        return None

    @property
    def is_idle(self) -> bool:
        return not self._items


class Background:
    """Runs the concerns of one server. Create with `start`, end with `close`."""

    __slots__ = ("_concerns", "_prefix", "_store", "_subscription", "_task")

    def __init__(self, store: Store, prefix: str, concerns: Sequence[Work]) -> None:
        self._store = store
        self._prefix = prefix
        self._concerns = concerns
        for concern in concerns:
            concern.wake = self._wake
        self._subscription = store.watch(prefix, store.revision)
        self._load()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"background of {prefix}")

    def _load(self) -> None:
        records = self._store.scan(self._prefix)
        for concern in self._concerns:
            concern.load(records)

    async def _run(self) -> None:
        while True:
            await self._drain()
            try:
                changes = await self._subscription.batch()
            except Lagging:
                self._subscription = self._store.watch(self._prefix, self._store.revision)
                self._load()
                continue
            if not changes:
                return
            await self._observe(changes)

    def _wake(self) -> None:
        """A change of no key ends the wait for changes and means nothing else."""
        self._subscription.push(Change(self._store.revision, "", None, None))

    async def _observe(self, changes: list[Change]) -> None:
        pause = turns.Pause()
        for change in changes:
            await pause.if_due()
            if change.key:
                for concern in self._concerns:
                    try:
                        concern.observe(change)
                    except Exception:
                        # The other concerns must see the change, and the store its next one.
                        _log.exception("a change could not be followed", extra={"key": change.key})

    async def _drain(self) -> None:
        pause = turns.Pause()
        while not all(concern.is_idle for concern in self._concerns):
            for concern in self._concerns:
                while (item := concern.take()) is not None:
                    try:
                        concern.process(item)
                    except StoreError:
                        concern.enqueue(item)
                        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._wake)
                        return
                    except Exception:
                        # Not put back: what fails otherwise than the store would fail for ever, and hold up the rest.
                        _log.exception("background work failed", extra={"item": item})
                    if await pause.if_due():
                        break

    async def close(self) -> None:
        for concern in self._concerns:
            concern.close()
        self._subscription.close()
        self._task.cancel()
        await asyncio.wait([self._task])
