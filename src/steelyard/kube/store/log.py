"""The append-only log in SQLite: the single source of truth, and the only module that speaks SQL.

    log(revision, key, previous, deleted, value, checksum)    one row per write, never changed
    meta(name, value, checksum)                               compacted: the revision up to which history was dropped

`previous` is the revision of the state that the row replaces, 0 for a new key. It makes history self-contained: the
state at an older revision is the current one with later rows undone, so no index on the key is needed and a write
touches the end of one table only.

A batch is one INSERT statement in autocommit mode. sqlite3 gives up the interpreter lock around every step, and
getting it back from a busy event loop can take milliseconds; one statement means it happens once per batch instead of
once per row. SQLite keeps what was last bound to each statement that sqlite3 keeps, one for each number of rows: a
batch of many rows or bytes is several statements in a transaction, so that those copies stay small.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from steelyard import durable
from steelyard.frozen import frozen
from steelyard.kube.store import acknowledged, sealing
from steelyard.kube.store.errors import Compacted, Corrupt, Missing
from steelyard.kube.store.record import Change, Record, checksum, upper_bound
from steelyard.kube.store.sealing import Sealer

FORMAT: Final = 1
_APPLICATION: Final = 0x57E31A4D
_SCHEMA: Final = """
CREATE TABLE log(
  revision INTEGER PRIMARY KEY, key TEXT NOT NULL, previous INTEGER NOT NULL, deleted INTEGER NOT NULL,
  value BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
"""
_ALL: Final = "SELECT * FROM log ORDER BY revision"
_CHANGES: Final = """
SELECT l.*, p.* FROM log l LEFT JOIN log p ON p.revision = l.previous AND l.previous > 0
WHERE l.revision > ? AND l.revision <= ? AND l.key >= ? AND l.key < ? ORDER BY l.revision LIMIT ?
"""
_NOT_THE_FILE: Final = frozenset(
    (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
     sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)
)  # fmt: skip
_CHECKPOINT_PAGES: Final = 2000
"""Pages of write-ahead log (8 MB) before they are moved into the database file."""
_CHECKPOINT_PAGES_WHEN_FULL: Final = 200
_RESERVED_BYTES: Final = 10 * 1024 * 1024
"""Space for that many pages with their headers, and for the batch that goes over."""
_FEW_KIBIBYTES: Final = 128
_STATEMENTS: Final = 32
"""Those that are kept."""
_ROWS_AT_ONCE: Final = 128
_BYTES_AT_ONCE: Final = 128 * 1024
"""In one statement; a row of more has one of its own."""
_EXTENDED_BYTES: Final = 256 * 1024
"""At a time, so that a start does not need memory for all of it."""


class Row(NamedTuple):
    revision: int
    key: str
    previous: int
    deleted: int
    value: bytes
    checksum: int


@frozen
class Loaded:
    """What a scan of the whole log finds."""

    records: dict[str, Record]
    revision: int
    compacted: int
    rows: int
    size: int
    """Bytes of all values, also of history."""


@frozen
class Survey:
    """What a check of the whole log finds, without keeping any of it."""

    revision: int
    rows: int


class Log:
    """One connection to the file. The writer thread has one; reading history uses another."""

    def __init__(self, connection: sqlite3.Connection, path: Path, sealer: Sealer | None = None) -> None:
        self._connection = connection
        self._path = path
        self._sealer = sealer
        self._clear = sealer.open if sealer is not None else sealing.open_without_keys

    @staticmethod
    def open(path: Path, *, fsync: bool = True, sealer: Sealer | None = None) -> Log:
        """Creates the file if there is none, readable by its owner only. Raises Missing where there was one."""
        if traces := acknowledged.traces(path):
            raise Missing(path, traces)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        log = Log(_connect(path), path, sealer)
        try:
            with _damage_told(path):
                log._prepare(fsync=fsync)
        except BaseException:
            log.close()
            raise
        return log

    @staticmethod
    def open_reader(path: Path, sealer: Sealer | None = None) -> Log:
        connection = _connect(path)
        connection.execute("PRAGMA query_only=ON")
        return Log(connection, path, sealer)

    @staticmethod
    def open_untouched(path: Path, sealer: Sealer | None = None) -> Log:
        """For reading a file that nobody has open: it stays as it is, and so does its write-ahead log.

        Any other connection, being the last to close, moves the log into the file and removes it: also a log of which
        only the beginning could be read.
        """
        return Log(_connect(path, read_only=True), path, sealer)

    def is_begun(self) -> bool:
        """Whether it is a store. False for a file that was made and never written to. Raises Corrupt."""
        with _damage_told(self._path):
            application, version = self._identity()
        if application != 0 and (application, version) != (_APPLICATION, FORMAT):
            raise Corrupt(f"{self._path} is not a store of format {FORMAT} (it says {application:#x}, {version})")
        return application != 0

    def _identity(self) -> tuple[int, int]:
        run = self._connection.execute
        return run("PRAGMA application_id").fetchone()[0], run("PRAGMA user_version").fetchone()[0]

    def _prepare(self, *, fsync: bool) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode=WAL")
        run(f"PRAGMA synchronous={'FULL' if fsync else 'OFF'}")
        self.keep_normal()
        if not self.is_begun():
            self._connection.executescript(
                f"BEGIN;{_SCHEMA}PRAGMA application_id={_APPLICATION};PRAGMA user_version={FORMAT};COMMIT;"
            )
            durable.sync_directory(self._path.parent)

    def keep_normal(self) -> None:
        self._connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")

    def keep_small(self) -> None:
        """From now on the write-ahead log is moved over early: there is little space for it."""
        self._connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES_WHEN_FULL}")

    def load(self, put_away: Callable[[Record], None] | None = None) -> Loaded:
        """The current state, from every row in order. Checks the file's structure, each row, and that none is missing
        after `compacted`. `put_away` is given each state, which may have been replaced by a later row.
        """
        with _damage_told(self._path):
            compacted = self.compacted()
            records: dict[str, Record] = {}
            revision = compacted
            rows = size = 0
            for found in self._rows(_ALL):
                rows += 1
                size += len(found.value)
                if found.revision > compacted:
                    current = records.get(found.key)
                    self._check_succession(found, revision, current.revision if current else 0)
                    revision = found.revision
                if found.deleted:
                    records.pop(found.key, None)
                else:
                    record = records[found.key] = self._record(found)
                    if put_away is not None:
                        put_away(record)
            self._check_structure()
            return Loaded(records, revision, compacted, rows, size)

    def survey(self) -> Survey:
        """Checks what `load` checks, in little memory."""
        with _damage_told(self._path), _snapshot(self._connection):
            compacted = revision = self.compacted()
            newest: dict[str, int] = {}
            rows = 0
            for found in self._rows(_ALL):
                rows += 1
                if found.revision > compacted:
                    self._check_succession(found, revision, newest.get(found.key, 0))
                    revision = found.revision
                newest[found.key] = 0 if found.deleted else found.revision
            self._check_structure()
            return Survey(revision, rows)

    def _check_structure(self) -> None:
        """SQLite's own check, which sees what rows cannot tell: that one from before the last compaction is missing."""
        [(verdict,)] = self._connection.execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            raise Corrupt(f"{self._path} is damaged: {' '.join(str(verdict).split())}; restore a backup")

    def _check_succession(self, found: Row, last: int, current: int) -> None:
        if found.revision != last + 1:
            raise Corrupt(
                f"{self._path}: rows are missing before {found.key} at revision {found.revision}: "
                f"the last one before it is {last}; restore a backup"
            )
        if found.previous != current:
            raise Corrupt(
                f"{self._path}: {found.key} at revision {found.revision} follows revision {found.previous}, and there "
                f"is {current or 'nothing'} before it; restore a backup"
            )

    def compacted(self) -> int:
        found = self._connection.execute("SELECT value, checksum FROM meta WHERE name = 'compacted'").fetchone()
        if found is None:
            return 0
        if found[1] != checksum(0, "compacted", found[0], 0, b""):
            raise Corrupt(f"{self._path}: the compaction mark fails its checksum; restore a backup")
        return int(found[0])

    @staticmethod
    def copy(source: Path, target: Path) -> Survey:
        """Copies the file as of now into a new one and checks that. Writers go on; what was dropped is left out."""
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        connection = _connect(source, read_only=True)
        try:
            with _damage_told(source):
                connection.execute("VACUUM INTO ?", (str(target),))
        finally:
            connection.close()
        copied = Log.open_reader(target)
        try:
            return copied.survey()
        finally:
            copied.close()

    def newest(self) -> int:
        """The last revision, without looking at what it holds."""
        found = self._connection.execute("SELECT max(revision) FROM log").fetchone()[0]
        return max(int(found or 0), self.compacted())

    def begin_at(self, revision: int) -> None:
        """History starts at this revision: rows up to it need not be complete."""
        mark = (revision, checksum(0, "compacted", revision, 0, b""))
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('compacted', ?, ?)", mark)

    def row(self, revision: int, key: str, previous: int, deleted: int, value: bytes) -> Row:
        """The row as it is on disk: sealed where that is asked for, and with the checksum of that."""
        if self._sealer is not None:
            value = self._sealer.seal(revision, key, value)
        return Row(revision, key, previous, deleted, value, checksum(revision, key, previous, deleted, value))

    def append(self, rows: Sequence[Row]) -> None:
        """All of them durably, or none."""
        portions = list(_portions(rows))
        if len(portions) == 1:
            self._insert(rows)
            return
        with self._transaction():
            for portion in portions:
                self._insert(portion)

    def _insert(self, rows: Sequence[Row]) -> None:
        parameters: list[object] = []
        for each in rows:
            parameters.extend(each)
        self._connection.execute(_insertion(len(rows)), parameters)

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            yield
            run("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                run("ROLLBACK")
            raise

    def reserve(self) -> None:
        """Gives the write-ahead log its full size at once, filled with zeros.

        An fsync that also has to record a new file size takes about twice as long, and SQLite overwrites the log from
        the start once it has been moved over. Zeros behind the last frame mean nothing to SQLite: no valid frame
        begins with them. If there is no space, the log grows as it must.
        """
        wal = self._path.with_name(f"{self._path.name}-wal")
        try:
            fd = os.open(wal, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            _extend(fd, _RESERVED_BYTES)
        finally:
            os.close(fd)

    def compact(self, start: int, end: int) -> int:
        """Drops what the revisions in (start, end] made obsolete; returns the number of rows dropped.

        Everything up to `start` must have been compacted before.
        """
        run = self._connection.execute
        with self._transaction():
            self.begin_at(end)
            window = (start, end)
            superseded = run(
                "DELETE FROM log WHERE revision IN"
                " (SELECT previous FROM log WHERE revision > ? AND revision <= ? AND previous > 0)",
                window,
            ).rowcount
            tombstones = run("DELETE FROM log WHERE revision > ? AND revision <= ? AND deleted = 1", window).rowcount
        return superseded + tombstones

    def reseal(self, after: int, limit: int) -> tuple[int, int]:
        """Seals with the first key what is not, in up to `limit` rows after a revision: how many, and where to go on.

        Where nothing is left to look at, that is 0. The rows stay what they were to every reader.
        """
        sealer = self._sealer
        if sealer is None:
            return 0, 0
        marks = " OR ".join(["instr(key, ?)"] * len(sealer.marks))
        query = f"SELECT * FROM log WHERE revision > ? AND ({marks}) ORDER BY revision LIMIT ?"  # noqa: S608 - no input
        found = [
            self._checked(Row(*columns)) for columns in self._connection.execute(query, (after, *sealer.marks, limit))
        ]
        stale = [each for each in found if not sealer.is_current(each.value)]
        with self._transaction():
            for each in stale:
                clear = sealer.open(each.revision, each.key, each.value)
                made = self.row(each.revision, each.key, each.previous, each.deleted, clear)
                update = "UPDATE log SET value = ?, checksum = ? WHERE revision = ?"
                self._connection.execute(update, (*made[4:], each.revision))
        return len(stale), found[-1].revision if len(found) == limit else 0

    def scrub(self) -> None:
        """Writes the file anew, so that nothing is left of what was replaced, and empties the write-ahead log."""
        self._connection.execute("VACUUM")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def keep_few_pages(self) -> None:
        """For a reader that reads nothing twice."""
        self._connection.execute(f"PRAGMA cache_size=-{_FEW_KIBIBYTES}")

    def value(self, revision: int, key: str) -> bytes | None:
        """What was written under the key at the revision; None if it has been dropped. Raises Corrupt."""
        with _damage_told(self._path):
            columns = self._connection.execute("SELECT * FROM log WHERE revision = ?", (revision,)).fetchall()
        if not columns:
            return None
        found = self._checked(Row(*columns[0]))
        if found.key != key:
            raise Corrupt(f"{self._path}: revision {revision} is not {key} but {found.key}; restore a backup")
        return self._clear(revision, key, found.value)

    def changes(self, prefix: str, after: int, until: int, limit: int) -> list[Change]:
        """Up to `limit` changes of the prefix in (after, until], in order, each with the state it replaced."""
        with _damage_told(self._path), _snapshot(self._connection):
            self._check_retained(after)
            found = self._connection.execute(_CHANGES, (after, until, prefix, upper_bound(prefix), limit)).fetchall()
        changes: list[Change] = []
        for columns in found:
            new = self._checked(Row(*columns[:6]))
            old = self._checked(Row(*columns[6:])) if columns[6] is not None else None
            if new.previous and old is None:
                raise Corrupt(f"{self._path}: {new.key} lacks its state at revision {new.previous}; restore a backup")
            previous = self._record(old) if old else None
            record = self._record(new)
            changes.append(
                Change(new.revision, new.key, None, previous, record)
                if new.deleted
                else Change(new.revision, new.key, record, previous)
            )
        return changes

    def replaced_since(self, prefix: str, after: int, until: int) -> dict[str, Record | None]:
        """For each key that changed in (after, until]: its state at `after`, None if it did not exist."""
        states: dict[str, Record | None] = {}
        for change in self.changes(prefix, after, until, -1):
            states.setdefault(change.key, change.previous)
        return states

    def _check_retained(self, revision: int) -> None:
        compacted = self.compacted()
        if revision < compacted:
            raise Compacted(revision, compacted)

    def _rows(self, query: str) -> Iterator[Row]:
        cursor: Iterable[tuple[int, str, int, int, bytes, int]] = self._connection.execute(query)
        for columns in cursor:
            yield self._checked(Row(*columns))

    def _checked(self, found: Row) -> Row:
        if not _is_well_typed(found) or found.checksum != checksum(*found[:5]):
            raise Corrupt(
                f"{self._path}: {found.key} at revision {found.revision} fails its checksum; restore a backup"
            )
        return found

    def _record(self, found: Row) -> Record:
        return Record(found.key, found.revision, self._clear(found.revision, found.key, found.value))

    def close(self) -> None:
        self._connection.close()


class _snapshot:  # noqa: N801 - reads as a statement
    """A read transaction: everything read inside sees the same state of the file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN")

    def __exit__(self, *_: object) -> None:
        self._connection.execute("ROLLBACK")


def _portions(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    start = size = 0
    for end, row in enumerate(rows):
        if end > start and (end - start == _ROWS_AT_ONCE or size + len(row.value) > _BYTES_AT_ONCE):
            yield rows[start:end]
            start, size = end, 0
        size += len(row.value)
    yield rows[start:]


@cache
def _insertion(rows: int) -> str:
    return f"INSERT INTO log VALUES {','.join(['(?,?,?,?,?,?)'] * rows)}"  # noqa: S608 - nothing but question marks


def _is_well_typed(found: Row) -> bool:
    """SQLite stores each value's type in the row, and damage can change that as well."""
    numbers = (found.revision, found.previous, found.deleted)
    return isinstance(found.value, bytes) and isinstance(found.key, str) and all(type(each) is int for each in numbers)


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    # The file lock keeps other processes out, and within this one each connection is used by one thread at a time.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=10,
        cached_statements=_STATEMENTS,
    )
    # A damaged key must reach the checksum instead of failing to decode.
    connection.text_factory = _lenient
    return connection


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


@contextlib.contextmanager
def _damage_told(path: Path) -> Generator[None]:
    """Damage is Corrupt; what the file cannot be blamed for (a missing permission, a full disk) stays what it is."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes what it cannot make sense of.
        raise Corrupt(f"{path} cannot be read: {_lenient(error.object)}; restore a backup") from error
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        raise Corrupt(f"{path} cannot be read: {error}; restore a backup") from error


def is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _NOT_THE_FILE


def _extend(fd: int, size: int) -> None:
    """Fills the file up with zeros, or leaves it as it was if there is no space: a bit of space is worth more then."""
    before = os.fstat(fd).st_size
    try:
        while (end := os.fstat(fd).st_size) < size:
            os.pwrite(fd, bytes(min(size - end, _EXTENDED_BYTES)), end)
        os.fdatasync(fd)
    except OSError:
        os.ftruncate(fd, before)
