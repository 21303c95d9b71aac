"""The database that is filled: ours for as long as it is, by a mark; empty when filling begins; closed to everybody
else.

    steelyard copy <uid> filling      a comment on the database: what is in it is this copy's, and may be removed
    steelyard copy <uid> done         it is filled, and nobody's but its owner's from then on

A database that holds something and has no such mark is never touched. While it is filled, its connection limit lets our
own logins in, which are no superusers; whoever else comes in is turned out.
"""

from __future__ import annotations

from typing import Any, Final, LiteralString, cast

from psycopg.sql import Composable

from steelyard.frozen import frozen
from steelyard.providers.postgres import statements
from steelyard.providers.postgres.problems import Missing, Taken
from steelyard.providers.postgres.servers import Connection, Servers

FILLING: Final = "steelyard copy {} filling"
DONE: Final = "steelyard copy {} done"
SESSIONS: Final = 16
"""Of ours, at once, while it is filled."""
_RELATIONS_AT_ONCE: Final = 500
_LARGE_OBJECTS_AT_ONCE: Final = 1000
_EMPTYING_SECONDS: Final = 1800.0

_FIND: Final = """
    SELECT coalesce(shobj_description(oid, 'pg_database'), ''), datallowconn FROM pg_database WHERE datname = %s
"""
_SCHEMAS: Final = """
    SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1
"""
_HOLDS: Final = """
    WITH theirs AS (SELECT oid FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'),
         things AS (
             SELECT 'pg_class'::regclass AS kind, oid, relnamespace AS place, relname AS name FROM pg_class
             UNION ALL SELECT 'pg_proc'::regclass, oid, pronamespace, proname FROM pg_proc
             UNION ALL SELECT 'pg_type'::regclass, oid, typnamespace, typname FROM pg_type
                       WHERE typtype IN ('e', 'd', 'r'))
    SELECT place::regnamespace::text || '.' || name FROM things
    WHERE place IN (SELECT oid FROM theirs)
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = kind AND d.objid = things.oid AND d.deptype = 'e')
    UNION ALL SELECT 'large object ' || oid::text FROM pg_largeobject_metadata
    LIMIT 1
"""
_RELATIONS: Final = """
    SELECT n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    LIMIT %s
"""
_DROP_RELATION: Final[dict[str, LiteralString]] = {
    "r": "DROP TABLE IF EXISTS {} CASCADE",
    "p": "DROP TABLE IF EXISTS {} CASCADE",
    "v": "DROP VIEW IF EXISTS {} CASCADE",
    "m": "DROP MATERIALIZED VIEW IF EXISTS {} CASCADE",
    "f": "DROP FOREIGN TABLE IF EXISTS {} CASCADE",
}
_PUBLIC: Final = """
    SELECT pg_get_userbyid(n.nspowner), a.privilege_type, a.is_grantable,
           CASE WHEN a.grantee = 0 THEN '' ELSE pg_get_userbyid(a.grantee) END
    FROM pg_namespace n LEFT JOIN LATERAL aclexplode(n.nspacl) a ON true WHERE n.nspname = 'public'
"""
_EXTENSIONS: Final = """
    SELECT e.extname, n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname <> 'plpgsql' AND n.nspname IN ('public', 'pg_catalog') ORDER BY e.oid
"""
_STRANGERS: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = %s AND usename <> current_user AND usename <> ALL(%s) AND pid <> pg_backend_pid()
"""
_COUNTS: Final = """
    SELECT count(*), coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""


@frozen
class Counts:
    tables: int
    rows: int


class Target:
    def __init__(self, servers: Servers, provider_config: str, database: str, uid: str) -> None:
        self._servers = servers
        self.config = provider_config
        self.database = database
        self._uid = uid

    async def is_done(self) -> bool:
        """Whether it was filled, by this copy. Raises `Missing`."""
        return await self._mark() == DONE.format(self._uid)

    async def is_being_filled(self) -> bool:
        return await self._mark() == FILLING.format(self._uid)

    async def take(self) -> None:
        """It is ours and empty when this returns. Raises `Taken` for one that holds something else."""
        is_ours = await self.is_being_filled()
        async with self._open() as connection:
            if not is_ours:
                held = await (await connection.execute(_HOLDS)).fetchone()
                if held is not None:
                    raise Taken(
                        f"database {self.database} is not empty: it holds {held[0]}, which this copy did not put "
                        "there; it is left alone. A copy needs a new, empty database"
                    )
                await self._set_mark(connection, FILLING.format(self._uid))
            else:
                await _empty(connection)

    async def empty(self) -> None:
        """After a refusal or a failure: nothing of the source stays in it. Only while it has our mark."""
        if await self.is_being_filled():
            async with self._open() as connection:
                await _empty(connection)

    async def open(self) -> None:
        await self._limit(SESSIONS)

    async def close(self) -> None:
        """Nobody comes in any more; who is in it has to leave."""
        await self._limit(0)
        await self.turn_out(())

    async def turn_out(self, spared: tuple[str, ...]) -> int:
        """Ends the sessions of all but these logins and our own; how many there were."""
        async with self._servers.connect(self.config) as connection:
            row = await (await connection.execute(_STRANGERS, (self.database, list(spared)))).fetchone()
        return int(row[0]) if row else 0

    async def finish(self) -> Counts:
        """Statistics for the planner, and the mark that it is done."""
        async with self._open() as connection:
            await connection.execute("ANALYZE")
            row = await (await connection.execute(_COUNTS)).fetchone()
            await self._set_mark(connection, DONE.format(self._uid))
        assert row is not None
        return Counts(int(row[0]), int(row[1]))

    async def counts(self) -> Counts:
        async with self._open() as connection:
            row = await (await connection.execute(_COUNTS)).fetchone()
        assert row is not None
        return Counts(int(row[0]), int(row[1]))

    async def install(self, extensions: list[tuple[str, str]]) -> None:
        """Those that the owner could not install himself."""
        async with self._open() as connection:
            for name, schema in extensions:
                await connection.execute(
                    statements.of(
                        "CREATE EXTENSION IF NOT EXISTS {} SCHEMA {}", statements.name(name), statements.name(schema)
                    )
                )

    def _open(self) -> Any:
        return self._servers.connect(self.config, self.database, statement_seconds=_EMPTYING_SECONDS)

    async def _mark(self) -> str:
        async with self._servers.connect(self.config) as connection:
            row = await (await connection.execute(_FIND, (self.database,))).fetchone()
        if row is None:
            raise Missing(f"there is no database {self.database} on the server")
        if not row[1]:
            raise Missing(f"database {self.database} lets nobody in: its allowConnections is false")
        return str(row[0])

    async def _set_mark(self, connection: Connection, mark: str) -> None:
        await connection.execute(
            statements.of("COMMENT ON DATABASE {} IS {}", statements.name(self.database), statements.value(mark))
        )

    async def _limit(self, sessions: int) -> None:
        async with self._servers.connect(self.config) as connection:
            await connection.execute(
                statements.of(
                    "ALTER DATABASE {} CONNECTION LIMIT {}", statements.name(self.database), statements.value(sessions)
                )
            )


async def _empty(connection: Connection) -> None:
    """Back to what a new database is. What was installed and granted before stays: extensions, rights to `public`."""
    extensions = await (await connection.execute(_EXTENSIONS)).fetchall()
    public = await (await connection.execute(_PUBLIC)).fetchall()
    await _drop_many(connection)
    for (schema,) in await (await connection.execute(_SCHEMAS)).fetchall():
        await connection.execute(statements.of("DROP SCHEMA {} CASCADE", statements.name(schema)))
    for each in _make_public(cast("list[tuple[str, str | None, bool, str]]", public)):
        await connection.execute(cast(Any, each))
    for (publication,) in await (await connection.execute("SELECT pubname FROM pg_publication")).fetchall():
        await connection.execute(statements.of("DROP PUBLICATION {}", statements.name(publication)))
    await _unlink_large_objects(connection)
    for name, schema in extensions:
        await connection.execute(
            statements.of("CREATE EXTENSION IF NOT EXISTS {} SCHEMA {}", statements.name(name), statements.name(schema))
        )


async def _drop_many(connection: Connection) -> None:
    """Where there are very many tables: one by one, since a schema's end locks all of them at once."""
    while True:
        found = await (await connection.execute(_RELATIONS, (_RELATIONS_AT_ONCE,))).fetchall()
        if len(found) < _RELATIONS_AT_ONCE:
            return
        for schema, name, kind in found:
            await connection.execute(statements.of(_DROP_RELATION[str(kind)], statements.name(schema, name)))


def _make_public(before: list[tuple[str, str | None, bool, str]]) -> list[Composable]:
    owner = before[0][0] if before else "pg_database_owner"
    made: list[Composable] = [statements.of("CREATE SCHEMA public AUTHORIZATION {}", statements.name(owner))]
    for _, privilege, is_grantable, grantee in before:
        if privilege is None or grantee == owner:
            continue
        whom = statements.name(grantee) if grantee else statements.of("PUBLIC")
        template: LiteralString = "GRANT {} ON SCHEMA public TO {}" + (" WITH GRANT OPTION" if is_grantable else "")
        made.append(statements.of(template, statements.privilege(privilege), whom))
    return made


async def _unlink_large_objects(connection: Connection) -> None:
    unlink = "SELECT count(lo_unlink(oid)) FROM (SELECT oid FROM pg_largeobject_metadata LIMIT %s) AS found"
    while True:
        row = await (await connection.execute(unlink, (_LARGE_OBJECTS_AT_ONCE,))).fetchone()
        if row is None or not row[0]:
            return
