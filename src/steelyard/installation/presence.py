"""Whether everything is there that was there when the platform last ran.

Whatever is missing at a first start is made. At a later one that would hide a loss, and make it final: SQLite removes
the write-ahead log of a database that it has to make anew, a new authority is one that no client trusts, and new keys
open no Secret. So what is gone is told, with what is left of it and the ways on, and nothing is touched.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from steelyard.installation.datadir import DataDir
from steelyard.kube.store import acknowledged


class Lost(Exception):
    """Something that was there is gone; the message says what is left, and what to do."""


def check(data_dir: DataDir, worlds: Mapping[Path, str]) -> None:
    """Raises Lost. A first start that was killed has made its database before anything else.

    `worlds` are the databases of providers, each with what it stands for.
    """
    database = data_dir.database
    if not database.exists():
        traces = [*acknowledged.traces(database), *_others(data_dir, worlds)]
        if traces:
            raise Lost(lost_database(data_dir, database, traces))
    for path in (database, *worlds):
        if traces := acknowledged.traces(path):
            raise Lost(lost_database(data_dir, path, traces, stands_for=worlds.get(path, "")))
    if not data_dir.encryption_keys.exists() and data_dir.remembered.exists():
        raise Lost(
            f"{data_dir.encryption_keys} is missing: without its keys no Secret in the databases can be read.\n"
            "Nothing was changed. Bring it back from a copy, or everything from the last backup: steelyard restore "
            "FILE --force (what is there now is kept aside)"
        )


def lost_database(data_dir: DataDir, path: Path, traces: Sequence[str], *, stands_for: str = "") -> str:
    told = f"{path} is missing or empty, but there was one: there is {', '.join(traces)}.\nNothing was changed. "
    put_back = f"If you have it, put it back as {path}: with what is beside it, it is complete.\n"
    if path == data_dir.database:
        return (
            f"{told}{put_back}Else bring the last backup back: steelyard restore FILE --force (what is there now is "
            f"kept aside).\nTo begin empty instead, move everything away: mv {data_dir.root} {data_dir.root}.lost"
        )
    left = [each for each in path.parent.glob(f"{path.name}*") if each.suffix != ".lock"]
    return (
        f"{told}{put_back}{path.name} is in no backup: it stands for {stands_for}. To start without what was in it, "
        f"move away what is left of it: mv "
        f"{' '.join(str(each) for each in sorted(left))} ELSEWHERE"
    )


def not_usable(path: Path, error: sqlite3.Error | OSError) -> str:
    """Why a database that is not damaged cannot be opened, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = error.errno if isinstance(error, OSError) else 0
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    if code == sqlite3.SQLITE_FULL or number in (errno.ENOSPC, errno.EDQUOT):
        return f"{path}: the disk is full ({reason}). Free some space on it and start again; nothing was changed"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN) or number in (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
    ):
        return (
            f"{path} cannot be written to ({reason}). It and its directory must belong to you and be writable; or "
            "choose another directory with --data-dir"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOLFS):
        return (
            f"{path} cannot be locked ({reason}). Another program has it open, or its file system has no locks; end "
            "that program, or choose a directory on a local disk with --data-dir"
        )
    return f"{path} cannot be opened: {reason}. Nothing was changed; look after the disk, then start again"


def _others(data_dir: DataDir, worlds: Iterable[Path]) -> list[str]:
    """What only a platform with a database makes."""
    paths = (
        *worlds,
        data_dir.pki / "ca.crt",
        data_dir.encryption_keys,
        data_dir.kubeconfig,
        data_dir.remembered,
    )
    return [str(path.relative_to(data_dir.root)) for path in paths if path.exists()]
