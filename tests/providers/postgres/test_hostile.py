"""A tenant with a login of its own tries to leave its database, or to be more than it was made. Each try is refused.

The tenant is what a claim is composed to: a login that acts as the owner of its database, beside another tenant's on
the same server. What is allowed, and what can be seen, is listed as well: it is what docs/databases.md says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from steelyard.kube.runtime import clock
from steelyard.providers.postgres.embedded import layout
from steelyard.providers.postgres.embedded.server import EmbeddedServer
from steelyard.settings.postgresservers import Embedded
from tests.postgresserver import PostgresServer
from tests.providers.postgres import ourkinds, provided
from tests.providers.postgres.provided import Life, each_programs

CLOSED: Final = ("victim", "postgres", "template1", "template0")
"""Databases that it cannot connect to."""

STATEMENTS: Final = {
    "becomes superuser": "ALTER ROLE mallory SUPERUSER",
    "lets itself create roles": "ALTER ROLE mallory CREATEROLE",
    "lets itself create databases": "ALTER ROLE mallory CREATEDB",
    "lets itself replicate": "ALTER ROLE mallory REPLICATION",
    "lets itself pass row security": "ALTER ROLE mallory BYPASSRLS",
    "raises its own connection limit": "ALTER ROLE mallory CONNECTION LIMIT -1",
    "raises the owner's connection limit": "ALTER ROLE mallory_owner CONNECTION LIMIT -1",
    "lets the owner log in": "ALTER ROLE mallory_owner LOGIN PASSWORD 'x'",
    "makes itself last for ever": "ALTER ROLE mallory VALID UNTIL 'infinity'",
    "changes another's password": "ALTER ROLE victim PASSWORD 'x'",
    "changes another's settings": "ALTER ROLE victim SET search_path = evil",
    "changes the administrator's settings": "ALTER ROLE postgres SET search_path = evil",
    "changes everybody's settings": "ALTER ROLE ALL SET search_path = evil",
    "changes the settings of another's database": "ALTER DATABASE victim SET search_path = evil",
    "creates a role": "CREATE ROLE evil LOGIN",
    "drops another role": "DROP ROLE victim",
    "takes what another owns": "REASSIGN OWNED BY victim_owner TO mallory_owner",
    "drops what another owns": "DROP OWNED BY victim_owner",
    "joins another's owner": "GRANT victim_owner TO mallory",
    "joins those who read all data": "GRANT pg_read_all_data TO mallory",
    "joins those who run programs": "GRANT pg_execute_server_program TO mallory",
    "joins those who read files": "GRANT pg_read_server_files TO mallory",
    "acts as another's owner": "SET ROLE victim_owner",
    "acts as another": "SET SESSION AUTHORIZATION victim",
    "acts as the administrator": "SET SESSION AUTHORIZATION postgres",
    "acts as the administrator by its role": "SET ROLE postgres",
    "drops another's database": "DROP DATABASE victim",
    "renames its own database": "ALTER DATABASE mallory RENAME TO elsewhere",
    "gives its database to another": "ALTER DATABASE mallory OWNER TO victim_owner",
    "closes another's database": "ALTER DATABASE victim ALLOW_CONNECTIONS false",
    "copies another's database": "CREATE DATABASE mine TEMPLATE victim",
    "creates a database": "CREATE DATABASE mine",
    "lets itself into another's database": "GRANT CONNECT ON DATABASE victim TO mallory",
    "lets itself into the administrator's": "GRANT CONNECT ON DATABASE postgres TO mallory",
    "creates a tablespace": "CREATE TABLESPACE evil LOCATION '/tmp'",
    "reads a file": "SELECT pg_read_file('/etc/passwd')",
    "reads a binary file": "SELECT pg_read_binary_file('PG_VERSION')",
    "lists a folder": "SELECT pg_ls_dir('.')",
    "lists the logs": "SELECT pg_ls_logdir()",
    "asks for a file": "SELECT pg_stat_file('postgresql.conf')",
    "copies a file into a table": "CREATE TABLE f (t text); COPY f FROM '/etc/passwd'",
    "writes a file": "COPY (SELECT 'x') TO '/tmp/steelyard-evil'",
    "runs a program to write to": "COPY (SELECT 'x') TO PROGRAM 'cat > /tmp/steelyard-evil'",
    "runs a program to read from": "CREATE TABLE g (t text); COPY g FROM PROGRAM 'id'",
    "imports a file as a large object": "SELECT lo_import('/etc/passwd')",
    "exports a large object": "SELECT lo_export(lo_create(0), '/tmp/steelyard-evil')",
    "loads a library": "LOAD '/usr/lib/x86_64-linux-gnu/libc.so.6'",
    "makes a function in C": "CREATE FUNCTION evil(text) RETURNS int AS '/lib/x86_64-linux-gnu/libc.so.6', 'system' "
    "LANGUAGE c STRICT",
    "makes an internal function": "CREATE FUNCTION evil(text) RETURNS text LANGUAGE internal AS 'pg_read_file_all'",
    "brings a language that is not trusted": "CREATE EXTENSION plpython3u",
    "brings an extension to reach other databases": "CREATE EXTENSION dblink",
    "brings a wrapper for other servers": "CREATE EXTENSION postgres_fdw",
    "brings a wrapper for files": "CREATE EXTENSION file_fdw",
    "brings an extension that inspects pages": "CREATE EXTENSION pageinspect",
    "reads passwords": "SELECT rolpassword FROM pg_authid",
    "reads passwords by the old name": "SELECT passwd FROM pg_shadow",
    "changes the catalogue": "UPDATE pg_database SET datdba = 1 WHERE datname = 'victim'",
    "changes the roles": "UPDATE pg_roles SET rolsuper = true",
    "allows changes of the catalogue": "SET allow_system_table_mods = on",
    "changes a setting of the server": "ALTER SYSTEM SET log_statement = 'none'",
    "reloads the server": "SELECT pg_reload_conf()",
    "rotates the log": "SELECT pg_rotate_logfile()",
    "turns logging off": "SET log_min_messages = 'panic'",
    "preloads a library": "SET session_preload_libraries = 'evil'",
    "preloads a library for its role": "ALTER ROLE mallory SET session_preload_libraries = 'evil'",
    "raises its limit of temporary files": "SET temp_file_limit = -1",
    "ends another's session": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'victim'",
    "cancels another's query": "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'victim'",
    "ends the administrator's session": "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE usename = 'postgres'",
    "makes a checkpoint": "CHECKPOINT",
    "switches the log": "SELECT pg_switch_wal()",
    "makes a replication slot": "SELECT pg_create_physical_replication_slot('evil')",
    "makes a logical slot": "SELECT pg_create_logical_replication_slot('evil', 'pgoutput')",
    "subscribes to another server": "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 dbname=victim' PUBLICATION p",
    "publishes everything": "CREATE PUBLICATION p FOR ALL TABLES",
    "makes an event trigger": "CREATE FUNCTION t() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; "
    "CREATE EVENT TRIGGER t ON ddl_command_start EXECUTE FUNCTION t()",
    "makes a cast of basic types": "CREATE CAST (int AS text) WITHOUT FUNCTION",
    "makes an operator class": "CREATE OPERATOR CLASS evil FOR TYPE int4 USING btree AS OPERATOR 1 <",
    "makes an access method": "CREATE ACCESS METHOD evil TYPE INDEX HANDLER bthandler",
    "writes into the catalogue's schema": "CREATE TABLE pg_catalog.evil (x int)",
    "labels for security": "SECURITY LABEL ON ROLE victim IS 'x'",
    "comments on another's database": "COMMENT ON DATABASE victim IS 'mine'",
    "comments on a role": "COMMENT ON ROLE victim IS 'mine'",
}
"""What the server refuses, each by itself."""

ALLOWED: Final = {
    "makes a schema": "CREATE SCHEMA own",
    "makes a table": "CREATE TABLE mine (x int); DROP TABLE mine",
    "makes a function": "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END'; DROP FUNCTION f()",
    "makes a temporary table": "CREATE TEMP TABLE t (x int)",
    "sorts in more memory for this session": "SET work_mem = '64MB'",
    "notifies itself": "LISTEN x; NOTIFY x",
    "sees names": "SELECT datname FROM pg_database; SELECT rolname FROM pg_roles",
}


@pytest.fixture(scope="module", params=each_programs())
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    with provided.running(request.param) as started:
        with started.connect() as connection:
            # As on every server of the platform's own.
            connection.execute("REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
        yield started


async def _tenants(server: PostgresServer, folder: Path) -> dict[str, str]:
    async with ourkinds.opened(server, folder) as rig:
        life = Life(rig)
        for name in ("mallory", "victim"):
            await life.make(name)
        await life.settle()
        return {name: (await life.credentials(name))["password"] for name in ("mallory", "victim")}


@pytest.fixture(scope="module")
def passwords(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    found = asyncio.run(_tenants(server, tmp_path_factory.mktemp("hostile")))
    with _login(server, found, "victim") as session:
        session.execute("CREATE TABLE secrets AS SELECT 'clear' AS value")
        yield found
        assert session.execute("SELECT value FROM secrets").fetchone() == ("clear",), "the other tenant noticed nothing"


def _login(
    server: PostgresServer, passwords: dict[str, str], user: str, database: str = "", **more: Any
) -> psycopg.Connection[Any]:
    return psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        user=user,
        password=passwords[user],
        dbname=database or user,
        autocommit=True,
        connect_timeout=10,
        **more,
    )


@pytest.mark.parametrize("database", CLOSED)
def test_other_databases_let_nobody_in(server: PostgresServer, passwords: dict[str, str], database: str) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"permission denied|not currently accepting"):
        _login(server, passwords, "mallory", database)


def test_each_way_out_is_refused(server: PostgresServer, passwords: dict[str, str]) -> None:
    assert len(STATEMENTS) >= 40
    before = _state(server)
    got_through: list[str] = []
    for what, statement in STATEMENTS.items():
        # Once as the owner, as whom it acts, and once as itself.
        for role in ("mallory_owner", "none"):
            with _login(server, passwords, "mallory") as session, server.connect():
                session.execute(f"SET ROLE {role}".encode())
                try:
                    session.execute(statement.encode())
                except psycopg.Error:
                    continue
                got_through.append(f"as {role}: {what}: {statement}")
    assert not got_through
    assert _state(server) == before


@pytest.mark.parametrize("what", ALLOWED)
def test_what_is_its_own_stays_its_own(server: PostgresServer, passwords: dict[str, str], what: str) -> None:
    with _login(server, passwords, "mallory") as session:
        session.execute(ALLOWED[what].encode())


def test_options_of_the_connection_change_nothing(server: PostgresServer, passwords: dict[str, str]) -> None:
    for options in ("-c role=victim_owner", "-c session_authorization=victim", "-c allow_system_table_mods=on"):
        with pytest.raises(psycopg.Error):
            _login(server, passwords, "mallory", options=options).execute("SELECT 1")
    with pytest.raises(psycopg.Error):
        _login(server, passwords, "mallory", replication="database").execute("IDENTIFY_SYSTEM")


def test_more_sessions_than_its_limit_are_refused(server: PostgresServer, passwords: dict[str, str]) -> None:
    """Also after it has raised the limit of its database, which an owner may: that of its login holds."""
    with _login(server, passwords, "mallory") as session:
        session.execute("ALTER DATABASE mallory CONNECTION LIMIT 1000")
    sessions: list[psycopg.Connection[Any]] = []
    try:
        sessions += [_login(server, passwords, "mallory") for _ in range(5)]
        with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
            _login(server, passwords, "mallory")
    finally:
        for each in sessions:
            each.close()


def test_another_tenants_queries_are_not_seen(server: PostgresServer, passwords: dict[str, str]) -> None:
    with _login(server, passwords, "victim") as other, _login(server, passwords, "mallory") as session:
        other.execute("SELECT 'a secret in a query'")
        found = session.execute("SELECT query FROM pg_stat_activity WHERE usename = 'victim'").fetchall()
    assert found
    assert not [row for row in found if "a secret" in str(row[0])]


def test_without_a_password_nobody_comes_in(server: PostgresServer, passwords: dict[str, str]) -> None:
    for password in ("", "guess", passwords["victim"]):
        with pytest.raises(psycopg.OperationalError, match=r"password|SCRAM"):
            psycopg.connect(
                host="127.0.0.1",
                port=server.port,
                user="mallory",
                password=password,
                dbname="mallory",
                connect_timeout=10,
            )


async def test_a_server_of_the_platforms_own_lets_no_tenant_into_its_own_databases() -> None:
    with provided.folder() as root:
        folder = next(each_programs()).values[0]
        settings = Embedded(binaries=str(folder), directory=str(root / "server"))
        own = EmbeddedServer("postgres-provider", settings, root / "folder", root, clock.SYSTEM)
        try:
            await own.ensure()
            admin: dict[str, Any] = {"host": "127.0.0.1", "port": own.port, "connect_timeout": 10}
            with psycopg.connect(
                **admin, user=layout.ADMINISTRATOR, password=own.password(), dbname="postgres", autocommit=True
            ) as session:
                session.execute("CREATE ROLE mallory LOGIN PASSWORD 'x'")
            for database in ("postgres", "template1"):
                with pytest.raises(psycopg.OperationalError, match="permission denied"):
                    psycopg.connect(**admin, user="mallory", password="x", dbname=database)
        finally:
            await own.stop()


def _state(server: PostgresServer) -> list[Any]:
    with server.connect() as connection:
        return [
            connection.execute(
                "SELECT rolname, rolsuper, rolcreaterole, rolconnlimit, rolpassword, rolvaliduntil "
                "FROM pg_authid ORDER BY 1"
            ).fetchall(),
            connection.execute("SELECT datname, datdba, datallowconn FROM pg_database ORDER BY 1").fetchall(),
            connection.execute("SELECT roleid, member FROM pg_auth_members ORDER BY 1, 2").fetchall(),
        ]
