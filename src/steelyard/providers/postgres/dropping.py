"""Taking roles and databases off a server for good, with nothing of anybody else's.

Each can be interrupted anywhere and called again. A role that goes leaves what it made to the owner of the database in
which it is: tables of a login that ended belong to the application, not to the login.
"""

from __future__ import annotations

from steelyard.providers.postgres import statements
from steelyard.providers.postgres.problems import Busy
from steelyard.providers.postgres.servers import Connection, Servers


async def drop_role(servers: Servers, provider_config: str, role: str) -> None:
    """Ends its sessions, hands over what it owns, revokes what it was granted, and drops it. Nothing where it is not.

    Raises `Busy` for the owner of a database: that goes first.
    """
    async with servers.connect(provider_config) as connection:
        oid = await _oid(connection, role)
        if oid is None:
            return
        owned = await _databases_of(connection, oid)
        if owned:
            raise Busy(f"role {role} is the owner of database {', '.join(owned)}; delete that first")
        await connection.execute(statements.of("ALTER ROLE {} NOLOGIN", statements.name(role)))
        await end_sessions_of_role(connection, role)
        places = await _places_of(connection, oid)
    for database, owner in places:
        async with servers.connect(provider_config, database) as connection:
            if owner != role:
                reassign = "REASSIGN OWNED BY {} TO {}"
                await connection.execute(statements.of(reassign, statements.name(role), statements.name(owner)))
            await connection.execute(statements.of("DROP OWNED BY {}", statements.name(role)))
    async with servers.connect(provider_config) as connection:
        # Grants on databases and other things that are in no database.
        if await _oid(connection, role) is not None:
            await connection.execute(statements.of("DROP OWNED BY {}", statements.name(role)))
        await connection.execute(statements.of("DROP ROLE IF EXISTS {}", statements.name(role)))


async def drop_database(servers: Servers, provider_config: str, database: str) -> None:
    """Lets nobody in any more, ends the sessions in it, and drops it. Nothing where it is not."""
    async with servers.connect(provider_config) as connection:
        found = await connection.execute(
            "SELECT datistemplate, datallowconn FROM pg_database WHERE datname = %s", (database,)
        )
        row = await found.fetchone()
        if row is None:
            return
        is_template, is_open = row
        if is_template:
            await connection.execute(statements.of("ALTER DATABASE {} IS_TEMPLATE false", statements.name(database)))
        if is_open:
            await connection.execute(
                statements.of("ALTER DATABASE {} ALLOW_CONNECTIONS false", statements.name(database))
            )
        drop = statements.of("DROP DATABASE IF EXISTS {} WITH (FORCE)", statements.name(database))
        await connection.execute(drop)


async def end_sessions_of_role(connection: Connection, role: str) -> None:
    """All that logged in as the role, in whichever database."""
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s AND pid <> pg_backend_pid()",
        (role,),
    )


async def end_sessions_in(connection: Connection, database: str) -> None:
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
        (database,),
    )


async def _oid(connection: Connection, role: str) -> int | None:
    found = await connection.execute("SELECT oid FROM pg_roles WHERE rolname = %s", (role,))
    row = await found.fetchone()
    return int(row[0]) if row else None


async def _databases_of(connection: Connection, role: int) -> list[str]:
    found = await connection.execute("SELECT datname FROM pg_database WHERE datdba = %s ORDER BY datname", (role,))
    return [str(row[0]) for row in await found.fetchall()]


async def _places_of(connection: Connection, role: int) -> list[tuple[str, str]]:
    """Each database in which something depends on the role, with its owner."""
    found = await connection.execute(
        "SELECT DISTINCT db.datname, pg_get_userbyid(db.datdba) FROM pg_shdepend dep "
        "JOIN pg_database db ON db.oid = dep.dbid "
        "WHERE dep.refclassid = 'pg_authid'::regclass AND dep.refobjid = %s AND db.datallowconn ORDER BY 1",
        (role,),
    )
    return [(str(row[0]), str(row[1])) for row in await found.fetchall()]
