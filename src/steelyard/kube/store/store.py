"""A durable, watchable map from key to JSON with one revision counter: what an API server needs of its database.

Guarantees (`docs/storage.md` has the whole contract):
- A write is acknowledged only after its row is on disk. `get`, `scan` and watches show durable state and nothing else.
- Revisions are consecutive; state, watchers and futures advance in revision order.
- A watch from a retained revision gets every later change of its prefix exactly once, also across a restart.

Everything here runs on the event loop's thread. The current state lives in memory, but for large values (`shelf.py`),
and is read without waiting; the writer thread alone writes to the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from sortedcontainers import SortedDict

from steelyard.kube.objects import Object
from steelyard.kube.store.errors import Closed, Compacted, Corrupt, Mismatch, StoreFailed
from steelyard.kube.store.history import History
from steelyard.kube.store.lock import FileLock
from steelyard.kube.store.log import Log, Survey
from steelyard.kube.store.recent import Recent
from steelyard.kube.store.record import Change, Record, upper_bound
from steelyard.kube.store.reserve import Reserve, relieves
from steelyard.kube.store.retention import Retention
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.shelf import Shelf
from steelyard.kube.store.usage import Usage
from steelyard.kube.store.watch import Subscribers, Subscription
from steelyard.kube.store.writer import CommitHook, Compaction, Encode, Observer, Options, Resealing, Write, Writer

logger = logging.getLogger(__name__)

RETAINED_REVISIONS: Final = 5_000
"""History that automatic compaction leaves, for watches and paged lists to resume from."""
COMPACTION_THRESHOLD: Final = 10_000
"""Obsolete rows beyond the retained ones before compaction is worth its writes."""
_COMPACTION_THRESHOLD_WHEN_FULL: Final = 200
_MAX_BATCH: Final = 512


class Store:
    """Open one with `await Store.open(path)`. The attributes are for reading."""

    revision: int
    """The last durable revision."""
    compacted: int
    """The oldest revision that a watch or a list can start from."""
    _writer: Writer

    def __init__(self, path: Path, *, lag_limit: int, sealer: Sealer | None) -> None:
        self.path = path
        self._lock = FileLock(path)
        self._lag_limit = lag_limit
        self._state: SortedDict[str, Record] = SortedDict()
        self._rows = 0
        self._retention = Retention(0, 0)
        self._usage: Usage | None = None
        self._automatic_compaction: Compaction | None = None
        self._recent = Recent()
        self._subscribers = Subscribers()
        self._pending: dict[str, Write] = {}
        self._in_flight: deque[Write] = deque()
        self._outgoing: list[Write] = []
        self._loop = asyncio.get_running_loop()
        self._epoch = 0
        self._next_revision = 1
        self._failure: Exception | None = None
        self._full: StoreFailed | None = None
        self._reserve: Reserve | None = None
        self._is_probing = False
        self._history = History(path, sealer, self._on_damaged)
        self._shelf = Shelf(path, sealer, self._on_damaged_anywhere)
        self._closing: asyncio.Task[None] | None = None
        self.revision = 0
        self.compacted = 0

    @staticmethod
    async def open(
        path: Path,
        *,
        fsync: bool = True,
        lag_limit: int = 10_000,
        max_batch: int = _MAX_BATCH,
        before_commit: CommitHook | None = None,
        after_commit: CommitHook | None = None,
        sealer: Sealer | None = None,
    ) -> Store:
        """Takes the lock, loads and checks the file, starts the writer thread.

        Raises `Locked`, `Missing`, `Corrupt` and `CannotDecrypt`; then the files are as they were. What the `sealer` is
        for is encrypted on disk. Without `fsync` a crash of the machine loses acknowledged writes: only for showing
        that a durability check notices. The hooks are for fault injection: they are called in the writer thread with
        the highest revision of the batch, just before it is written and just after it is durable (when nobody knows
        yet); one that raises before the commit makes it fail. `max_batch=1` gives every write a commit of its own.
        """
        store = Store(path, lag_limit=lag_limit, sealer=sealer)
        store._lock.acquire()
        options = Options(fsync, max_batch, before_commit, after_commit, sealer, store._shelf.put_away)
        observer = Observer(
            store._on_committed, store._on_failed, store._on_probed, store._on_dropped, store._on_compacted
        )
        store._writer = Writer(path, options, asyncio.get_running_loop(), observer)
        try:
            loaded = await store._writer.start()
        except BaseException:
            store._lock.release()
            raise
        store._state = SortedDict(loaded.records)
        store._rows = loaded.rows
        current = sum(record.size for record in loaded.records.values())
        store._retention = Retention(loaded.revision, max(loaded.size - current, 0))
        store.revision = loaded.revision
        store.compacted = loaded.compacted
        store._next_revision = loaded.revision + 1
        return store

    @property
    def newest(self) -> int:
        """The last revision that was given to a write, durable or not."""
        return self._next_revision - 1

    @property
    def commits(self) -> int:
        """How many transactions (and so fsyncs) the writes so far took."""
        return self._writer.commits

    def check(self) -> str | None:
        """Why writes fail; None while all is well. Where the disk was full this tries again, for the next to ask."""
        if self._failure is not None:
            return str(self._failure)
        full = self._fullness()
        if full is None:
            return None
        self._probe()
        return str(full)

    def rely_on(self, reserve: Reserve) -> None:
        """From now on the disk is full when the reserve says so, and what deletes something may use the reserve."""
        self._reserve = reserve
        self._writer.reserve = reserve

    def _fullness(self) -> StoreFailed | None:
        """Another store of the directory may have found out first, that it is full or that it no longer is."""
        if self._reserve is not None and self._reserve.is_full and self._full is None:
            self._note(_full_disk(self.path))
        elif self._reserve is not None and not self._reserve.is_full and self._full is not None:
            self._end_full()
        return self._full

    def _probe(self) -> None:
        if not self._is_probing and self._failure is None:
            self._is_probing = True
            self._writer.queue_probe()

    def get(self, key: str) -> Record | None:
        return self._state.get(key)

    def head(self, key: str) -> Record | None:
        """The newest state, durable or not: what a read-modify-write must start from."""
        write = self._pending.get(key)
        return write.change.record if write is not None else self._state.get(key)

    async def settled(self, key: str) -> Record | None:
        """The key's state once every write queued for it so far is durable. Raises `StoreFailed` if one failed."""
        write = self._pending.get(key)
        if write is None:
            return self._state.get(key)
        # Not the write's own future: whoever made the write may cancel that one by giving up.
        future: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()
        write.others.append(future)
        return await future

    def scan(self, prefix: str, *, after: str = "", limit: int = 0) -> list[Record]:
        """The records under the prefix in key order, beginning behind the key `after`."""
        state = self._state
        if after >= prefix and after:
            keys = state.irange(after, upper_bound(prefix), (False, False))
        else:
            keys = state.irange(prefix, upper_bound(prefix), (True, False))
        return [state[key] for key in (islice(keys, limit) if limit else keys)]

    def heads(self, prefix: str) -> list[Record]:
        """The newest records under the prefix, durable or not, in no order: what must be unique starts from them."""
        found = self.scan(prefix)
        pending = {key: write.change.record for key, write in self._pending.items() if key.startswith(prefix)}
        if not pending:
            return found
        changed = [record for record in pending.values() if record is not None]
        return [record for record in found if record.key not in pending] + changed

    async def scan_at(self, prefix: str, revision: int, *, after: str = "", limit: int = 0) -> list[Record]:
        """Like `scan`, but the state as of a retained revision. Raises `Compacted` if it is not retained."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        changed = self._replaced_since(prefix, revision)
        if changed is None:
            until = self.revision
            current = self.scan(prefix)
            changed = await self._history.replaced_since(prefix, revision, until)
        elif not changed:
            return self.scan(prefix, after=after, limit=limit)
        else:
            current = self.scan(prefix)
        states = {record.key: record for record in current if record.key not in changed}
        states.update((key, record) for key, record in changed.items() if record is not None)
        found = [states[key] for key in sorted(states) if key > after]
        return found[:limit] if limit else found

    def _replaced_since(self, prefix: str, revision: int) -> dict[str, Record | None] | None:
        """The state at `revision` of each key changed since, if the recent changes reach back that far, else None."""
        changes = self._recent_after(revision)
        if changes is None:
            return None
        states: dict[str, Record | None] = {}
        for change in changes:
            if change.key.startswith(prefix):
                states.setdefault(change.key, change.previous)
        return states

    def used(self, space: str) -> int:
        """Bytes of the newest states in the space, durable or not. Counted from the first call on."""
        if self._usage is None:
            self._usage = Usage(self.heads(""))
        return self._usage.of(space)

    def count(self, prefix: str) -> int:
        return self._state.bisect_left(upper_bound(prefix)) - self._state.bisect_left(prefix)

    def put(
        self, key: str, encode: Encode, *, expect: int | None = None, obj: Object | None = None
    ) -> asyncio.Future[Record]:
        """Writes `encode(revision)` under the key; the result comes when it is durable.

        `expect` is checked at once against `head`: 0 means the key must not exist, None that anything goes, else the
        newest revision must equal it, or `Mismatch` is raised. `obj` is the object that `encode` encodes, if the caller
        has it: it becomes the record's object and must not be changed any more.
        """
        head = self._checked_head(key, expect)
        revision = self._next_revision
        record = Record(key, revision, encode(revision), obj)
        change = Change(revision, key, record, head)
        if self._reserve is not None and self._reserve.is_full and not relieves(change):
            return self._turned_away()
        return self._queue(Write(change, record, self._loop.create_future(), self._epoch, encode))

    def delete(self, key: str, *, expect: int | None = None, encode: Encode | None = None) -> asyncio.Future[Record]:
        """Removes the key. The result, and `final` of the change, is its last state: as `encode` writes it with the
        revision of the deletion, or as it was. A key that does not exist is a `Mismatch`.
        """
        head = self._checked_head(key, expect)
        if head is None:
            raise Mismatch(key, expect, 0)
        revision = self._next_revision
        final = Record(key, revision, encode(revision) if encode is not None else head.value)
        change = Change(revision, key, None, head, final)
        return self._queue(Write(change, final, self._loop.create_future(), self._epoch, encode))

    def _turned_away(self) -> asyncio.Future[Record]:
        """What a write gets that would need the space which is left for deletions."""
        failed: asyncio.Future[Record] = self._loop.create_future()
        failed.set_exception(self._fullness() or _full_disk(self.path))
        self._probe()
        return failed

    def _checked_head(self, key: str, expect: int | None) -> Record | None:
        if self._failure is not None:
            raise self._failure
        head = self.head(key)
        actual = head.revision if head is not None else 0
        if expect is not None and expect != actual:
            raise Mismatch(key, expect, actual)
        return head

    def _queue(self, write: Write) -> asyncio.Future[Record]:
        change = write.change
        if change.previous is not None:
            self._shelf.take_down(change.previous)
        self._next_revision = change.revision + 1
        self._pending[change.key] = write
        if self._usage is not None:
            self._usage.add(change)
        self._in_flight.append(write)
        if not self._outgoing:
            self._loop.call_soon(self._send)
        self._outgoing.append(write)
        return write.future

    def _send(self) -> None:
        """All writes of one turn of the event loop go to the writer together, and so into one commit."""
        for write in self._outgoing:
            self._writer.queue_write(write)
        self._outgoing.clear()

    def watch(self, prefix: str, after: int, concerns: Callable[[Change], bool] | None = None) -> Subscription:
        """Every change of the prefix after the revision: first the retained ones, then as they become durable; of these
        only such as `concerns` says yes to. It is asked while everybody waits."""
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        if self._closing is not None:
            raise Closed
        missed = self._recent_after(after)
        subscription = Subscription(
            prefix,
            self._subscribers.remove,
            limit=self._lag_limit,
            after=after,
            until=self.revision,
            read=self._history.changes if missed is None else None,
            recent=(change for change in missed or () if change.key.startswith(prefix)),
            concerns=concerns,
        )
        self._subscribers.add(subscription)
        return subscription

    def _recent_after(self, revision: int) -> Iterable[Change] | None:
        """The changes after the revision, or None if they are not all in memory any more."""
        if revision >= self.revision:
            return ()
        return self._recent.after(revision)

    async def compact(self, before: int) -> None:
        """Drops the history that leads up to the revision; states as of it and later remain readable."""
        end = min(before, self.revision)
        if end <= self.compacted:
            return
        if self._failure is not None:
            raise self._failure
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._start_compaction(Compaction(end, done))
        await done

    def _start_compaction(self, compaction: Compaction) -> None:
        # From now on nobody may start from what is about to go, whether or not it succeeds.
        self.compacted = compaction.end
        self._retention.forget(compaction.end)
        self._writer.queue_compaction(compaction)

    async def reseal(self) -> int:
        """Encrypts with the sealer's first key whatever is not, and leaves nothing else of it; how many rows.

        Nobody notices: no revision, no event. Writers wait while the file is written anew at the end.
        """
        if self._failure is not None:
            raise self._failure
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer.queue_resealing(Resealing(done))
        return await done

    async def copy(self, target: Path) -> Survey:
        """Copies the store as of one revision into a new file, and checks the copy row by row; writers go on meanwhile.

        Raises `Corrupt`. The caller removes what is there of a copy that failed.
        """
        return await asyncio.to_thread(Log.copy, self.path, target)

    async def close(self) -> None:
        """Makes durable what was queued, ends all watches, releases the file. Closing twice is fine."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._failure = self._failure or Closed()
        self._send()
        await self._writer.stop()
        self._subscribers.close()
        await self._history.close()
        self._shelf.close()
        self._lock.release()

    def _on_committed(self, writes: Sequence[Write]) -> None:
        state, pending, recent, in_flight = self._state, self._pending, self._recent, self._in_flight
        for write in writes:
            change = write.change
            key = change.key
            if change.record is not None:
                state[key] = change.record
            else:
                del state[key]
            self.revision = change.revision
            if pending[key] is write:
                del pending[key]
                if change.record is not None:
                    self._shelf.put(change.record)
            in_flight.popleft()
            recent.note(change)
            self._retention.note(change)
            self._subscribers.publish(change)
            write.succeed()
        recent.trim()
        self._shelf.tidy()
        self._rows += len(writes)
        if self._full is not None and self._reserve is None:
            self._end_full()
        self._compact_if_worthwhile()

    def _on_failed(self, failure: StoreFailed) -> None:
        self._note(failure)
        writes = list(self._in_flight)
        self._in_flight.clear()
        self._pending.clear()
        self._epoch += 1
        self._next_revision = self.revision + 1
        for write in writes:
            if self._usage is not None:
                self._usage.undo(write.change)
            previous = write.change.previous
            if previous is not None and previous is self._state.get(previous.key):
                self._shelf.put(previous)
        for write in writes:
            if not failure.retryable or not self._try_again(write):
                write.fail(failure)

    def _try_again(self, write: Write) -> bool:
        """Whether it is on its way again: what deletes something is not refused for what it was to be written with."""
        change = write.change
        is_worth_it = self._reserve is not None and not write.is_second_try and not write.future.cancelled()
        if not is_worth_it or change.previous is not self.head(change.key) or not relieves(change):
            return False
        try:
            self._queue(write.anew(self._next_revision, self._epoch))
        except Exception as error:
            write.fail(error)
        return True

    def _note(self, failure: StoreFailed) -> None:
        if not failure.retryable:
            self._refuse(failure)
        elif self._full is None:
            self._full = failure
            logger.error("the disk is full: writes fail until there is space", extra={"error": str(failure)})

    def _refuse(self, reason: StoreFailed | Corrupt) -> None:
        """What is in memory is right and goes on being read; nobody may rely on what would be written now."""
        if self._failure is None:
            self._failure = reason
            logger.error("the store refuses writes until it is opened again", extra={"error": str(reason)})

    def _end_full(self) -> None:
        self._full = None
        logger.info("the disk has space again: writes go on", extra={"path": str(self.path)})

    def _on_probed(self, failure: StoreFailed | None) -> None:
        self._is_probing = False
        if failure is not None:
            self._note(failure)
        elif self._full is not None:
            self._end_full()

    def _on_damaged(self, damage: Corrupt) -> None:
        self._refuse(damage)

    def _on_damaged_anywhere(self, damage: Corrupt) -> None:
        """In any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._refuse, damage)

    def _compact_if_worthwhile(self) -> None:
        """Runs after writes only, so a store that nobody writes to stays untouched."""
        if self._automatic_compaction is not None:
            return
        obsolete = self._rows - len(self._state)
        retained, threshold = RETAINED_REVISIONS, COMPACTION_THRESHOLD
        if self._reserve is not None and self._reserve.is_full:
            # Space within the file is all there is: history goes, and watches that resume from it list again.
            retained, threshold = 0, _COMPACTION_THRESHOLD_WHEN_FULL
        end = 0
        if obsolete > retained + threshold:
            end = self.revision - retained
        elif self._retention.is_too_much:
            end = self._retention.end()
        if end > self.compacted:
            self._automatic_compaction = Compaction(end)
            self._start_compaction(self._automatic_compaction)

    def _on_dropped(self, rows: int) -> None:
        self._rows -= rows

    def _on_compacted(self, compaction: Compaction, error: Exception | None) -> None:
        if compaction is self._automatic_compaction:
            # A failure is left at that: the next write tries again.
            self._automatic_compaction = None
        if isinstance(error, StoreFailed):
            self._note(error)
        done = compaction.done
        if done is None or done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(None)


def _full_disk(path: Path) -> StoreFailed:
    return StoreFailed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path, retryable=True)
