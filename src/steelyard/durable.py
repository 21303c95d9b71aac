"""Files that are there whole or not at all, also after a loss of power, and that only their owner can read.

What the platform keeps beside its databases is written here: keys, certificates, the kubeconfig, what it remembers.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import IO, Final

UNFINISHED: Final = ".new"
"""What the name of a file ends in while it is being written. One that a killed process left is written over."""


def write(path: Path, content: bytes) -> None:
    """Puts a file in place of what is there, in one step. Durable when this returns; private from the first byte."""
    unfinished = path.with_name(path.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)
    try:
        with new(unfinished) as file:
            file.write(content)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextlib.contextmanager
def new(path: Path) -> Generator[IO[bytes]]:
    """A file that is written piece by piece where there is none yet. At the end of the context its content is durable;
    that it is there, once its directory has been synced.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)


def remove(path: Path) -> None:
    """Durably as well; nothing happens where there is no such file."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def clean_up(directory: Path) -> None:
    """Removes what killed processes left unfinished: there may be a key in it."""
    for left in directory.glob(f"*{UNFINISHED}"):
        left.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable: that a file is there, renamed or gone."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
