"""Notices what changed on a server behind our back, with one look at all of it and none at each object.

Every minute the catalogues of a server are read in bulk: databases, roles, memberships. What differs from the look
before is reconciled, and nothing else: hundreds of idle databases cost three queries a minute. A server that was away
and is back is looked at as a whole.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from steelyard.api.crossplane import DATABASES, ROLES
from steelyard.kube.resources import Resource
from steelyard.kube.runtime import logs
from steelyard.kube.runtime.clock import Clock
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key
from steelyard.providers.postgres import indexes
from steelyard.providers.postgres.problems import Away, Problem
from steelyard.providers.postgres.servers import Connection, Servers

INTERVAL: Final = 60.0
_AWAY_INTERVAL: Final = 2.0
_DATABASES: Final = (
    "SELECT datname, datdba, encoding, datcollate, datctype, datallowconn, datconnlimit, datistemplate, "
    "dattablespace, datacl::text FROM pg_database"
)
_ROLES: Final = "SELECT rolname, to_jsonb(r) - 'oid' FROM pg_roles r"
_PASSWORDS: Final = "SELECT rolname, rolpassword FROM pg_authid"
_MEMBERS: Final = (
    "SELECT pg_get_userbyid(member), array_agg(to_jsonb(m) ORDER BY to_jsonb(m)::text) "
    "FROM pg_auth_members m GROUP BY 1"
)

Look: TypeAlias = dict[tuple[str, str], str]
"""A digest for each thing: by its kind, Database or Role, and its name."""
Enqueue: TypeAlias = Callable[[Resource, Iterable[Key]], None]


class Drift:
    def __init__(self, servers: Servers, informers: Informers, enqueue: Enqueue, clock: Clock) -> None:
        self._servers = servers
        self._informers = informers
        self._enqueue = enqueue
        self._clock = clock
        self._looks: dict[str, Look] = {}
        self._away: set[str] = set()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_AWAY_INTERVAL if self._away else INTERVAL)
            await asyncio.gather(*map(self._look_safely, self._in_use()))

    async def _look_safely(self, config: str) -> None:
        """What nobody foresaw must not end the looking."""
        try:
            await self.look(config)
        except Exception:
            _log.exception("a look at PostgreSQL failed", server=config)

    async def look(self, config: str) -> None:
        """Once at one server."""
        try:
            async with asyncio.timeout(INTERVAL), self._servers.connect(config) as connection:
                found = await _look(connection)
        except Problem as problem:
            if isinstance(problem, Away) and config not in self._away:
                _log.warning("PostgreSQL is away", server=config, problem=str(problem))
                self._away.add(config)
            return
        except TimeoutError:
            return
        before = self._looks.get(config)
        self._looks[config] = found
        if config in self._away:
            _log.info("PostgreSQL is back", server=config)
            self._away.discard(config)
            self._wake_all(config)
        elif before is not None:
            self._wake(config, {key for key in before.keys() | found.keys() if before.get(key) != found.get(key)})

    def _in_use(self) -> list[str]:
        return sorted(
            {indexes.config(obj) for resource in indexes.MANAGED for obj in self._informers.of(resource).list()}
        )

    def _wake_all(self, config: str) -> None:
        for resource in indexes.MANAGED:
            self._enqueue(resource, map(Key.of, self._informers.of(resource).by_index(indexes.CONFIGS, config)))

    def _wake(self, config: str, changed: set[tuple[str, str]]) -> None:
        """The objects of what changed, and those that refer to it."""
        for kind, name in changed:
            thing = DATABASES if kind == DATABASES.kind else ROLES
            own = self._informers.of(thing).by_index(indexes.NAMES, indexes.named(config, name))
            self._enqueue(thing, map(Key.of, own))
            for resource in indexes.MANAGED:
                informer = self._informers.of(resource)
                found = informer.by_index(indexes.REFERS, indexes.referred(thing, config, name))
                self._enqueue(resource, map(Key.of, found))


async def _look(connection: Connection) -> Look:
    found: Look = {}
    rows = await (await connection.execute(_DATABASES)).fetchall()
    found |= {(DATABASES.kind, str(row[0])): _digest(row[1:]) for row in rows}
    parts: dict[str, list[Any]] = {}
    is_superuser = connection.info.parameter_status("is_superuser") == "on"
    for query in (_ROLES, _MEMBERS, _PASSWORDS) if is_superuser else (_ROLES, _MEMBERS):
        for name, value in await (await connection.execute(query)).fetchall():
            parts.setdefault(str(name), []).append(value)
    return found | {(ROLES.kind, name): _digest(values) for name, values in parts.items()}


def _digest(values: Iterable[Any]) -> str:
    return hashlib.sha256(repr(tuple(values)).encode()).hexdigest()[:16]


_log = logs.get(__name__)
