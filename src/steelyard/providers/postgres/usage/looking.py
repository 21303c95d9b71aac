"""One look at a server for all its databases, shared by everybody who asks within an interval.

How large a database is costs the server a look at each of its files. So it is asked only of those in which something
has happened since the last look: rows written, sessions there; and of all now and then, since some things leave no
trace in the statistics. Between looks, and on an idle server, there is next to nothing to do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from steelyard.frozen import frozen
from steelyard.kube.runtime.clock import Clock
from steelyard.providers.postgres.problems import Problem
from steelyard.providers.postgres.servers import Connection, Servers

_EVERYTHING_AFTER: Final = 900.0
_LOOK_SECONDS: Final = 120.0
_AT_MOST: Final = 10_000
"""Databases of one look. Those beyond are looked at next time, when these have been."""
_JITTER: Final = 0.1

_ACTIVITY: Final = """
    SELECT d.datname, d.oid, s.tup_inserted + s.tup_updated + s.tup_deleted, s.numbackends > 0
    FROM pg_database d LEFT JOIN pg_stat_database s ON s.datid = d.oid
    WHERE d.datname = ANY(%(names)s)
"""
_SIZES: Final = "SELECT datname, pg_database_size(oid) FROM pg_database WHERE datname = ANY(%(names)s)"


@frozen
class Measured:
    size_bytes: int
    oid: int
    rows_written: int | None
    is_busy: bool
    at: float
    """By the monotonic clock."""


class Watchman:
    """Looks at one server. `sizes` are of the last look; a database that was asked for and is missing is not there."""

    def __init__(self, servers: Servers, provider_config: str, clock: Clock, interval: float) -> None:
        self._servers = servers
        self._config = provider_config
        self._clock = clock
        self._interval = interval
        self._names: set[str] = set()
        self._asked: frozenset[str] = frozenset()
        self._measured: dict[str, Measured] = {}
        self._problem: Problem | None = None
        self._next = 0.0
        self._looking: asyncio.Task[None] | None = None

    @property
    def next_look_in(self) -> float:
        return max(self._next - self._clock.monotonic(), 0.0)

    def forget(self, name: str) -> None:
        self._names.discard(name)
        self._asked -= {name}
        self._measured.pop(name, None)

    async def size_of(self, name: str) -> int | None:
        """None for a database that is not there. One that is new here does not wait for the next look."""
        self._names.add(name)
        if self.next_look_in <= 0 or (name not in self._asked and self._problem is None):
            await self._look()
        if self._problem is not None:
            raise self._problem
        found = self._measured.get(name)
        return found.size_bytes if found is not None else None

    async def _look(self) -> None:
        """Whoever comes while somebody looks waits for that; if it is not for what they want, they look next."""
        while self._looking is not None and not self._looking.done():
            await asyncio.shield(self._looking)
        is_due = self.next_look_in <= 0
        names = self._names if is_due else self._names - self._asked
        if names:
            self._looking = asyncio.create_task(self._look_once(frozenset(names), is_due=is_due))
            await asyncio.shield(self._looking)

    async def _look_once(self, names: frozenset[str], *, is_due: bool) -> None:
        wanted = sorted(names, key=self._age)[:_AT_MOST]
        try:
            async with self._servers.connect(self._config, statement_seconds=_LOOK_SECONDS) as connection:
                self._measured |= await self._measure(connection, wanted)
            self._problem = None
            # One that was not there is looked for again as soon as somebody asks: it may have come since.
            self._asked = (self._asked | names) & self._measured.keys()
        except Problem as problem:
            self._problem = problem
        if is_due or self._problem is not None:
            spread = random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 (servers are not to be looked at in step)
            wait = self._interval if self._problem is None else min(self._interval, self._problem.retry_after)
            self._next = self._clock.monotonic() + wait * spread

    def _age(self, name: str) -> float:
        return self._measured[name].at if name in self._measured else 0.0

    async def _measure(self, connection: Connection, names: list[str]) -> Mapping[str, Measured]:
        found = await connection.execute(_ACTIVITY, {"names": names})
        now = self._clock.monotonic()
        there: dict[str, Measured] = {}
        for name, oid, rows, is_busy in await found.fetchall():
            there[str(name)] = Measured(0, int(oid), None if rows is None else int(rows), bool(is_busy), now)
        for name in names:
            if name not in there:
                self._measured.pop(name, None)
        stale = [name for name, each in there.items() if self._has_changed(name, each)]
        if not stale:
            return {}
        sizes = await (await connection.execute(_SIZES, {"names": stale})).fetchall()
        return {
            str(name): Measured(int(size), there[name].oid, there[name].rows_written, there[name].is_busy, now)
            for name, size in sizes
        }

    def _has_changed(self, name: str, now: Measured) -> bool:
        before = self._measured.get(name)
        return (
            before is None
            or before.oid != now.oid
            or before.rows_written != now.rows_written
            or before.is_busy
            or now.is_busy
            or now.at - before.at >= _EVERYTHING_AFTER
        )
