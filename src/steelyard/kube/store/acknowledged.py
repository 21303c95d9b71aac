"""The last acknowledged revision, kept beside the database: it tells a log that was cut off from a complete one.

SQLite stops reading its write-ahead log at the first frame that fails its checksum, and opens without a word: what was
acknowledged after that frame would be gone, and revisions would be handed out a second time. The mark says how far the
log must reach at least.

It is two slots in a mapped file, written in turn, so that a process killed while it writes one leaves the other.
Writing takes no system call. It is not synced: after a loss of power it may be behind, and then only proves less.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import zlib
from pathlib import Path
from typing import Final

from steelyard.kube.store.errors import Corrupt

SUFFIX: Final = ".acknowledged"
_SLOT: Final = struct.Struct("<QI4x")
_BYTES: Final = 2 * _SLOT.size


class Mark:
    """Open while the store is; the writer thread advances it after each commit."""

    def __init__(self, path: Path) -> None:
        self._map: mmap.mmap | None = None
        self._next = 0
        # Without space for the file there is no mark: that is no reason to refuse the data that is there.
        with contextlib.suppress(OSError):
            self._map = _mapped(_beside(path))

    def advance(self, revision: int) -> None:
        if self._map is not None:
            _SLOT.pack_into(self._map, self._next, revision, _check_of(revision))
            self._next = _SLOT.size - self._next

    def close(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


def read(path: Path) -> int:
    """How far the log of the database at the path must reach; 0 if nothing is known."""
    try:
        content = _beside(path).read_bytes()
    except OSError:
        return 0
    slots = (_SLOT.unpack_from(content, start) for start in range(0, min(len(content), _BYTES) - 15, _SLOT.size))
    return max((revision for revision, check in slots if check == _check_of(revision)), default=0)


def check(path: Path, found: int) -> None:
    """Raises Corrupt if acknowledged revisions come after the last one that was found in the database."""
    acknowledged = read(path)
    if acknowledged > found:
        raise Corrupt(
            f"{path} ends at revision {found}, but everything up to {acknowledged} was acknowledged: its write-ahead "
            f"log is damaged or missing, and with it the last {acknowledged - found} writes; restore a backup, or "
            f"remove {_beside(path)} to go on without them"
        )


def traces(path: Path) -> list[str]:
    """What is left of a database whose file is missing or empty; nothing if there never was one, or if it is there.

    To be asked before anything creates the file: SQLite removes a write-ahead log that it finds beside a new one.
    """
    if path.exists() and path.stat().st_size:
        return []
    found: list[str] = []
    wal = path.with_name(f"{path.name}-wal")
    if wal.exists() and (size := wal.stat().st_size):
        found.append(f"{wal.name} ({size} bytes)")
    if revision := read(path):
        found.append(f"{_beside(path).name} (up to revision {revision})")
    return found


def _beside(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _check_of(revision: int) -> int:
    return zlib.crc32(b"acknowledged %d" % revision)


def _mapped(path: Path) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_size < _BYTES:
            # Written, not only extended: a mapped hole that finds no space later would end the process.
            os.pwrite(descriptor, bytes(_BYTES), 0)
        return mmap.mmap(descriptor, _BYTES)
    finally:
        os.close(descriptor)
