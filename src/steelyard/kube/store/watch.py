"""Who is told of which change: subscriptions by key prefix, and the recent changes they can resume from.

Publishing looks up the key's own prefixes, one per folder, so its cost depends on how many subscribers match and not on
how many there are. A subscriber never holds up the writer or another subscriber: changes wait in its buffer, and one
that lets the buffer grow past its limit, in changes or in bytes, is cut off with `Lagging`. Many who wait for the same
change are woken over several turns of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, Protocol

from steelyard.kube import turns
from steelyard.kube.store.errors import Lagging
from steelyard.kube.store.record import Change

_HISTORY_CHUNK: Final = 500
_MOST_BYTES: Final = 16 * 1024 * 1024
"""Of the states that a subscriber leaves lying: subscribers share them, but one that is behind keeps them alive."""


class ReadHistory(Protocol):
    """Reads up to `limit` changes of a prefix in (after, until] from the file."""

    def __call__(self, prefix: str, after: int, until: int, limit: int) -> Awaitable[list[Change]]: ...


class Subscription:
    """The changes of one prefix in revision order, as an async iterator with one consumer.

    Iteration ends when the subscription or the store is closed; it raises `Lagging` after falling behind, `Compacted`
    if history was dropped while it was being replayed, and `Corrupt`. What it resumes from is either `recent`, or read
    from (after, until] with `read`.
    """

    __slots__ = (
        "_after", "_buffer", "_bytes", "_cancel", "_concerns", "_error", "_is_woken", "_limit", "_open", "_read",
        "_taken", "_until", "_waiter", "prefix",
    )  # fmt: skip

    def __init__(
        self,
        prefix: str,
        cancel: Callable[[Subscription], None],
        *,
        limit: int,
        after: int,
        until: int,
        read: ReadHistory | None,
        recent: Iterable[Change] = (),
        concerns: Callable[[Change], bool] | None = None,
    ) -> None:
        self.prefix = prefix
        self._concerns = concerns
        self._cancel = cancel
        self._limit = limit
        self._buffer: deque[Change] = deque()
        self._bytes = 0
        self._is_woken = False
        self._taken = deque(recent)
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._open = True
        self._read = read
        self._after = after
        self._until = until

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Change:
        if not self._taken:
            self._taken.extend(await self.batch())
            if not self._taken:
                raise StopAsyncIteration
        return self._taken.popleft()

    async def batch(self) -> list[Change]:
        """All changes that are there, at least one; an empty list once the subscription is closed."""
        if self._taken:
            return _drain(self._taken)
        while True:
            if self._error is not None:
                raise self._error
            if self._read is not None:
                if chunk := await self._replay(self._read):
                    return chunk
            elif self._buffer:
                self._bytes = 0
                return _drain(self._buffer)
            elif not self._open:
                return []
            else:
                await self._wait()

    def arrived(self) -> list[Change]:
        """All changes that are there, perhaps none, without waiting: for one that follows only the live changes."""
        if self._error is not None:
            raise self._error
        self._bytes = 0
        return _drain(self._buffer) if self._buffer else []

    async def _replay(self, read: ReadHistory) -> list[Change]:
        try:
            chunk = await read(self.prefix, self._after, self._until, _HISTORY_CHUNK)
        except Exception as error:
            self.fail(error)
            raise
        if not self._open:
            return []
        if len(chunk) < _HISTORY_CHUNK:
            self._read = None
        else:
            self._after = chunk[-1].revision
        return chunk

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
            self._is_woken = False

    def push(self, change: Change) -> bool:
        """Whether there was room. The caller cuts off a subscription that had none."""
        size = _size(change)
        waking: list[Callable[[], None]] = []
        had_room = self.put(change, size, waking)
        turns.run_each(waking, turns.TELLING + size, self.prefix)
        return had_room

    def put(self, change: Change, size: int, waking: list[Callable[[], None]]) -> bool:
        """The same for one of many who are told: its wake-up is left to the caller, if it needs one."""
        if self._concerns is not None and not self._concerns(change):
            return True
        buffer = self._buffer
        if len(buffer) >= self._limit or (self._bytes > _MOST_BYTES and self._waiter is None):
            return False
        buffer.append(change)
        self._bytes += size
        if self._waiter is not None and not self._is_woken:
            self._is_woken = True
            waking.append(self._wake)
        return True

    def cut_off(self) -> None:
        self.fail(Lagging(self.prefix, self._limit))

    def fail(self, error: Exception) -> None:
        self._buffer.clear()
        self._bytes = 0
        self._error = error
        self.close()

    def close(self) -> None:
        """Ends the iteration after what is already buffered. Closing twice is fine."""
        if not self._open:
            return
        self._open = False
        if self._read is not None:
            # The buffered changes follow history that will not be read any more.
            self._read = None
            self._buffer.clear()
        self._cancel(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _drain(queue: deque[Change]) -> list[Change]:
    changes = list(queue)
    queue.clear()
    return changes


def _size(change: Change) -> int:
    """Of the state that a subscriber is told of."""
    state = change.record or change.final
    return state.size if state is not None else 0


def _is_folder(prefix: str) -> bool:
    return prefix.endswith("/")


class Subscribers:
    """All open subscriptions, found by prefix."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, dict[Subscription, None]] = {}
        self._lengths: dict[int, int] = {}
        """Of the prefixes that are no folders, with how many have each."""

    def add(self, subscription: Subscription) -> None:
        same = self._by_prefix.setdefault(subscription.prefix, {})
        if not same and not _is_folder(subscription.prefix):
            length = len(subscription.prefix)
            self._lengths[length] = self._lengths.get(length, 0) + 1
        same[subscription] = None

    def remove(self, subscription: Subscription) -> None:
        same = self._by_prefix[subscription.prefix]
        del same[subscription]
        if not same:
            del self._by_prefix[subscription.prefix]
        if not same and not _is_folder(subscription.prefix):
            length = len(subscription.prefix)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def publish(self, change: Change) -> None:
        size = _size(change)
        full: list[Subscription] = []
        for prefix in self._prefixes(change.key):
            if same := self._by_prefix.get(prefix):
                waking: list[Callable[[], None]] = []
                full += [subscription for subscription in same if not subscription.put(change, size, waking)]
                if waking:
                    # Whoever follows other objects does not wait behind all who follow these.
                    turns.run_each(waking, turns.TELLING + size, prefix)
        for subscription in full:
            subscription.cut_off()

    def _prefixes(self, key: str) -> Iterator[str]:
        """Those of the key that somebody may follow."""
        end = key.find("/") + 1
        while end:
            yield key[:end]
            end = key.find("/", end) + 1
        for length in self._lengths:
            if length <= len(key) and not _is_folder(key[:length]):
                yield key[:length]

    def close(self) -> None:
        for subscription in [each for same in self._by_prefix.values() for each in same]:
            subscription.close()
