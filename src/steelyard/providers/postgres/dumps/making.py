"""One dump, from pg_dump's start to a file that is there whole, durable and verified; or nothing at all.

pg_dump -> <name>.dump.new -> fsync -> sha256, pg_restore --list -> side file -> <name>.dump
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from typing import Final

from steelyard.kube.runtime import clock as clocks
from steelyard.providers.postgres import programs
from steelyard.providers.postgres.dumps import folder as folders
from steelyard.providers.postgres.dumps.folder import DumpFolder, Reason, Side
from steelyard.providers.postgres.problems import Full
from steelyard.providers.postgres.servers import Servers

DEADLINE: Final = 12 * 3600.0
_LISTING_DEADLINE: Final = 300.0
_LISTING_BYTES: Final = 256 * 1024 * 1024
_MARGIN: Final = 1.2
_LEAST_FREE: Final = 16 * 1024 * 1024


def stamp(moment: datetime.datetime) -> str:
    """
    >>> stamp(datetime.datetime(2026, 11, 17, 5, 4, 11, tzinfo=datetime.UTC))
    '20261117t050411z'
    """
    return moment.astimezone(datetime.UTC).strftime("%Y%m%dt%H%M%Sz")


async def make(
    servers: Servers,
    provider_config: str,
    database: str,
    folder: DumpFolder,
    *,
    at: datetime.datetime,
    reason: Reason,
    trigger: str | None,
) -> Side:
    """Raises a `Problem`; then, and when it is cancelled, nothing is left of it."""
    bin_folder = await programs.suited(servers, provider_config)
    place = await servers.place(provider_config)
    await asyncio.to_thread(_prepare, folder)
    name = await asyncio.to_thread(folder.free_name, stamp(at))
    unfinished = folder.unfinished(name)
    try:
        arguments = ["--format=custom", "--no-password", f"--file={unfinished}"]
        await programs.run(bin_folder / "pg_dump", arguments, place.environment(database), deadline=DEADLINE)
        await asyncio.to_thread(folders.sync, unfinished)
        digest = await asyncio.to_thread(folders.checksum, unfinished)
        await programs.output_of(
            bin_folder / "pg_restore",
            ["--list", str(unfinished)],
            {},
            deadline=_LISTING_DEADLINE,
            at_most=_LISTING_BYTES,
        )
        size = unfinished.stat().st_size
        side = Side(name, clocks.rfc3339(at), size, digest, reason, database, trigger)
        await asyncio.to_thread(_finish, folder, side)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return side


def _prepare(folder: DumpFolder) -> None:
    try:
        folder.make()
    except OSError as error:
        raise Full(f"{folder.path} cannot be made: {error.strerror or error}") from error
    folder.clean_up()
    last = next(iter(folder.listed()), None)
    needed = max(int(last.size_bytes * _MARGIN) if last else 0, _LEAST_FREE)
    free = folder.free_bytes()
    if free < needed:
        raise Full(
            f"the disk of {folder.path} has {free // 1_000_000} MB left, and a dump needs about {needed // 1_000_000}: "
            "make room, or keep fewer dumps"
        )


def _finish(folder: DumpFolder, side: Side) -> None:
    try:
        folder.finish(side)
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.clean_up()
        raise Full(f"the dump cannot be kept in {folder.path}: {error.strerror or error}. Make room") from error
