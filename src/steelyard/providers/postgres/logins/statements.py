"""The SQL of temporary logins: lists of statements, in the order in which they go.

A login that may write acts as the role that has the database (`SET role`), so that what it creates is that role's. One
that may only read is a member of a role of its own kind, `<owner>_ro`, which reads what the owner has and will have.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Final

from psycopg.sql import Composed

from steelyard.api.databases import TemporaryLoginSpec
from steelyard.frozen import frozen
from steelyard.kube.runtime import clock as clocks
from steelyard.providers.postgres import statements
from steelyard.providers.postgres.logins import marks

_READER_SUFFIX: Final = "_ro"
_POWERLESS: Final = "LOGIN INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"

FACTS: Final = """
    SELECT r.rolname, d.description = %(mine)s, r.rolcanlogin, r.rolconnlimit,
           CASE WHEN isfinite(r.rolvaliduntil) THEN extract(epoch FROM r.rolvaliduntil)::float8 END,
           coalesce(r.rolconfig, '{}')::text[],
           ARRAY(SELECT g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
                 WHERE m.member = r.oid ORDER BY g.rolname)::text[]
    FROM pg_roles r
    JOIN pg_shdescription d ON d.objoid = r.oid AND d.classoid = 'pg_authid'::regclass
    WHERE d.description = %(mine)s
       OR (d.description LIKE %(any)s AND r.rolvaliduntil < now() - interval '1 hour')
"""
"""The logins of one object, and those that nobody has looked after for an hour after their end."""

DATABASE: Final = "SELECT 1 FROM pg_database WHERE datname = %(name)s"
ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtext('steelyard ' || %(name)s))"
TAKEN: Final = "SELECT 1 FROM pg_roles WHERE rolname = %(name)s"

SCHEMAS: Final = """
    SELECT nspname FROM pg_namespace
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY nspname
"""
READER: Final = """
    SELECT coalesce(shobj_description(r.oid, 'pg_authid'), ''),
           (SELECT count(*) FROM pg_auth_members m WHERE m.roleid = r.oid)
    FROM pg_roles r WHERE r.rolname = %(name)s
"""


@frozen
class Wanted:
    """A login as it is to be on the server."""

    name: str
    mark: str
    parent: str
    """The role that it is a member of."""
    acts_as_parent: bool
    connection_limit: int
    settings: tuple[tuple[str, str], ...]


def wanted(spec: TemporaryLoginSpec, name: str, uid: str) -> Wanted:
    reads_only = spec.access == "ReadOnly"
    settings = {each.name: each.value for each in spec.configuration_parameters or ()}
    if reads_only:
        settings["default_transaction_read_only"] = "on"
    return Wanted(
        name,
        marks.login(uid),
        reader_of(spec.member_of) if reads_only else spec.member_of,
        not reads_only,
        spec.connection_limit,
        tuple(sorted(settings.items())),
    )


def reader_of(owner: str) -> str:
    return f"{owner[: statements.NAME_BYTES - len(_READER_SUFFIX)]}{_READER_SUFFIX}"


def create(login: Wanted, verifier: str, expires_at: datetime.datetime) -> list[Composed]:
    """To be run as one transaction: the role is there whole, with its mark, or not at all."""
    return [
        statements.of("CREATE ROLE {} " + _POWERLESS, statements.name(login.name)),
        statements.of("COMMENT ON ROLE {} IS {}", statements.name(login.name), statements.value(login.mark)),
        credentials(login, verifier, expires_at),
        *shape(login),
    ]


def again(login: Wanted, verifier: str, expires_at: datetime.datetime, memberships: Iterable[str]) -> list[Composed]:
    """For a role of ours that was made before the platform was killed: another password, the same shape."""
    return [credentials(login, verifier, expires_at), *leave(login, memberships), *shape(login)]


def credentials(login: Wanted, verifier: str, expires_at: datetime.datetime) -> Composed:
    return statements.of(
        "ALTER ROLE {} LOGIN PASSWORD {} VALID UNTIL {}",
        statements.name(login.name),
        statements.value(verifier),
        statements.value(clocks.rfc3339(expires_at)),
    )


def open_again(login: Wanted) -> list[Composed]:
    return [statements.of("ALTER ROLE {} LOGIN", statements.name(login.name))]


def shape(login: Wanted) -> list[Composed]:
    """What may be changed while it is in use."""
    role = statements.name(login.name)
    made = [
        statements.of("ALTER ROLE {} CONNECTION LIMIT {}", role, statements.value(login.connection_limit)),
        statements.of("ALTER ROLE {} RESET ALL", role),
        statements.of("GRANT {} TO {}", statements.name(login.parent), role),
    ]
    if login.acts_as_parent:
        made.append(statements.of("ALTER ROLE {} SET role TO {}", role, statements.value(login.parent)))
    for name, text in login.settings:
        made.append(
            statements.of("ALTER ROLE {} SET {} TO {}", role, statements.parameter(name), statements.value(text))
        )
    return made


def leave(login: Wanted, memberships: Iterable[str]) -> list[Composed]:
    """Out of the roles that it was a member of before the spec changed."""
    return [
        statements.of("REVOKE {} FROM {}", statements.name(each), statements.name(login.name))
        for each in memberships
        if each != login.parent
    ]


def make_reader(reader: str, database: str) -> list[Composed]:
    role = statements.name(reader)
    return [
        statements.of("CREATE ROLE {} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS", role),
        statements.of("COMMENT ON ROLE {} IS {}", role, statements.value(marks.reader(database))),
    ]


def let_read(reader: str, owner: str, database: str, schemas: Sequence[str]) -> list[Composed]:
    """What there is now in these schemas, and what the owner will make."""
    role, by = statements.name(reader), statements.name(owner)
    made = [statements.of("GRANT CONNECT ON DATABASE {} TO {}", statements.name(database), role)]
    for each in schemas:
        schema = statements.name(each)
        made += [
            statements.of("GRANT USAGE ON SCHEMA {} TO {}", schema, role),
            statements.of("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}", schema, role),
            statements.of("GRANT SELECT ON ALL SEQUENCES IN SCHEMA {} TO {}", schema, role),
        ]
    return [
        *made,
        statements.of("ALTER DEFAULT PRIVILEGES FOR ROLE {} GRANT USAGE ON SCHEMAS TO {}", by, role),
        statements.of("ALTER DEFAULT PRIVILEGES FOR ROLE {} GRANT SELECT ON TABLES TO {}", by, role),
        statements.of("ALTER DEFAULT PRIVILEGES FOR ROLE {} GRANT SELECT ON SEQUENCES TO {}", by, role),
    ]
