"""A masked copy's whole life on a real server, driven from outside, on a platform that may be killed at any write.

The database that is copied is made once, undisturbed; each life begins with a copy of that platform's data directory.
In it a copy is made, made anew, and deleted. The same at the end of every life: what is in each copy, which database
the Secret names, and that neither the API nor the server nor this machine has anything more than before.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from steelyard.api import postgresql
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.kube.runtime import conditions
from tests.crash.driving import Driven, inventory
from tests.harness import INSTANT, PlatformProcess
from tests.postgresserver import PostgresServer

_CLAIMS: Final = postgresql.resource("steelyard.dev")
_NAMESPACE: Final = "default"
_SOURCE: Final = "shop"
_COPY: Final = "copy"
_SHORTLY: Final = ("--overlap", "1")
_NEVER: Final = 1_000_000
_CONTENTS: Final = """
    CREATE TABLE customers (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, email text UNIQUE);
    INSERT INTO customers (name, email) SELECT 'Person ' || n, 'p' || n || '@home.test' FROM generate_series(1, 200) n;
    CREATE TABLE orders (id serial PRIMARY KEY, customer int REFERENCES customers, paid boolean);
    INSERT INTO orders (customer, paid) SELECT 1 + n % 200, true FROM generate_series(1, 500) n;
    CREATE VIEW totals AS SELECT customer, count(*) FROM orders GROUP BY customer;
"""
_MASKING: Final[Object] = {
    "tables": {"customers": {"columns": {"name": {"action": "fakeName"}, "email": {"action": "fakeEmail"}}}},
}
_LOOKED_AT: Final = (
    "SELECT count(*), count(DISTINCT email) FROM customers",
    "SELECT count(*) FROM customers WHERE name LIKE 'Person%' OR email LIKE '%home.test'",
    "SELECT count(*) FROM orders JOIN customers ON customers.id = customer",
    "SELECT sum(count) FROM totals",
    "INSERT INTO orders (customer) VALUES (1) RETURNING id",
    "SELECT DISTINCT pg_get_userbyid(relowner)::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
    "SELECT datconnlimit FROM pg_database WHERE datname = current_database()",
    "SELECT current_database()::text",
)
_ON_SERVER: Final = {
    "database": "SELECT datname FROM pg_database",
    "role": "SELECT rolname FROM pg_roles",
    "member": "SELECT pg_get_userbyid(roleid) || ' ' || pg_get_userbyid(member) FROM pg_auth_members",
}
_SESSIONS: Final = """
    SELECT usename || ' in ' || datname FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a life ended with; equal for every life, wherever it was interrupted."""

    copies: tuple[tuple[Any, ...], ...]
    left_over: tuple[str, ...]


class Source:
    """A platform that has ended, with a database of its own that lives can have copies of, one life at a time."""

    def __init__(self, server: PostgresServer, root: Path) -> None:
        self._server = server
        self._root = root
        dsn = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode=disable"
        self._file = f"{INSTANT}postgresql: {{dsn: '{dsn}', sslMode: disable}}\n"

    @contextlib.asynccontextmanager
    async def made(self) -> AsyncGenerator[Source]:
        """For as long as the block lasts."""
        on_server = self._on_server()
        try:
            await self._make()
            yield self
        finally:
            self._remove(self._on_server() - on_server)

    async def _make(self) -> None:
        with PlatformProcess(self._root / "source", platform=self._file) as platform:
            driven = Driven(platform, platform)
            await driven.start()
            await driven.request(_make_source)
            await driven.until(lambda client: _is_ready(client, _SOURCE))
            uri = (await driven.request(lambda client: _secret(client, _SOURCE)))["uri"]
            with psycopg.connect(uri, autocommit=True) as connection:
                connection.execute(_CONTENTS)
            await driven.close()
            await asyncio.to_thread(platform.terminate)

    async def undisturbed(self) -> tuple[Outcome, int]:
        """With the number of writes that it took, each committed on its own."""
        outcome, _, log = await self._live(_NEVER)
        printed = [line for line in log.splitlines() if line.startswith("writes: ")]
        return outcome, int(printed[-1].rpartition(" ")[2])

    async def interrupted(self, kill_at: int) -> tuple[Outcome, int]:
        """The life that is killed right after its write number `kill_at`, and how often it was killed (0 or 1)."""
        outcome, kills, _ = await self._live(kill_at)
        return outcome, kills

    async def _live(self, kill_at: int) -> tuple[Outcome, int, str]:
        root = self._root / "life"
        shutil.copytree(self._root / "source", root)
        # By which everything that this life starts is known, whoever its parent is by then.
        home = {"HOME": str(root)}
        first = PlatformProcess(
            root, platform=self._file, victim=["--kill-at", str(kill_at), *_SHORTLY], environment=home
        )
        with first, PlatformProcess(root, platform=self._file, victim=_SHORTLY, environment=home) as replacement:
            driven = Driven(first, replacement)
            on_server = self._on_server()
            try:
                outcome = await self._through(driven, on_server)
                return outcome, driven.kills, driven.current.log.read_text()
            finally:
                await driven.close()
                first.kill()
                replacement.kill()
                shutil.rmtree(root)
                self._remove(self._on_server() - on_server)

    async def _through(self, driven: Driven, on_server: set[str]) -> Outcome:
        await driven.start()
        before = await driven.request(inventory)
        copies: list[tuple[Any, ...]] = []
        for generation in (1, 2):
            await driven.request(lambda client, value=f"number {generation}": _ask_for_copy(client, value))
            await driven.until(lambda client, wanted=generation: _is_copied(client, wanted))
            found = await driven.request(lambda client: _secret(client, _COPY))
            copies.append(await asyncio.to_thread(_look_at, found["uri"]))
        await driven.request(_delete)
        await driven.until(_is_gone)
        await driven.until(lambda client: _nothing_but(client, before))
        left_over = [f"object {name}" for name in sorted(await driven.request(inventory) - before)]
        await driven.close()
        await asyncio.to_thread(driven.current.terminate)
        left_over += sorted(self._on_server() - on_server)
        left_over += [f"session of {name}" for name in await self._sessions()]
        left_over += [f"process {name}" for name in _processes(self._root / "life")]
        return Outcome(tuple(copies), tuple(left_over))

    def _on_server(self) -> set[str]:
        with self._server.connect() as connection:
            return {
                f"{what} {name}"
                for what, query in _ON_SERVER.items()
                for (name,) in connection.execute(query.encode()).fetchall()
            }

    def _remove(self, left: set[str]) -> None:
        """What a life that failed has left would be in the way of others."""
        for each in sorted(left):
            what, _, name = each.partition(" ")
            if what == "database":
                self._server.drop_database(name)
            elif what == "role":
                with self._server.connect() as connection:
                    connection.execute(f'DROP ROLE "{name}"'.encode())

    async def _sessions(self) -> list[str]:
        """Those that end are given a moment."""
        found: list[str] = []
        for _ in range(100):
            with self._server.connect() as connection:
                found = [name for (name,) in connection.execute(_SESSIONS).fetchall()]
            if not found:
                break
            await asyncio.sleep(0.05)
        return found


def _processes(home: Path) -> list[str]:
    wanted = f"HOME={home}".encode()
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(path.name) != os.getpid() and wanted in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def _claim(name: str, parameters: Object, **annotations: str) -> Object:
    return {
        "apiVersion": _CLAIMS.api_version,
        "kind": _CLAIMS.kind,
        "metadata": {"name": name, "namespace": _NAMESPACE, "annotations": annotations},
        "spec": {
            "parameters": {"environment": "dev", "enableBackup": False, **parameters},
            "writeConnectionSecretToRef": {"name": f"{name}-connection"},
        },
    }


async def _make_source(client: Client) -> None:
    await client.apply(_CLAIMS, _claim(_SOURCE, {"masking": _MASKING}), field_manager="driver")


async def _ask_for_copy(client: Client, value: str) -> None:
    claim = _claim(_COPY, {"cloneFrom": {"name": _SOURCE}}, **{postgresql.REFRESH: value})
    await client.apply(_CLAIMS, claim, field_manager="driver")


async def _delete(client: Client) -> None:
    with contextlib.suppress(errors.NotFound):
        await client.delete(_CLAIMS, _COPY, _NAMESPACE)


async def _secret(client: Client, name: str) -> dict[str, str]:
    found = await client.get(SECRETS, f"{name}-connection", _NAMESPACE)
    return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


async def _is_ready(client: Client, name: str) -> str:
    claim = await client.get(_CLAIMS, name, _NAMESPACE)
    is_current = objects.at(claim, "status", "observedGeneration") == objects.generation(claim)
    if is_current and all(conditions.is_true(claim, each) for each in ("Ready", "UpToDate")):
        return ""
    return f"{name}: {claim.get('status')}"


async def _is_copied(client: Client, generation: int) -> str:
    """It is in use, and those before it are gone."""
    claim = await client.get(_CLAIMS, _COPY, _NAMESPACE)
    report = objects.mapping(objects.at(claim, "status", "clone"))
    if report.get("generation") != generation or report.get("former") or report.get("next"):
        return f"{_COPY}: {claim.get('status')}"
    return await _is_ready(client, _COPY)


async def _is_gone(client: Client) -> str:
    try:
        claim = await client.get(_CLAIMS, _COPY, _NAMESPACE)
    except errors.NotFound:
        return ""
    return f"the claim is still there: {objects.at(claim, 'status', 'message')}"


async def _nothing_but(client: Client, before: set[str]) -> str:
    return ", ".join(sorted(await inventory(client) - before))


def _look_at(uri: str) -> tuple[Any, ...]:
    with psycopg.connect(uri, autocommit=True, connect_timeout=10) as connection:
        return tuple(connection.execute(query.encode()).fetchone() for query in _LOOKED_AT)
