"""The shelf: large values of the current state, which are on the disk anyway and are read from there when asked for.

The state of a store is in memory, so whoever may write would decide how much memory the process has. What is small
stays: a value of less than `LARGE` bytes costs little more than the key and the record around it. Of the larger ones
only those that were written or asked for last are kept, up to `KEPT_BYTES`.

A value that somebody is using, such as a list that its client reads slowly, stays with its record until then: to let go
of it would free nothing, and a hundred who read the same slowly would have a hundred of it.

Only the durable state of a key can be on the shelf: its row is in the file for as long as nothing replaces it. Before
a write replaces it, its value is taken down again and stays with the record, for everybody who still has that (a watch
that is behind, a list that is being read), because compaction may then drop the row at any time.

Reading a row of 1 MB takes about a millisecond, and one of 10 KB some 20 µs; the file has been read or written
since the process was started, so that it is the system's memory that answers. The checksum is compared each time.
Whoever has a record may ask for its value in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from steelyard.kube.store.errors import Closed, Corrupt
from steelyard.kube.store.log import Log
from steelyard.kube.store.record import Record
from steelyard.kube.store.sealing import Sealer

LARGE: Final = 4 * 1024
KEPT_BYTES: Final = 4 * 1024 * 1024


class Shelf:
    def __init__(self, path: Path, sealer: Sealer | None, damaged: Callable[[Corrupt], None]) -> None:
        """`damaged` is told in the thread that met damage; whoever asked is told as well."""
        self._path = path
        self._sealer = sealer
        self._damaged = damaged
        self._log: Log | None = None
        self._is_closed = False
        self._reading = threading.Lock()
        self._lock = threading.Lock()
        """For what is kept, and for which of them have their value."""
        self._kept: dict[Record, None] = {}
        """Those that have it, the oldest first."""
        self._bytes = 0

    @property
    def kept_bytes(self) -> int:
        return self._bytes

    def put(self, record: Record) -> None:
        """It is the durable state of its key. It may be without its value from now on, if that is large."""
        if record.size < LARGE:
            return
        with self._lock:
            record.source = self
            if record not in self._kept:
                self._keep(record)

    def put_away(self, record: Record) -> None:
        """The same for one that nobody has asked for."""
        if record.size >= LARGE:
            record.source = self
            record.let_go()

    def take_down(self, record: Record) -> None:
        """It is about to be replaced: its value stays with it. Raises what reading a file can raise."""
        if record.source is None:
            return
        value = record.value
        with self._lock:
            record.bring_back(value)
            record.source = None
            if record in self._kept:
                del self._kept[record]
                self._bytes -= record.size

    def fetch(self, record: Record) -> bytes:
        """The value of a record that is without it."""
        value = self._read(record)
        if value is None:
            # It was replaced in this moment, and the row has gone: then the value is with the record again.
            value = record.value_at_hand
            if value is None:
                raise self._damage(Corrupt(f"{self._path}: {record!r} is missing; restore a backup"))
            return value
        with self._lock:
            if record.source is self and record not in self._kept:
                record.bring_back(value)
                self._keep(record)
            # Another thread may have been faster: all use the same.
            return record.value_at_hand or value

    def close(self) -> None:
        with self._reading:
            self._is_closed = True
            if self._log is not None:
                self._log.close()
                self._log = None

    def tidy(self) -> None:
        """Called from time to time: what was in use may no longer be."""
        if self._bytes > KEPT_BYTES:
            with self._lock:
                self._make_room()

    def _keep(self, record: Record) -> None:
        self._kept[record] = None
        self._bytes += record.size
        if self._bytes > KEPT_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        for record in list(self._kept):
            if self._bytes <= KEPT_BYTES:
                return
            if not record.is_value_in_use():
                del self._kept[record]
                self._bytes -= record.size
                record.let_go()

    def _read(self, record: Record) -> bytes | None:
        with self._reading:
            if self._is_closed:
                raise Closed
            if self._log is None:
                self._log = Log.open_reader(self._path, self._sealer)
                self._log.keep_few_pages()
            try:
                return self._log.value(record.revision, record.key)
            except Corrupt as error:
                raise self._damage(error) from None

    def _damage(self, error: Corrupt) -> Corrupt:
        self._damaged(error)
        return error
