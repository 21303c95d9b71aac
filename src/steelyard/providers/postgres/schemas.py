"""Schema: CREATE, ALTER and DROP SCHEMA in a database. One that was there before the object stays when it goes."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.api.crossplane import DATABASES, ROLES, SCHEMAS
from steelyard.kube.resources import Resource
from steelyard.providers.postgres import records, statements
from steelyard.providers.postgres.managed import ManagedReconciler, Observation, Subject
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Invalid, Missing
from steelyard.providers.postgres.servers import Connection


def reconciler(tools: Tools) -> ManagedReconciler:
    return ManagedReconciler(tools, SchemaKind(tools))


class SchemaKind:
    def __init__(self, tools: Tools) -> None:
        self._servers = tools.servers

    @property
    def resource(self) -> Resource:
        return SCHEMAS

    @property
    def is_named(self) -> bool:
        return False

    def needs(self, subject: Subject) -> Iterable[tuple[Resource, str]]:
        return [(kind, subject.text(key)) for kind, key in ((DATABASES, "database"), (ROLES, "role"))]

    async def observe(self, subject: Subject) -> Observation:
        try:
            async with self._servers.connect(subject.config, _database(subject)) as connection:
                answer = await connection.execute(
                    "SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %s", (subject.name,)
                )
                row = await answer.fetchone()
                is_closed = await _is_closed(connection, subject)
        except Missing:
            return Observation(exists=False)
        if row is None:
            return Observation(exists=False)
        wanted = subject.text("role")
        return Observation(
            exists=True,
            is_current=is_closed and wanted in ("", str(row[0])),
            late={} if wanted else {"role": str(row[0])},
        )

    async def create(self, subject: Subject) -> None:
        creating = statements.of("CREATE SCHEMA IF NOT EXISTS {}", statements.name(subject.name))
        if subject.text("role"):
            creating = statements.of("{} AUTHORIZATION {}", creating, statements.name(subject.text("role")))
        async with self._servers.connect(subject.config, _database(subject)) as connection, connection.transaction():
            await connection.execute(creating)
            await _close(connection, subject)

    async def update(self, subject: Subject) -> None:
        async with self._servers.connect(subject.config, _database(subject)) as connection, connection.transaction():
            if subject.text("role"):
                name, role = statements.name(subject.name), statements.name(subject.text("role"))
                await connection.execute(statements.of("ALTER SCHEMA {} OWNER TO {}", name, role))
            await _close(connection, subject)

    async def delete(self, subject: Subject) -> None:
        if not records.is_ours(subject.object):
            return
        dropping = statements.of("DROP SCHEMA IF EXISTS {}", statements.name(subject.name))
        if subject.text("dropBehavior") == "CASCADE":
            dropping = statements.of("{} CASCADE", dropping)
        async with self._servers.connect(subject.config, _database(subject)) as connection:
            await connection.execute(dropping)


def _database(subject: Subject) -> str:
    if not subject.text("database"):
        raise Invalid("spec.forProvider.database: the schema says of no database that it is in it")
    return subject.text("database")


async def _is_closed(connection: Connection, subject: Subject) -> bool:
    if not subject.parameters.get("revokePublicOnSchema"):
        return True
    answer = await connection.execute(
        "SELECT 1 FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner))) a "
        "WHERE nspname = 'public' AND a.grantee = 0 LIMIT 1"
    )
    return await answer.fetchone() is None


async def _close(connection: Connection, subject: Subject) -> None:
    if subject.parameters.get("revokePublicOnSchema"):
        await connection.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
