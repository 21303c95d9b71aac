"""Opens a database of a data directory, or says why that cannot be and what to do."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from steelyard.installation import encryption, presence
from steelyard.installation.datadir import DataDir
from steelyard.kube.store.errors import CannotDecrypt, Corrupt, Locked, Missing
from steelyard.kube.store.sealing import Sealer
from steelyard.kube.store.store import Store

OpenStore = Callable[[Path, Sealer], Awaitable[Store]]


class CannotOpen(Exception):
    """Nothing was changed; the message says what is wrong and what to do."""


def durably(path: Path, sealer: Sealer) -> Awaitable[Store]:
    return Store.open(path, sealer=sealer)


async def opened(
    data_dir: DataDir, path: Path, sealer: Sealer, *, open_store: OpenStore = durably, stands_for: str = ""
) -> Store:
    """`stands_for` is what a provider's database means, in words. Raises CannotOpen."""
    try:
        return await open_store(path, sealer)
    except Locked as error:
        raise CannotOpen(str(error)) from error
    except Missing as error:
        text = presence.lost_database(data_dir, path, error.traces, stands_for=stands_for)
        raise CannotOpen(text) from error
    except (sqlite3.Error, OSError) as error:
        raise CannotOpen(presence.not_usable(path, error)) from error
    except Corrupt as error:
        raise CannotOpen(f"{error}.\n{_way_back(data_dir, path, stands_for)}") from error
    except CannotDecrypt as error:
        raise CannotOpen(
            f"{path}: {error}. Bring {data_dir.encryption_keys} back from a backup or a copy; "
            "without the key the Secrets in there cannot be read."
        ) from error


async def worlds(
    stack: contextlib.AsyncExitStack, data_dir: DataDir, databases: Iterable[tuple[str, str]]
) -> dict[str, Store]:
    """Databases of providers alone, where the platform's own is not in the directory: by the name of each, which comes
    with what it stands for."""
    try:
        known = encryption.load(data_dir.encryption_keys)
    except encryption.BadKeys as error:
        raise CannotOpen(str(error)) from error
    keys = known or [encryption.new_key()]
    sealer = encryption.sealer(keys)
    found: dict[str, Store] = {}
    for name, stands_for in databases:
        found[name] = await opened(data_dir, data_dir.provider_database(name), sealer, stands_for=stands_for)
        stack.push_async_callback(found[name].close)
    if not known:
        encryption.save(data_dir.encryption_keys, keys)
    return found


def _way_back(data_dir: DataDir, damaged: Path, stands_for: str) -> str:
    if damaged == data_dir.database:
        return (
            "Nothing was changed. Bring the last backup back with: steelyard restore FILE --force "
            "(what is there now is kept aside)"
        )
    return (
        f"Nothing was changed. {damaged.name} is in no backup: it stands for {stands_for}. "
        "Move it away to start without what was in it"
    )
