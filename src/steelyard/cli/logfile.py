"""The log file of a platform: written beside standard error while it runs, and turned over when it grows large.

A record gets its form where the platform sets up its log (`kube/runtime/logs.py`); here is only where it goes. A log
that cannot be written, on a full disk say, keeps nothing from working.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import Final

TURNED_AT: Final = 16 << 20
"""Bytes; three older files are kept."""
_KEPT: Final = 3


def older(path: Path) -> list[Path]:
    """What was turned over, the oldest first."""
    files = [path.with_name(f"{path.name}.{number}") for number in range(_KEPT, 0, -1)]
    return [each for each in files if each.exists()]


class LogFile(logging.Handler):
    """Opened with the first record, when the data directory is there and ours."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._descriptor = -1
        self._size = 0
        self.covers_standard_error = False
        """Whether standard error is this very file, so that a record need not go there as well."""
        with contextlib.suppress(OSError):
            self.covers_standard_error = os.path.samestat(os.fstat(2), path.stat())

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, ValueError):
            line = f"{self.format(record)}\n".encode()
            if self._descriptor < 0:
                self._open()
            if self._size + len(line) > TURNED_AT:
                self._turn_over()
            self._size += os.write(self._descriptor, line)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _turn_over(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        for number in range(_KEPT - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self._path.with_name(f"{self._path.name}.{number}").replace(
                    self._path.with_name(f"{self._path.name}.{number + 1}")
                )
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()
        if self.covers_standard_error:
            # What Python itself writes there, such as why it ends, belongs into the new file, too.
            sys.stderr.flush()
            os.dup2(self._descriptor, 2)


def keep(path: Path) -> LogFile:
    """Sends the platform's log there from now on."""
    handler = LogFile(path)
    logging.getLogger("steelyard").addHandler(handler)
    return handler


def say(handler: LogFile, message: str, **fields: object) -> None:
    """A line for the file alone, about something that the terminal is told in other words."""
    record = logging.LogRecord("steelyard.cli", logging.INFO, __file__, 0, message, None, None)
    record.__dict__["fields"] = fields
    handler.handle(record)
