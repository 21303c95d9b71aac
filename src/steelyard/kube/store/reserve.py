"""Space that is set aside, so that deleting and starting work on a disk that is full.

While it is held, it is a file that takes up room. When the disk is full, only what deletes something is written any
more; where even that finds no space, the file is emptied, and what it took up is there for it. When somebody has made
room, the file is filled again, and everything is written as before.

One reserve serves all stores of a directory: the disk is full for all of them at once. Used by several threads.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from steelyard.kube import objects
from steelyard.kube.store.record import Change

SIZE: Final = 16 << 20
"""Two write-ahead logs of the size they are kept to meanwhile, and thousands of deletions between two compactions."""
_ROOM: Final = 1 << 20
"""What must be free besides it for the disk not to count as full."""
_GROWTH: Final = 4096
"""An object that is being deleted may become larger by so much: a timestamp, a condition."""


class Reserve:
    is_full: bool
    """The disk is: only what `relieves` is written."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        """Looks at what is there. On a disk that is full it is released at once, for the start itself to have space."""
        self._path = path
        self._size = size
        self._lock = threading.Lock()
        self._is_held = _allocated(path) >= size
        self.is_full = _free(path.parent) < (_ROOM if self._is_held else size + _ROOM)
        if self.is_full:
            self.release()

    @property
    def is_released(self) -> bool:
        return self.is_full and not self._is_held

    def release(self) -> bool:
        """Gives the space back; False if there was none."""
        with self._lock:
            self.is_full = True
            if not self._is_held:
                return False
            self._is_held = False
            os.truncate(self._path, 0)
            return True

    def renew(self) -> bool:
        """Sets the space aside, or has it still. Without enough for it and a bit besides the disk is full."""
        with self._lock:
            wanted = _ROOM if self._is_held else self._size + _ROOM
            has_room = _free(self._path.parent) >= wanted
            self._is_held = self._is_held or (has_room and self._fill())
            self.is_full = not (has_room and self._is_held)
            return not self.is_full

    def _fill(self) -> bool:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._size)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, 0)
            return False
        finally:
            os.close(descriptor)
        return True


def relieves(change: Change) -> bool:
    """Whether a write is part of deleting something: a deletion, or a state of an object that is being deleted."""
    if change.record is None:
        return True
    if change.previous is None or change.record.size > change.previous.size + _GROWTH:
        return False
    return objects.is_being_deleted(change.record.object)


def _allocated(path: Path) -> int:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    return min(found.st_size, found.st_blocks * 512)


def _free(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize
