"""A real server and a real API for the kinds of ours around databases, with reconcilers that are called one at a time.

Time is the test's own; connections are counted, statement by statement, and one of them can be made to fail: that is
what a server or a platform that is killed looks like from here.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import os
import tempfile
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from steelyard.api import crd, databases
from steelyard.api.crossplane import PROVIDER_CONFIGS
from steelyard.api.providersql import definitions
from steelyard.kube import errors
from steelyard.kube.client.interface import Client
from steelyard.kube.client.local import LocalClient
from steelyard.kube.objects import Object
from steelyard.kube.resources import NAMESPACES, SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.kube.runtime.cached import CachedClient
from steelyard.kube.runtime.clock import VirtualClock
from steelyard.kube.runtime.controller import Reconciler, Result
from steelyard.kube.runtime.informers import Informers
from steelyard.kube.runtime.keys import Key
from steelyard.kube.server.api import Api
from steelyard.providers.postgres.parts import Tools
from steelyard.providers.postgres.servers import Known, Servers
from steelyard.settings.data import PostgreSQL
from tests import postgresserver, prepared
from tests.postgresserver import SUPERUSER, PostgresServer

NAMESPACE = "crossplane-system"
CONFIG = "postgres-provider"
_HBA = f"host all {SUPERUSER} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


SWEEP = os.environ.get("STEELYARD_SWEEP", "")
"""With `all`, faults strike at every statement; else at some."""


def sampled(count: int, wanted: int) -> list[int]:
    """Of the statements 1 to `count`: all, or so many, spread over them, other ones whenever their number changes."""
    step = 1 if SWEEP == "all" else max(count // wanted, 1)
    return list(range(1 + count % step, count + 1, step))


class Killed(BaseException):
    """Instead of a kill -9 of the platform: nothing catches it."""


class Faults:
    """Counts statements; lets one of them fail, before or after it has reached the server."""

    def __init__(self) -> None:
        self.count = 0
        self.at = 0
        self.after = False
        self.error: BaseException = Killed()
        self.seen: list[str] = []

    def arm(self, at: int, *, after: bool, error: BaseException) -> None:
        self.count, self.at, self.after, self.error = 0, at, after, error

    def disarm(self) -> None:
        self.at = 0

    def strikes(self, *, after: bool) -> bool:
        if not after:
            self.count += 1
        return self.at == self.count and after == self.after


def _text(query: Any) -> str:
    return query.as_string(None) if isinstance(query, sql.Composable) else str(query)


class _Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    faults: Faults

    async def execute(self, query: Any, params: Any = None, **given: Any) -> Any:
        self.faults.seen.append(_text(query))
        if self.faults.strikes(after=False):
            await self.close()
            raise self.faults.error
        answer = await super().execute(query, params, **given)
        if self.faults.strikes(after=True):
            await self.close()
            raise self.faults.error
        return answer


class Rig:
    def __init__(self, server: PostgresServer, client: Client, folder: Path) -> None:
        self.server = server
        self.live = client
        self.folder = folder
        self.faults = Faults()
        self.clock = VirtualClock(datetime.datetime.now(datetime.UTC).replace(microsecond=0))
        self.tools = self._tools()

    async def restart(self) -> None:
        """Another life of the provider: nothing is known but what is written down."""
        await self.tools.servers.close()
        self.tools = self._tools()

    def _tools(self) -> Tools:
        client = CachedClient(self.live, Informers(self.live, clock=self.clock))
        known = {CONFIG: Known(find_programs=lambda: self.server.programs)}
        servers = Servers(self.live, known, connect=self._connect)
        return Tools(client, self.clock, servers, PostgreSQL(ssl_mode="disable"), self.folder)

    async def _connect(self, parameters: Mapping[str, Any]) -> Any:
        kind = type("Watched", (_Connection,), {"faults": self.faults})
        return await kind.connect(**parameters)

    async def create(self, resource: Resource, name: str, spec: Object, **metadata: Any) -> Object:
        wanted: Object = {"metadata": {"name": name, **metadata}, "spec": spec}
        wanted |= {"apiVersion": resource.api_version, "kind": resource.kind}
        return await self.live.create(resource, wanted)

    async def change(self, resource: Resource, name: str, **spec: Any) -> Object:
        return await self.live.patch(resource, name, {"spec": spec})

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.live.get(resource, name)

    async def is_gone(self, resource: Resource, name: str) -> bool:
        try:
            await self.live.get(resource, name)
        except errors.NotFound:
            return True
        return False

    async def secret(self, name: str) -> dict[str, str]:
        secret = await self.live.get(SECRETS, name, NAMESPACE)
        return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}

    async def reconcile(self, reconciler: Reconciler, name: str) -> Result:
        return await reconciler.reconcile(Key("", name))

    def sql(self, query: str, database: str = "postgres", user: str = SUPERUSER) -> list[tuple[Any, ...]]:
        with self.server.connect(database, user) as connection:
            found = connection.execute(query.encode())
            return found.fetchall() if found.description else []

    def roles(self, like: str) -> list[str]:
        return [row[0] for row in self.sql(f"SELECT rolname FROM pg_roles WHERE rolname LIKE '{like}' ORDER BY 1")]


def said(obj: Object, type_: str = "Ready") -> tuple[str, str, str]:
    found = conditions.find(obj, type_) or {}
    return str(found.get("status")), str(found.get("reason")), str(found.get("message"))


@pytest.fixture(scope="session")
def password_server() -> Iterator[PostgresServer]:
    """Asks everybody but the administrator for a password."""
    with tempfile.TemporaryDirectory(prefix="steelyard-hba-") as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "pg_hba.conf"
        file.write_text(_HBA)
        file.chmod(0o644)
        with postgresserver.running(hba_file=str(file)) as server:
            yield server


@contextlib.asynccontextmanager
async def opened(server: PostgresServer, folder: Path) -> AsyncGenerator[Rig]:
    kinds = (*map(crd.definition, databases.KINDS), *definitions.crds())
    store = await prepared.store(folder / "store.db", "postgres", lambda client: prepared.define(client, kinds))
    api = await Api.start(store)
    client = LocalClient(api)
    try:
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        admin = {"username": SUPERUSER, "password": "", "endpoint": "127.0.0.1", "port": str(server.port)}
        data = {key: base64.b64encode(value.encode()).decode() for key, value in admin.items()}
        await client.create(SECRETS, {"metadata": {"name": "admin", "namespace": NAMESPACE}, "data": data})
        reference = {"name": "admin", "namespace": NAMESPACE}
        credentials = {"source": "PostgreSQLConnectionSecret", "connectionSecretRef": reference}
        config: Object = {"metadata": {"name": CONFIG}, "spec": {"credentials": credentials, "sslMode": "disable"}}
        config |= {"apiVersion": PROVIDER_CONFIGS.api_version, "kind": PROVIDER_CONFIGS.kind}
        await client.create(PROVIDER_CONFIGS, config)
        rig = Rig(server, client, folder / "provider")
        yield rig
        await rig.tools.servers.close()
    finally:
        await api.close()
        await store.close()


def make_tenant(server: PostgresServer, name: str) -> None:
    """A database with an owner, closed to others."""
    with server.connect() as connection:
        database, owner = sql.Identifier(name), sql.Identifier(f"{name}_owner")
        connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(owner))
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, owner))
        connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database))


def drop_tenant(server: PostgresServer, name: str) -> None:
    server.drop_database(name)
    with server.connect() as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(sql.Identifier(f"{name}_owner")))


@contextlib.contextmanager
def tenant(server: PostgresServer, name: str) -> Generator[str]:
    make_tenant(server, name)
    try:
        yield name
    finally:
        drop_tenant(server, name)
