"""Grant: privileges on databases, schemas, tables and more, or membership in a role.

A grant is there when the role has at least these privileges, with the option that is asked for. A database that is to
be closed to everybody else (`revokePublicOnDb`) is looked at each time, not only when the grant is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, LiteralString

from psycopg.sql import Composable, Composed

from steelyard.api.crossplane import DATABASES, GRANTS, ROLES
from steelyard.frozen import frozen
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import Resource
from steelyard.providers.postgres import statements
from steelyard.providers.postgres.managed import ManagedReconciler, Observation, Subject
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Invalid, Missing
from steelyard.providers.postgres.servers import Connection

_WITH_INHERIT: Final = 160000
_WITH_MAINTAIN: Final = 170000
_PUBLIC_SCHEMA_IS_CLOSED: Final = 150000
_TYPES: Final = {
    "bigint": "int8",
    "boolean": "bool",
    "char": "bpchar",
    "character": "bpchar",
    "dec": "numeric",
    "decimal": "numeric",
    "float": "float8",
    "int": "int4",
    "integer": "int4",
    "real": "float4",
    "smallint": "int2",
}


@frozen
class Target:
    """What privileges are granted on."""

    word: LiteralString
    """As GRANT calls it."""
    all: frozenset[str]
    """What ALL stands for there."""
    acl: LiteralString
    """Gives object, privilege and whether it may be passed on, for a role and the objects."""
    objects: Callable[[Object], Sequence[str]]
    """What the objects are called in the answer of `acl`."""
    quoted: Callable[[Object], Composed]
    in_database: bool = True
    """Whether it is only seen from inside of the database."""


def _names(key: str) -> Callable[[Object], Sequence[str]]:
    return lambda parameters: [str(each) for each in objects.sequence(parameters.get(key))]


def _qualified(key: str) -> Callable[[Object], Composed]:
    return lambda given: statements.joined(statements.name(str(given["schema"]), each) for each in _names(key)(given))


def _plain(key: str) -> Callable[[Object], Composed]:
    return lambda given: statements.names(_names(key)(given))


def _one(key: str) -> Callable[[Object], Composed]:
    return lambda given: statements.names([str(given[key])])


def _signatures(given: Object) -> list[str]:
    routines = map(objects.mapping, objects.sequence(given.get("routines")))
    return [f"{each.get('name')}({','.join(_arguments(each))})" for each in routines]


def _arguments(routine: Object) -> list[str]:
    """Names of types as the catalogue has them: `integer` is only a way to write int4, and quoted it is nothing."""
    given = (str(each).lower() for each in objects.sequence(routine.get("args")))
    return [_TYPES.get(each, each) for each in given]


def _routines(given: Object) -> Composed:
    schema = str(given["schema"])
    return statements.joined(
        statements.of(
            "{}({})", statements.name(schema, str(each.get("name") or "")), statements.names(_arguments(each))
        )
        for each in map(objects.mapping, objects.sequence(given.get("routines")))
    )


def _columns(given: Object) -> list[str]:
    return [f"{table}.{column}" for table in _names("tables")(given) for column in _names("columns")(given)]


_USAGE: Final = frozenset(("USAGE",))
_OF_TABLES: Final = frozenset(("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN"))
_CLASSES: Final = (
    "SELECT c.relname, a.privilege_type, a.is_grantable FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, "
    "aclexplode(c.relacl) a WHERE n.nspname = %(schema)s AND a.grantee = %(role)s AND c.relname = ANY(%(objects)s) "
)
_TARGETS: Final[dict[frozenset[str], Target]] = {
    frozenset(("database",)): Target(
        "DATABASE",
        frozenset(("CREATE", "TEMPORARY", "CONNECT")),
        "SELECT d.datname, a.privilege_type, a.is_grantable FROM pg_database d, aclexplode(d.datacl) a "
        "WHERE d.datname = ANY(%(objects)s) AND a.grantee = %(role)s",
        lambda given: [str(given["database"])],
        _one("database"),
        in_database=False,
    ),
    frozenset(("database", "schema")): Target(
        "SCHEMA",
        frozenset(("CREATE", "USAGE")),
        "SELECT n.nspname, a.privilege_type, a.is_grantable FROM pg_namespace n, aclexplode(n.nspacl) a "
        "WHERE n.nspname = ANY(%(objects)s) AND a.grantee = %(role)s",
        lambda given: [str(given["schema"])],
        _one("schema"),
    ),
    frozenset(("database", "schema", "tables")): Target(
        "TABLE",
        _OF_TABLES,
        _CLASSES + "AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        _names("tables"),
        _qualified("tables"),
    ),
    frozenset(("database", "schema", "tables", "columns")): Target(
        "TABLE",
        frozenset(("SELECT", "INSERT", "UPDATE", "REFERENCES")),
        "SELECT c.relname || '.' || t.attname, a.privilege_type, a.is_grantable FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute t ON t.attrelid = c.oid, "
        "aclexplode(t.attacl) a WHERE n.nspname = %(schema)s AND a.grantee = %(role)s "
        "AND c.relname || '.' || t.attname = ANY(%(objects)s)",
        _columns,
        _qualified("tables"),
    ),
    frozenset(("database", "schema", "sequences")): Target(
        "SEQUENCE",
        frozenset(("USAGE", "SELECT", "UPDATE")),
        _CLASSES + "AND c.relkind = 'S'",
        _names("sequences"),
        _qualified("sequences"),
    ),
    frozenset(("database", "schema", "routines")): Target(
        "ROUTINE",
        frozenset(("EXECUTE",)),
        "SELECT p.signature, a.privilege_type, a.is_grantable FROM (SELECT pronamespace, proacl, proname || '(' || "
        "array_to_string(ARRAY(SELECT (SELECT typname FROM pg_type WHERE oid = t) FROM unnest(proargtypes) "
        "WITH ORDINALITY AS x (t, o) ORDER BY o), ',') || ')' AS signature FROM pg_proc) p "
        "JOIN pg_namespace n ON n.oid = p.pronamespace, "
        "aclexplode(p.proacl) a WHERE n.nspname = %(schema)s AND a.grantee = %(role)s "
        "AND p.signature = ANY(%(objects)s)",
        _signatures,
        _routines,
    ),
    frozenset(("database", "foreignServers")): Target(
        "FOREIGN SERVER",
        _USAGE,
        "SELECT s.srvname, a.privilege_type, a.is_grantable FROM pg_foreign_server s, aclexplode(s.srvacl) a "
        "WHERE s.srvname = ANY(%(objects)s) AND a.grantee = %(role)s",
        _names("foreignServers"),
        _plain("foreignServers"),
    ),
    frozenset(("database", "foreignDataWrappers")): Target(
        "FOREIGN DATA WRAPPER",
        _USAGE,
        "SELECT w.fdwname, a.privilege_type, a.is_grantable FROM pg_foreign_data_wrapper w, aclexplode(w.fdwacl) a "
        "WHERE w.fdwname = ANY(%(objects)s) AND a.grantee = %(role)s",
        _names("foreignDataWrappers"),
        _plain("foreignDataWrappers"),
    ),
}
_FIELDS: Final = frozenset(field for fields in _TARGETS for field in fields)
_MEMBERSHIP: Final = "memberOf"


def reconciler(tools: Tools) -> ManagedReconciler:
    return ManagedReconciler(tools, GrantKind(tools))


class GrantKind:
    def __init__(self, tools: Tools) -> None:
        self._servers = tools.servers

    @property
    def resource(self) -> Resource:
        return GRANTS

    @property
    def is_named(self) -> bool:
        return False

    def needs(self, subject: Subject) -> Iterable[tuple[Resource, str]]:
        wanted = ((ROLES, "role"), (ROLES, _MEMBERSHIP), (DATABASES, "database"))
        return [(kind, subject.text(key)) for kind, key in wanted if subject.text(key)]

    async def observe(self, subject: Subject) -> Observation:
        target = _target(subject)
        role = subject.text("role")
        try:
            async with self._servers.connect(subject.config, _database(subject, target)) as connection:
                if target is None:
                    return await _observe_membership(connection, subject)
                oid = await _oid(connection, role)
                granted = await _granted(connection, subject, target, oid) if oid is not None else None
                if granted is None or not _covers(subject, target, granted, connection.info.server_version):
                    return Observation(exists=False)
                return Observation(exists=True, is_current=await _is_closed(connection, subject))
        except Missing:
            # The database is not there, and so nothing in it.
            return Observation(exists=False)

    async def create(self, subject: Subject) -> None:
        target = _target(subject)
        async with self._servers.connect(subject.config, _database(subject, target)) as connection:
            version = connection.info.server_version
            async with connection.transaction():
                if target is None:
                    await _join(connection, subject, version)
                else:
                    await connection.execute(_revoke(subject, target, version))
                    await connection.execute(_grant(subject, target, version))
                    if _is_to_be_closed(subject):
                        await connection.execute(_closing(subject))
        await self._close_schema(subject)

    async def update(self, subject: Subject) -> None:
        if _is_to_be_closed(subject):
            async with self._servers.connect(subject.config) as connection:
                await connection.execute(_closing(subject))
            await self._close_schema(subject)

    async def delete(self, subject: Subject) -> None:
        target = _target(subject)
        async with self._servers.connect(subject.config, _database(subject, target)) as connection:
            if target is None:
                role, group = statements.name(subject.text("role")), statements.name(subject.text(_MEMBERSHIP))
                await connection.execute(statements.of("REVOKE {} FROM {}", group, role))
            else:
                await connection.execute(_revoke(subject, target, connection.info.server_version))

    async def _close_schema(self, subject: Subject) -> None:
        """Before version 15 everybody who could connect could also make tables in the schema public."""
        if not _is_to_be_closed(subject):
            return
        async with self._servers.connect(subject.config) as connection:
            if connection.info.server_version >= _PUBLIC_SCHEMA_IS_CLOSED:
                return
        async with self._servers.connect(subject.config, subject.text("database")) as connection:
            await connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")


def _target(subject: Subject) -> Target | None:
    """None for membership in a role."""
    given = subject.parameters
    if not given.get("role"):
        raise Invalid("spec.forProvider.role: the grant says of no role what it is for")
    if given.get(_MEMBERSHIP):
        if given.get("database") or given.get("privileges"):
            raise Invalid("spec.forProvider: a grant with memberOf has neither database nor privileges")
        return None
    if given.get("withInherit") is not None:
        raise Invalid("spec.forProvider.withInherit belongs to a grant with memberOf")
    target = _TARGETS.get(frozenset(key for key in _FIELDS if given.get(key)))
    if target is None:
        raise Invalid("spec.forProvider does not say what the grant is on: name a database, and then what is in it")
    if not given.get("privileges"):
        raise Invalid("spec.forProvider.privileges: there are none")
    return target


def _database(subject: Subject, target: Target | None) -> str:
    return subject.text("database") if target is not None and target.in_database else ""


def _has_option(subject: Subject) -> bool:
    return subject.text("withOption") == ("ADMIN" if subject.text(_MEMBERSHIP) else "GRANT")


def _expanded(subject: Subject, target: Target, version: int) -> set[str]:
    words: set[str] = set()
    everything = target.all if version >= _WITH_MAINTAIN else target.all - {"MAINTAIN"}
    for word in map(str, objects.sequence(subject.parameters.get("privileges"))):
        words |= everything if word in ("ALL", "ALL PRIVILEGES") else {"TEMPORARY" if word == "TEMP" else word}
    return words


async def _oid(connection: Connection, role: str) -> int | None:
    row = await (await connection.execute("SELECT oid FROM pg_roles WHERE rolname = %s", (role,))).fetchone()
    return int(row[0]) if row is not None else None


async def _granted(connection: Connection, subject: Subject, target: Target, role: int) -> set[tuple[str, str]]:
    values = {"schema": subject.text("schema"), "role": role, "objects": list(target.objects(subject.parameters))}
    answer = await connection.execute(target.acl, values)
    has_option = _has_option(subject)
    return {
        (str(name), str(word)) for name, word, is_grantable in await answer.fetchall() if is_grantable == has_option
    }


def _covers(subject: Subject, target: Target, granted: set[tuple[str, str]], version: int) -> bool:
    words = _expanded(subject, target, version)
    return all((name, word) in granted for name in target.objects(subject.parameters) for word in words)


def _words(subject: Subject, target: Target, version: int) -> Composed:
    words = sorted(_expanded(subject, target, version))
    columns = objects.sequence(subject.parameters.get("columns"))
    if not columns:
        return statements.privileges(words)
    listed = statements.names(map(str, columns))
    return statements.joined(statements.of("{} ({})", statements.privilege(word), listed) for word in words)


def _revoke(subject: Subject, target: Target, version: int) -> Composed:
    parts = (*_on(subject, target, version), statements.name(subject.text("role")))
    return statements.of("REVOKE {} ON {} {} FROM {}", *parts)


def _grant(subject: Subject, target: Target, version: int) -> Composed:
    parts = (*_on(subject, target, version), statements.name(subject.text("role")))
    if _has_option(subject):
        return statements.of("GRANT {} ON {} {} TO {} WITH GRANT OPTION", *parts)
    return statements.of("GRANT {} ON {} {} TO {}", *parts)


def _on(subject: Subject, target: Target, version: int) -> tuple[Composable, Composable, Composable]:
    return _words(subject, target, version), statements.of(target.word), target.quoted(subject.parameters)


def _is_to_be_closed(subject: Subject) -> bool:
    return bool(subject.parameters.get("revokePublicOnDb")) and bool(subject.text("database"))


def _closing(subject: Subject) -> Composed:
    return statements.of("REVOKE ALL ON DATABASE {} FROM PUBLIC", statements.name(subject.text("database")))


async def _is_closed(connection: Connection, subject: Subject) -> bool:
    if not _is_to_be_closed(subject):
        return True
    answer = await connection.execute(
        "SELECT 1 FROM pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba))) a "
        "WHERE datname = %s AND a.grantee = 0 LIMIT 1",
        (subject.text("database"),),
    )
    return await answer.fetchone() is None


async def _observe_membership(connection: Connection, subject: Subject) -> Observation:
    inherits = subject.parameters.get("withInherit")
    version = connection.info.server_version
    if inherits is not None and version < _WITH_INHERIT:
        raise Invalid(f"spec.forProvider.withInherit needs PostgreSQL 16, and the server is {version // 10000}")
    column = statements.of("m.inherit_option") if version >= _WITH_INHERIT else statements.of("true")
    answer = await connection.execute(
        statements.of(
            "SELECT m.admin_option, {} FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid "
            "JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = {} AND g.rolname = {}",
            column,
            statements.value(subject.text("role")),
            statements.value(subject.text(_MEMBERSHIP)),
        )
    )
    wanted = _has_option(subject)
    rows = await answer.fetchall()
    return Observation(exists=any(row[0] == wanted and inherits in (None, row[1]) for row in rows))


async def _join(connection: Connection, subject: Subject, version: int) -> None:
    group, role = statements.name(subject.text(_MEMBERSHIP)), statements.name(subject.text("role"))
    options = [statements.of("ADMIN OPTION")] if _has_option(subject) else []
    inherits = subject.parameters.get("withInherit")
    if inherits is not None and version >= _WITH_INHERIT:
        options.append(statements.of("INHERIT TRUE") if inherits else statements.of("INHERIT FALSE"))
    # One that is there with other options would keep them.
    is_member = await connection.execute(
        "SELECT 1 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member "
        "WHERE r.rolname = %s AND g.rolname = %s",
        (subject.text("role"), subject.text(_MEMBERSHIP)),
    )
    if await is_member.fetchone() is not None:
        await connection.execute(statements.of("REVOKE {} FROM {}", group, role))
    granting = statements.of("GRANT {} TO {}", group, role)
    if options:
        granting = statements.of("{} WITH {}", granting, statements.joined(options))
    await connection.execute(granting)
