"""Extension: CREATE and DROP EXTENSION in a database. One that was there before the object stays when it goes."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.api.crossplane import DATABASES, EXTENSIONS
from steelyard.kube.resources import Resource
from steelyard.providers.postgres import records, statements
from steelyard.providers.postgres.managed import ManagedReconciler, Observation, Subject
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.problems import Missing


def reconciler(tools: Tools) -> ManagedReconciler:
    return ManagedReconciler(tools, ExtensionKind(tools))


class ExtensionKind:
    def __init__(self, tools: Tools) -> None:
        self._servers = tools.servers

    @property
    def resource(self) -> Resource:
        return EXTENSIONS

    @property
    def is_named(self) -> bool:
        return False

    def needs(self, subject: Subject) -> Iterable[tuple[Resource, str]]:
        return [(DATABASES, subject.text("database"))]

    async def observe(self, subject: Subject) -> Observation:
        try:
            async with self._servers.connect(subject.config, subject.text("database")) as connection:
                answer = await connection.execute(
                    "SELECT extversion FROM pg_extension WHERE extname = %s", (subject.text("extension"),)
                )
                row = await answer.fetchone()
        except Missing:
            return Observation(exists=False)
        if row is None:
            return Observation(exists=False)
        wanted = subject.text("version")
        return Observation(
            exists=True, is_current=wanted in ("", str(row[0])), late={} if wanted else {"version": str(row[0])}
        )

    async def create(self, subject: Subject) -> None:
        creating = statements.of("CREATE EXTENSION IF NOT EXISTS {}", statements.name(subject.text("extension")))
        if subject.text("version"):
            creating = statements.of("{} VERSION {}", creating, statements.value(subject.text("version")))
        async with self._servers.connect(subject.config, subject.text("database")) as connection:
            await connection.execute(creating)

    async def update(self, subject: Subject) -> None:
        """To another version, which provider-sql leaves to the user."""
        name, version = statements.name(subject.text("extension")), statements.value(subject.text("version"))
        async with self._servers.connect(subject.config, subject.text("database")) as connection:
            await connection.execute(statements.of("ALTER EXTENSION {} UPDATE TO {}", name, version))

    async def delete(self, subject: Subject) -> None:
        if not records.is_ours(subject.object):
            return
        async with self._servers.connect(subject.config, subject.text("database")) as connection:
            await connection.execute(
                statements.of("DROP EXTENSION IF EXISTS {}", statements.name(subject.text("extension")))
            )
