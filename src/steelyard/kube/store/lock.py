"""One process per store: an advisory lock that the kernel releases when the holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from steelyard.kube.store.errors import Locked


class FileLock:
    """Holds `<path>.lock`, in which the holder's process id can be read. The file stays when the lock is released:
    removing it would let two processes hold locks on two files of the same name.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")
        self._fd = -1

    def acquire(self) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            content = os.read(fd, 32).strip()
            os.close(fd)
            raise Locked(str(self._path.with_suffix("")), int(content) if content.isdigit() else None) from None
        # Always of one length and never cut first: there may be no space on the disk to write it anew.
        os.pwrite(fd, f"{os.getpid():<30}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
