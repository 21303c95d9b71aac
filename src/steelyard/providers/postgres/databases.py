"""Database: CREATE, ALTER and DROP DATABASE. What PostgreSQL cannot change afterwards is told, not tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, LiteralString

from psycopg.sql import SQL, Composable

from steelyard.api.crossplane import DATABASES, ROLES
from steelyard.kube.resources import Resource
from steelyard.providers.postgres import dropping, statements
from steelyard.providers.postgres.managed import ManagedReconciler, Observation, Subject
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Invalid

_DEFAULT: Final = "DEFAULT"
_CREATE_SECONDS: Final = 280.0
"""A template is copied meanwhile."""
_OLDEST_WITH_STRATEGY: Final = 150000
_FIXED: Final = ("encoding", "lcCollate", "lcCType", "tablespace")
_OBSERVE: Final = (
    "SELECT pg_get_userbyid(db.datdba), pg_encoding_to_char(db.encoding), db.datcollate, db.datctype, "
    "db.datallowconn, db.datconnlimit, db.datistemplate, ts.spcname, "
    "coalesce(shobj_description(db.oid, 'pg_database'), '') LIKE %s "
    "FROM pg_database db JOIN pg_tablespace ts ON ts.oid = db.dattablespace WHERE db.datname = %s"
)
_BEING_FILLED: Final = "steelyard copy % filling"
"""The mark of `copies/target.py`, for LIKE."""
_COLUMNS: Final = (
    *("owner", "encoding", "lcCollate", "lcCType"),
    *("allowConnections", "connectionLimit", "isTemplate", "tablespace"),
)


def reconciler(tools: Tools) -> ManagedReconciler:
    return ManagedReconciler(tools, DatabaseKind(tools))


class DatabaseKind:
    def __init__(self, tools: Tools) -> None:
        self._servers = tools.servers

    @property
    def resource(self) -> Resource:
        return DATABASES

    @property
    def is_named(self) -> bool:
        return True

    def needs(self, subject: Subject) -> Iterable[tuple[Resource, str]]:
        return [(ROLES, subject.text("owner"))]

    async def observe(self, subject: Subject) -> Observation:
        found = await self._find(subject)
        if found is None:
            return Observation(exists=False)
        wanted = subject.parameters
        late = {key: value for key, value in found.items() if wanted.get(key) is None}
        return Observation(exists=True, is_current=not list(_differing(wanted, found)), late=late)

    async def create(self, subject: Subject) -> None:
        wanted = subject.parameters
        parts: list[Composable] = [statements.of("CREATE DATABASE {}", statements.name(subject.name))]
        for key, word in _CLAUSES.items():
            if wanted.get(key) is not None:
                parts.append(statements.of(word, _value(key, wanted[key])))
        async with self._servers.connect(subject.config, statement_seconds=_CREATE_SECONDS) as connection:
            if wanted.get("strategy") is not None:
                version = connection.info.server_version
                if version < _OLDEST_WITH_STRATEGY:
                    raise Invalid(f"strategy needs PostgreSQL 15, and the server is {version // 10000}")
                parts.append(SQL("STRATEGY WAL_LOG") if wanted["strategy"] == "WAL_LOG" else SQL("STRATEGY FILE_COPY"))
            await connection.execute(statements.joined(parts, " "))

    async def update(self, subject: Subject) -> None:
        found = await self._find(subject)
        if found is None:
            return
        name = statements.name(subject.name)
        for key in _differing(subject.parameters, found):
            wanted = subject.parameters[key]
            if key in _FIXED:
                raise Invalid(
                    f"spec.forProvider.{key}: {wanted} is asked for, the database has {found[key]}, and PostgreSQL "
                    "cannot change that; put it back, or make another database"
                )
            clause = statements.of(_ALTER[key], _value(key, wanted))
            async with self._servers.connect(subject.config) as connection:
                await connection.execute(statements.of("ALTER DATABASE {} {}", name, clause))

    async def delete(self, subject: Subject) -> None:
        await dropping.drop_database(self._servers, subject.config, subject.name)

    async def _find(self, subject: Subject) -> dict[str, Any] | None:
        async with self._servers.connect(subject.config) as connection:
            row = await (await connection.execute(_OBSERVE, (_BEING_FILLED, subject.name))).fetchone()
        if row is None:
            return None
        found: dict[str, Any] = dict(zip(_COLUMNS, row[:-1], strict=True))
        limit = subject.parameters.get("connectionLimit")
        if row[-1] and limit is not None:
            # Whoever fills it lets its own logins in meanwhile, and puts the limit back.
            found["connectionLimit"] = limit
        return found


_CLAUSES: Final[dict[str, LiteralString]] = {
    "owner": "OWNER {}",
    "template": "TEMPLATE {}",
    "encoding": "ENCODING {}",
    "lcCollate": "LC_COLLATE {}",
    "lcCType": "LC_CTYPE {}",
    "tablespace": "TABLESPACE {}",
    "allowConnections": "ALLOW_CONNECTIONS {}",
    "connectionLimit": "CONNECTION LIMIT {}",
    "isTemplate": "IS_TEMPLATE {}",
}
_ALTER: Final[dict[str, LiteralString]] = {
    "owner": "OWNER TO {}",
    "allowConnections": "ALLOW_CONNECTIONS {}",
    "connectionLimit": "CONNECTION LIMIT {}",
    "isTemplate": "IS_TEMPLATE {}",
}
_NAMES: Final = frozenset(("owner", "template", "tablespace"))


def _differing(wanted: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    for key in _COLUMNS:
        asked = wanted.get(key)
        if asked is not None and asked != _DEFAULT and asked != found[key]:
            yield key


def _value(key: str, value: Any) -> Composable:
    if value == _DEFAULT and key in (*_FIXED, "template"):
        return SQL("DEFAULT")
    if isinstance(value, bool):
        return SQL("true") if value else SQL("false")
    return statements.name(str(value)) if key in _NAMES else statements.value(value)
