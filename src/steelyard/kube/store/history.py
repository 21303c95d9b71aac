"""Reading old revisions without holding up the event loop or the writer: one connection, one thread, both lazy.

Most stores never need it, since watches usually resume from the recent changes kept in memory; so neither the thread
nor the connection exists before the first query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from steelyard.kube.store.errors import Closed, Corrupt
from steelyard.kube.store.log import Log
from steelyard.kube.store.record import Change, Record
from steelyard.kube.store.sealing import Sealer

T = TypeVar("T")


class History:
    def __init__(self, path: Path, sealer: Sealer | None, damaged: Callable[[Corrupt], None]) -> None:
        """`damaged` is told, on the event loop, when a query meets damage; whoever asked is told as well."""
        self._path = path
        self._damaged = damaged
        self._sealer = sealer
        self._thread: ThreadPoolExecutor | None = None
        self._log: Log | None = None
        self._closed = False

    async def changes(self, prefix: str, after: int, until: int, limit: int) -> list[Change]:
        return await self._run(lambda log: log.changes(prefix, after, until, limit))

    async def replaced_since(self, prefix: str, after: int, until: int) -> dict[str, Record | None]:
        return await self._run(lambda log: log.replaced_since(prefix, after, until))

    async def _run(self, query: Callable[[Log], T]) -> T:
        if self._closed:
            raise Closed
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"store-{self._path.name}-history")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._query, query)
        except Corrupt as error:
            self._damaged(error)
            raise

    def _query(self, query: Callable[[Log], T]) -> T:
        if self._log is None:
            self._log = Log.open_reader(self._path, self._sealer)
        return query(self._log)

    async def close(self) -> None:
        self._closed = True
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)
        if self._log is not None:
            self._log.close()
            self._log = None
