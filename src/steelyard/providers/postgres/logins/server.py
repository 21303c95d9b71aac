"""Temporary logins on the server: which there are, making one, keeping one as it is to be, ending one.

Each of these can be interrupted at any statement and done again. Roles are made in one transaction with their mark;
their end is `dropping.drop_role`, which lets nobody in before it takes anything away.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import cast

from psycopg.sql import Composed

from steelyard.api.databases import TemporaryLoginSpec
from steelyard.frozen import frozen
from steelyard.providers.postgres import dropping
from steelyard.providers.postgres.logins import marks, statements
from steelyard.providers.postgres.logins.statements import Wanted
from steelyard.providers.postgres.problems import Missing, Taken
from steelyard.providers.postgres.servers import Connection, Servers


@frozen
class Fact:
    """A login with our mark, as it is on the server."""

    name: str
    is_mine: bool
    """Of the object that was asked about; else of one that nobody looks after."""
    can_log_in: bool
    connection_limit: int
    valid_until: float | None
    settings: frozenset[str]
    """As in `work_mem=4MB`."""
    memberships: tuple[str, ...]


class LoginServer:
    """One object's view of its server."""

    def __init__(self, servers: Servers, spec: TemporaryLoginSpec, uid: str) -> None:
        self._servers = servers
        self._spec = spec
        self._uid = uid
        self._config = spec.provider_config_ref.name

    async def facts(self) -> list[Fact]:
        async with self._servers.connect(self._config) as connection:
            found = await connection.execute(statements.FACTS, {"mine": marks.login(self._uid), "any": marks.ANY_LOGIN})
            return [_fact(row) for row in await found.fetchall()]

    async def is_taken(self, name: str) -> bool:
        async with self._servers.connect(self._config) as connection:
            return await _exists(connection, statements.TAKEN, name)

    async def make(self, name: str, password: str, expires_at: datetime.datetime, there: Fact | None) -> None:
        """`there`: the role of that name, where it was made before."""
        wanted = statements.wanted(self._spec, name, self._uid)
        async with self._servers.connect(self._config, await self._place_of_making()) as connection:
            verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
            async with connection.transaction():
                if not wanted.acts_as_parent:
                    await self._ensure_reader(connection, wanted.parent)
                if there is None:
                    made = statements.create(wanted, verifier, expires_at)
                else:
                    made = statements.again(wanted, verifier, expires_at, there.memberships)
                await _run(connection, made)

    async def keep(self, there: Fact) -> None:
        """Brings a login to what the spec says. Sessions that had more than it says are ended."""
        wanted = statements.wanted(self._spec, there.name, self._uid)
        if not differs(wanted, there):
            return
        loses = statements.leave(wanted, there.memberships)
        async with self._servers.connect(self._config, await self._place_of_making()) as connection:
            async with connection.transaction():
                if not wanted.acts_as_parent:
                    await self._ensure_reader(connection, wanted.parent)
                await _run(connection, [*loses, *statements.open_again(wanted), *statements.shape(wanted)])
            if loses:
                await dropping.end_sessions_of_role(connection, there.name)

    async def end(self, name: str) -> None:
        """Only for names out of `facts`: those have our mark."""
        await dropping.drop_role(self._servers, self._config, name)

    async def end_reader(self) -> None:
        """The role by which the database's read-only logins read goes with the last of them."""
        reader = statements.reader_of(self._spec.member_of)
        async with self._servers.connect(self._config) as connection:
            found = await (await connection.execute(statements.READER, {"name": reader})).fetchone()
        if found is not None and found[0] == marks.reader(self._spec.database) and not found[1]:
            await dropping.drop_role(self._servers, self._config, reader)

    async def _place_of_making(self) -> str:
        """What a reader may read is granted inside of the database; the rest can be done from anywhere."""
        async with self._servers.connect(self._config) as connection:
            if not await _exists(connection, statements.DATABASE, self._spec.database):
                raise Missing(f"there is no database {self._spec.database} on the server")
        return self._spec.database if self._spec.access == "ReadOnly" else ""

    async def _ensure_reader(self, connection: Connection, reader: str) -> None:
        """Each new login brings the reader up to date: tables that somebody made as himself are not the owner's."""
        database, owner = self._spec.database, self._spec.member_of
        await connection.execute(statements.ONE_AT_A_TIME, {"name": reader})
        found = await (await connection.execute(statements.READER, {"name": reader})).fetchone()
        if found is None:
            await _run(connection, statements.make_reader(reader, database))
        elif found[0] != marks.reader(database):
            raise Taken(f"role {reader} is there already and was not made for reading database {database}: rename it")
        schemas = [str(row[0]) for row in await (await connection.execute(statements.SCHEMAS)).fetchall()]
        await _run(connection, statements.let_read(reader, owner, database, schemas))


def differs(wanted: Wanted, there: Fact) -> bool:
    settings = [f"{name}={text}" for name, text in wanted.settings]
    if wanted.acts_as_parent:
        settings.append(f"role={wanted.parent}")
    return (
        not there.can_log_in
        or there.connection_limit != wanted.connection_limit
        or there.settings != frozenset(settings)
        or there.memberships != (wanted.parent,)
    )


async def _run(connection: Connection, made: Sequence[Composed]) -> None:
    for each in made:
        await connection.execute(each)


async def _exists(connection: Connection, query: str, name: str) -> bool:
    return await (await connection.execute(query.encode(), {"name": name})).fetchone() is not None


def _fact(row: tuple[object, ...]) -> Fact:
    name, is_mine, can_log_in, limit, until, settings, memberships = row
    return Fact(
        str(name),
        bool(is_mine),
        bool(can_log_in),
        cast(int, limit),
        cast("float | None", until),
        frozenset(cast("list[str]", settings)),
        tuple(cast("list[str]", memberships)),
    )
