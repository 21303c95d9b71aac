"""Servers that platforms under test run themselves: their data is in a folder of the test process, and ends with it.

A platform that runs as root has them outside of its data directory, and one that was killed leaves them running, for
the next one to adopt. After the tests there is no next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from steelyard.providers.postgres.embedded.layout import VARIABLE
from tests import scratch

_DEADLINE: Final = 60.0


def keep_apart(place: Path | None = None) -> Path:
    """For this process and those that it starts; the folder, which is at `place`."""
    folder = scratch.folder("servers", place)
    os.environ[VARIABLE] = str(folder)
    return folder


def end(folder: Path) -> None:
    """Nothing of theirs is left then."""
    left = [pid for path in folder.glob("postgres/*/*/data/postmaster.pid") for pid in _running(path)]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)
    deadline = time.monotonic() + _DEADLINE
    while any(Path(f"/proc/{pid}").exists() for pid in left) and time.monotonic() < deadline:
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def _running(file: Path) -> list[int]:
    """The process that the file names, if it is the one that serves the folder."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int(file.read_text().splitlines()[0])
        if Path(f"/proc/{pid}/cwd").readlink() == file.parent.resolve():
            return [pid]
    return []
