"""Making a backup: of a running platform inside it, of a stopped one from its files.

The database is copied as of one revision while writers go on, the copy is checked row by row, and only then does it go
into the archive. Everything is made in a directory of its own in the data directory, which nobody else can read.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Final

import steelyard
from steelyard import durable
from steelyard.installation import datadir
from steelyard.installation.backup import archive
from steelyard.installation.backup.archive import Manifest
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors
from steelyard.kube.runtime import clock as clocks
from steelyard.kube.store import acknowledged
from steelyard.kube.store.errors import Corrupt
from steelyard.kube.store.log import Log, Survey
from steelyard.kube.store.store import Store

PATH: Final = "/steelyard.dev/v1/backup"
OMIT: Final = "omit"
_WORKPLACE: Final = "backup-"
_SLACK: Final = 2 << 20


class NotReadable(Exception):
    """There is nothing to back up, it is damaged, or there is no space to make a backup in."""


class Backups:
    """Backups of the running platform, one at a time: each needs the space of two copies of the database."""

    def __init__(self, data_dir: DataDir, store: Store) -> None:
        self._data_dir = data_dir
        self._store = store
        self._busy = False
        clean_up(data_dir)

    @contextlib.asynccontextmanager
    async def make(self, options: Mapping[str, str]) -> AsyncGenerator[Path]:
        """The archive, for as long as the context lasts. `keys=omit` leaves the encryption keys out."""
        if self._busy:
            raise errors.TooManyRequests("a backup is being made already; try again later", retry_after=5)
        self._busy = True
        workplace: Path | None = None
        try:
            try:
                check_room(self._data_dir)
                workplace = _workplace(self._data_dir)
                copied = await self._store.copy(workplace / archive.DATABASE)
                packed = await asyncio.to_thread(_pack, self._data_dir, workplace, copied, options.get("keys") != OMIT)
            except (NotReadable, Corrupt, sqlite3.Error, OSError) as error:
                raise errors.InternalError(f"Internal error occurred: no backup was made: {error}") from error
            yield packed
        finally:
            self._busy = False
            if workplace is not None:
                await asyncio.to_thread(shutil.rmtree, workplace, ignore_errors=True)


def from_files(data_dir: DataDir, target: Path, *, with_keys: bool = True) -> Manifest:
    """Backs up a platform that does not run. Raises AlreadyRunning and NotReadable."""
    if not data_dir.database.exists():
        raise NotReadable(f"no platform has run in {data_dir.root}: there is nothing to back up")
    hold = datadir.Hold(data_dir)
    try:
        check_room(data_dir)
        workplace = _workplace(data_dir)
        try:
            copied = Log.copy(data_dir.database, workplace / archive.DATABASE)
            acknowledged.check(data_dir.database, copied.revision)
            shutil.copyfile(_pack(data_dir, workplace, copied, with_keys), target)
        except (Corrupt, sqlite3.Error) as error:
            raise NotReadable(f"no backup was made: {error}") from error
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
    finally:
        hold.release()
    return archive.verify(target)


def check_room(data_dir: DataDir) -> None:
    """Raises NotReadable. A backup must not be what fills the disk, nor use what is left for deletions."""
    database = data_dir.database
    files = (database, database.with_name(f"{database.name}-wal"))
    wanted = 2 * sum(path.stat().st_size for path in files if path.exists()) + _SLACK
    free = shutil.disk_usage(data_dir.root).free
    if wanted > free:
        raise NotReadable(
            f"the disk is too full: it takes the space of two copies of the database, {wanted / (1 << 20):.0f} MiB, in "
            f"{data_dir.root} for as long as it is being made, and {free / (1 << 20):.0f} MiB are free there"
        )


def clean_up(data_dir: DataDir) -> None:
    """Removes what a backup left behind whose process was killed."""
    for left in data_dir.root.glob(f"{_WORKPLACE}*.tmp"):
        shutil.rmtree(left, ignore_errors=True)


def _workplace(data_dir: DataDir) -> Path:
    return Path(tempfile.mkdtemp(prefix=_WORKPLACE, suffix=".tmp", dir=data_dir.root))


def _pack(data_dir: DataDir, workplace: Path, copied: Survey, with_keys: bool) -> Path:
    files = {archive.DATABASE: workplace / archive.DATABASE}
    if data_dir.kubeconfig.exists():
        files[archive.KUBECONFIG] = data_dir.kubeconfig
    if data_dir.remembered.exists():
        files[archive.REMEMBERED] = data_dir.remembered
    for path in sorted(data_dir.pki.glob("*")):
        is_left_out = path == data_dir.encryption_keys and not with_keys
        if path.is_file() and path.suffix != durable.UNFINISHED and not is_left_out:
            files[f"{archive.PKI}/{path.name}"] = path
    target = workplace / "archive.tar"
    time = clocks.rfc3339(clocks.SYSTEM.now())
    archive.write(target, files, version=steelyard.__version__, time=time, revision=copied.revision)
    return target
