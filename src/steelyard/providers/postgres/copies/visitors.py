"""The logins by which a copy is made: one that writes the target, and, where rows are masked, one that reads the
source.

Neither is a superuser. What a tenant has put into a database is code as well as data (checks, generated columns, casts,
indexes on functions), and some of it runs while it is copied: with these logins' rights, and not with the
administrator's, which no `SET ROLE` would take away from it. The writer is the target's owner for all it does; the
reader reads and does nothing else. Both carry the copy's mark and end with each attempt.
"""

from __future__ import annotations

import datetime
import secrets
from typing import Final

from steelyard.frozen import frozen
from steelyard.providers.postgres import dropping, statements
from steelyard.providers.postgres.logins import marks
from steelyard.providers.postgres.logins import statements as logins
from steelyard.providers.postgres.logins.statements import Wanted
from steelyard.providers.postgres.servers import Connection, Place, Servers

_READS_ALL: Final = "pg_read_all_data"
_LOOPBACK: Final = "127.0.0.1"
_UNLIMITED: Final = -1


@frozen
class Visitor:
    name: str
    password: str
    place: Place
    """Where it logs in, as whom."""


async def writer(servers: Servers, provider_config: str, uid: str, owner: str, until: datetime.datetime) -> Visitor:
    wanted = Wanted(_name(uid, "w"), marks.login(uid), owner, True, _UNLIMITED, ())
    return await _make(servers, provider_config, wanted, until)


async def reader(servers: Servers, provider_config: str, uid: str, database: str, until: datetime.datetime) -> Visitor:
    wanted = Wanted(_name(uid, "r"), marks.login(uid), _READS_ALL, False, _UNLIMITED, ())
    return await _make(servers, provider_config, wanted, until, reads=database)


async def end_all(servers: Servers, provider_config: str, uid: str) -> None:
    """All logins of this copy on that server, whichever attempt has left them."""
    async with servers.connect(provider_config) as connection:
        found = await connection.execute(logins.FACTS, {"mine": marks.login(uid), "any": marks.login(uid)})
        names = [str(row[0]) for row in await found.fetchall()]
    for name in names:
        await dropping.drop_role(servers, provider_config, name)


async def _make(
    servers: Servers, provider_config: str, wanted: Wanted, until: datetime.datetime, *, reads: str = ""
) -> Visitor:
    password = secrets.token_urlsafe(24)
    async with servers.connect(provider_config) as connection:
        verifier = connection.pgconn.encrypt_password(password.encode(), wanted.name.encode(), b"scram-sha-256")
        async with connection.transaction():
            for each in logins.create(wanted, verifier.decode(), until):
                await connection.execute(each)
            if reads:
                await _let_in(connection, wanted.name, reads)
    return Visitor(wanted.name, password, _place(await servers.place(provider_config), wanted.name, password))


async def _let_in(connection: Connection, name: str, database: str) -> None:
    role = statements.name(name)
    await connection.execute(statements.of("GRANT CONNECT ON DATABASE {} TO {}", statements.name(database), role))
    row = await (await connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).fetchone()
    if row is not None and row[0]:
        # Rows that a policy hides are copied too; only a superuser can allow that.
        await connection.execute(statements.of("ALTER ROLE {} BYPASSRLS", role))


def _name(uid: str, what: str) -> str:
    return f"steelyard_copy_{uid[:13].replace('-', '')}_{what}"


def _place(admin: Place, name: str, password: str) -> Place:
    """A server of the platform's own lets only the administrator in by its socket."""
    is_socket = admin.host.startswith("/")
    return Place(
        host=_LOOPBACK if is_socket else admin.host,
        port=admin.port,
        username=name,
        password=password,
        ssl_mode="prefer" if is_socket else admin.ssl_mode,
        endpoint=admin.endpoint,
        endpoint_port=admin.endpoint_port,
        database=admin.database,
        authority=admin.authority,
        client_certificate=admin.client_certificate,
        client_key=admin.client_key,
    )
