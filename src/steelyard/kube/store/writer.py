"""The one thread that writes to SQLite, and group commit.

The event loop queues writes; the thread takes everything queued since its last commit, appends it in one transaction,
and tells the loop once. While one commit waits for the disk the next batch collects, so the number of fsyncs adapts to
the load and a lone write waits for nothing.

After a failed commit the writes queued behind it are worthless, since they build on a state that never came to be.
Each write therefore carries the epoch it was queued in; a failure ends the epoch, and the thread drops what is left of
it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube.store import acknowledged
from steelyard.kube.store.errors import Closed, StoreFailed
from steelyard.kube.store.log import Loaded, Log, Row, is_damage
from steelyard.kube.store.record import Change, Record
from steelyard.kube.store.reserve import Reserve, relieves
from steelyard.kube.store.sealing import Sealer

_COMPACTION_STEP: Final = 2000
"""Revisions compacted in one transaction, so that writes wait for a few milliseconds of it at most."""

_RESEALING_STEP: Final = 200
"""Rows encrypted anew in one transaction."""

_RESERVE_AFTER: Final = 20
"""Commits after which a store is one that is written to, and worth the 10 MB that make the next ones faster."""

CommitHook = Callable[[int], None]
Encode = Callable[[int], bytes]
"""Given the revision of a write, what it writes."""


class Write:
    """One queued write: the change it makes, and the futures that are told once it is durable."""

    __slots__ = ("change", "encode", "epoch", "future", "is_second_try", "others", "result")

    def __init__(
        self, change: Change, result: Record, future: asyncio.Future[Record], epoch: int, encode: Encode | None = None
    ) -> None:
        self.change = change
        self.result = result
        """What `future` gets."""
        self.future = future
        self.epoch = epoch
        self.encode = encode
        self.others: list[asyncio.Future[Record | None]] = []
        """These get the key's new state."""
        self.is_second_try = False

    def anew(self, revision: int, epoch: int) -> Write:
        """The same under another revision, for the same futures; this one must not be used any more."""
        before, encode = self.change, self.encode
        if before.record is None:
            assert before.previous is not None
            result = Record(before.key, revision, encode(revision) if encode is not None else before.previous.value)
            change = Change(revision, before.key, None, before.previous, result)
        else:
            assert encode is not None
            result = Record(before.key, revision, encode(revision))
            change = Change(revision, before.key, result, before.previous)
        made = Write(change, result, self.future, epoch, encode)
        made.others = self.others
        made.is_second_try = True
        return made

    def succeed(self) -> None:
        if not self.future.done():
            self.future.set_result(self.result)
        for future in self.others:
            if not future.done():
                future.set_result(self.change.record)

    def fail(self, failure: Exception) -> None:
        for future in (self.future, *self.others):
            if not future.done():
                future.set_exception(failure)


@dataclass(slots=True)
class Compaction:
    """History up to `end` to drop. Nobody waits for one that the store started by itself."""

    end: int
    done: asyncio.Future[None] | None = None


@dataclass(slots=True)
class Resealing:
    """Everything to encrypt with the newest key; `done` gets the number of rows that were not."""

    done: asyncio.Future[int]
    position: int = 0
    sealed: int = 0


class Probe:
    """A small write that changes nothing, to see whether there is space again."""


@frozen
class Observer:
    """Told what the thread did, always on the event loop and in the order it happened."""

    committed: Callable[[Sequence[Write]], None]
    failed: Callable[[StoreFailed], None]
    probed: Callable[[StoreFailed | None], None]
    """What a probe met with, None if it was written."""
    dropped: Callable[[int], None]
    """So many rows, in one step of a compaction."""
    compacted: Callable[[Compaction, Exception | None], None]


@frozen
class Options:
    fsync: bool
    max_batch: int
    before_commit: CommitHook | None
    after_commit: CommitHook | None
    sealer: Sealer | None
    put_away: Callable[[Record], None] | None = None
    """What is done with each state that is loaded."""


class Writer:
    _mark: acknowledged.Mark

    def __init__(self, path: Path, options: Options, loop: asyncio.AbstractEventLoop, observer: Observer) -> None:
        self._path = path
        self._options = options
        self._loop = loop
        self._observer = observer
        self._queue: queue.SimpleQueue[Write | Compaction | Resealing | Probe | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"store-{path.name}", daemon=True)
        self._opened: asyncio.Future[Loaded] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._failed_epoch = -1
        self._compactions: list[Compaction] = []
        self._resealings: list[Resealing] = []
        self._is_probing = False
        self._compacted = 0
        self.reserve: Reserve | None = None
        self.queue_write = self._queue.put
        self.commits = 0

    async def start(self) -> Loaded:
        self._thread.start()
        return await self._opened

    def queue_compaction(self, compaction: Compaction) -> None:
        self._queue.put(compaction)

    def queue_resealing(self, resealing: Resealing) -> None:
        self._queue.put(resealing)

    def queue_probe(self) -> None:
        self._queue.put(Probe())

    async def stop(self) -> None:
        """Commits what is queued, then closes the file."""
        self._queue.put(None)
        await self._closed
        self._thread.join()

    def _run(self) -> None:
        try:
            log, loaded = self._open()
        except Exception as error:
            self._tell(_settle, self._opened, None, error)
            return
        self._compacted = loaded.compacted
        self._mark = acknowledged.Mark(self._path)
        self._tell(_settle, self._opened, loaded, None)
        stopping = False
        while not stopping:
            batch, stopping = self._collect()
            if batch:
                self._commit(log, batch)
            # What was written may be large, and the next write may be far away.
            del batch
            if self._compactions:
                self._compact_step(log)
            if self._resealings:
                self._reseal_step(log)
            if self._is_probing:
                self._probe(log)
        for resealing in self._resealings:
            self._tell(_settle, resealing.done, None, Closed())
        for compaction in self._compactions:
            self._tell(self._observer.compacted, compaction, Closed())
        self._mark.close()
        log.close()
        self._tell(_settle, self._closed, None, None)

    def _open(self) -> tuple[Log, Loaded]:
        """Looks before it touches: whatever is wrong with the file, it stays as it was found."""
        options = self._options
        with contextlib.ExitStack() as stack:
            loaded: Loaded | None = None
            if self._path.exists() and self._path.stat().st_size:
                untouched = Log.open_untouched(self._path, options.sealer)
                stack.callback(untouched.close)
                loaded = untouched.load(options.put_away) if untouched.is_begun() else None
                acknowledged.check(self._path, loaded.revision if loaded is not None else 0)
            log = Log.open(self._path, fsync=options.fsync, sealer=options.sealer)
            return log, loaded or log.load(options.put_away)

    def _collect(self) -> tuple[list[Write], bool]:
        """The next batch, and whether to stop after it. Waits only if there is nothing at all to do."""
        batch: list[Write] = []
        waiting = not self._compactions and not self._resealings
        try:
            while len(batch) < self._options.max_batch:
                item = self._queue.get(waiting)
                waiting = False
                if item is None:
                    return batch, True
                if isinstance(item, Compaction):
                    self._compactions.append(item)
                elif isinstance(item, Resealing):
                    self._resealings.append(item)
                elif isinstance(item, Probe):
                    self._is_probing = True
                elif item.epoch > self._failed_epoch:
                    batch.append(item)
        except queue.Empty:
            pass
        return batch, False

    def _commit(self, log: Log, batch: list[Write]) -> None:
        options = self._options
        last = batch[-1].change.revision
        try:
            rows = [_row_of(log, write) for write in batch]
            try:
                self._append(log, rows, last)
            except Exception as error:
                if not self._has_reserve_for(batch, log, error):
                    raise
                self._append(log, rows, last)
        except Exception as error:
            self._failed_epoch = batch[-1].epoch
            self._tell(self._observer.failed, self._failure(error))
            return
        self._mark.advance(last)
        self.commits += 1
        if options.after_commit is not None:
            options.after_commit(last)
        self._tell(self._observer.committed, batch)
        if self.commits == _RESERVE_AFTER and options.fsync and not self._is_full:
            log.reserve()

    def _append(self, log: Log, rows: Sequence[Row], last: int) -> None:
        if self._options.before_commit is not None:
            self._options.before_commit(last)
        log.append(rows)

    @property
    def _is_full(self) -> bool:
        return self.reserve is not None and self.reserve.is_full

    def _has_reserve_for(self, batch: Sequence[Write], log: Log, error: Exception) -> bool:
        """Whether space was set aside for just this, and has now been given back."""
        if self.reserve is None or not _is_disk_full(error):
            return False
        self.reserve.is_full = True
        return all(relieves(write.change) for write in batch) and self._release(log)

    def _release(self, log: Log) -> bool:
        if self.reserve is None or not self.reserve.release():
            return False
        log.keep_small()
        return True

    def _compact_step(self, log: Log) -> None:
        compaction = self._compactions[0]
        step = min(self._compacted + _COMPACTION_STEP, compaction.end)
        try:
            dropped = log.compact(self._compacted, step)
        except Exception as error:
            if _is_disk_full(error) and self._release(log):
                return
            self._compactions.pop(0)
            self._tell(self._observer.compacted, compaction, self._failure(error))
            return
        self._compacted = step
        self._tell(self._observer.dropped, dropped)
        if step >= compaction.end:
            self._compactions.pop(0)
            self._tell(self._observer.compacted, compaction, None)

    def _reseal_step(self, log: Log) -> None:
        resealing = self._resealings[0]
        try:
            sealed, resealing.position = log.reseal(resealing.position, _RESEALING_STEP)
            resealing.sealed += sealed
            if resealing.position:
                return
            log.scrub()
            if self.commits >= _RESERVE_AFTER and self._options.fsync and not self._is_full:
                log.reserve()
        except Exception as error:
            self._resealings.pop(0)
            self._tell(_settle, resealing.done, None, self._failure(error))
            return
        self._resealings.pop(0)
        self._tell(_settle, resealing.done, resealing.sealed, None)

    def _probe(self, log: Log) -> None:
        self._is_probing = False
        if self.reserve is not None and not self.reserve.renew():
            self._tell(self._observer.probed, self._failure(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
            return
        try:
            log.begin_at(self._compacted)
            log.keep_normal()
        except Exception as error:
            if self.reserve is not None:
                self.reserve.is_full = True
            self._tell(self._observer.probed, self._failure(error))
            return
        self._tell(self._observer.probed, None)

    def _failure(self, error: Exception) -> StoreFailed:
        damaged = isinstance(error, sqlite3.Error) and is_damage(error)
        return StoreFailed(error, self._path, retryable=_is_disk_full(error), damaged=damaged)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop was closed without closing the store: nobody is left to tell.
            return


def _row_of(log: Log, write: Write) -> Row:
    change = write.change
    previous = change.previous.revision if change.previous is not None else 0
    return log.row(change.revision, change.key, previous, int(change.record is None), write.result.value)


def _settle(future: asyncio.Future[object], result: object, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _is_disk_full(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
