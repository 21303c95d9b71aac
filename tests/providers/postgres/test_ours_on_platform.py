"""The kinds of ours inside a running platform: what wakes them, what leaves them alone, what ends with the platform."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from steelyard import app, settings
from steelyard.api.crossplane import DATABASES, EXTERNAL_NAME, ROLES
from steelyard.api.databases import BACKUPS, COPIES, LOGINS, USAGES
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import conditions
from steelyard.providers.postgres import drift, unit
from tests.postgresserver import PostgresServer
from tests.providers.postgres.ourkinds import CONFIG, NAMESPACE, password_server

__all__ = ["password_server"]

KINDS = (LOGINS, COPIES, BACKUPS, USAGES, DATABASES, ROLES)
_DEADLINE = 60.0


@contextlib.asynccontextmanager
async def platform(folder: Path, server: PostgresServer) -> AsyncGenerator[Client]:
    dsn = f"postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode=disable"
    file = f"postgresql: {{dsn: '{dsn}', sslMode: disable}}\n"
    options = app.Options(DataDir(folder / "data"), "127.0.0.1", 0, settings.parse(file), providers=(unit.PROVIDER,))
    async with app.started(options) as running:
        yield running.client


async def create(client: Client, resource: Resource, name: str, spec: Object) -> None:
    metadata: Object = {"name": name, "annotations": {EXTERNAL_NAME: name.replace("-", "_")}}
    wanted: Object = {"metadata": metadata, "spec": {"providerConfigRef": {"name": CONFIG}, **spec}}
    await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **wanted})


async def make_database(client: Client, name: str, limit: int) -> None:
    parameters: Object = {"owner": f"{name}_owner", "template": "template0", "connectionLimit": limit}
    await create(client, DATABASES, name, {"forProvider": parameters})
    await create(client, ROLES, f"{name}-owner", {"forProvider": {"privileges": {"login": False}}})


def login(database: str) -> Object:
    return {
        "database": database,
        "namePrefix": f"{database}_tmp",
        "memberOf": f"{database}_owner",
        "access": "ReadWrite",
        "validFor": "1h",
        "connectionLimit": 3,
        "writeConnectionSecretToRef": {"namespace": NAMESPACE, "name": "login"},
    }


async def until(reached: Callable[[], Awaitable[Any]], client: Client) -> Any:
    for _ in range(int(_DEADLINE / 0.05)):
        if found := await reached():
            return found
        await asyncio.sleep(0.05)
    seen = [(obj["kind"], obj.get("status")) for kind in KINDS for obj in (await client.list(kind)).items]
    raise AssertionError(f"never reached: {seen}")


async def ready(client: Client, resource: Resource, name: str) -> Object:
    async def reached() -> Object | None:
        obj = await client.get(resource, name)
        return obj if conditions.is_true(obj, "Ready") and conditions.is_true(obj, "Synced") else None

    return await until(reached, client)


async def uri(client: Client) -> str:
    try:
        secret = await client.get(SECRETS, "login", NAMESPACE)
    except errors.NotFound:
        return ""
    return base64.b64decode(secret["data"]["uri"]).decode()


async def gone(client: Client) -> None:
    for kind in KINDS:
        for obj in (await client.list(kind)).items:
            await client.delete(kind, objects.name(obj))

    async def reached() -> bool:
        return not any([(await client.list(kind)).items for kind in KINDS])

    await until(reached, client)


async def test_what_comes_before_its_database_waits_for_it_and_all_of_it_goes(
    password_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "INTERVAL", 0.2)
    async with platform(tmp_path, password_server) as client:
        await create(client, LOGINS, "access", login("oursrc"))
        await create(client, USAGES, "full", {"database": "oursrc", "limitBytes": 10**9})
        masking = {"tables": {"people": {"columns": {"name": {"action": "fakeName"}, "id": {"action": "keep"}}}}}
        await make_database(client, "oursrc", 20)
        await ready(client, LOGINS, "access")
        await ready(client, USAGES, "full")
        first = await uri(client)
        with psycopg.connect(first, autocommit=True) as session:
            session.execute(
                "CREATE TABLE people AS SELECT n AS id, 'Person ' || n AS name FROM generate_series(1, 9) n"
            )
        source: Object = {"database": "ourdst", "owner": "ourdst_owner", "source": {"database": "oursrc"}}
        await create(client, COPIES, "copy", {**source, "masking": masking})
        await make_database(client, "ourdst", 0)
        await create(client, BACKUPS, "nightly", {"database": "oursrc", "keep": 2, "trigger": "now"})
        # All the while the server is looked at for what changed behind our back: a target's limit is none of that.
        assert (await ready(client, COPIES, "copy"))["status"]["rows"] == 9

        async def dumped() -> Any:
            return (await client.get(BACKUPS, "nightly")).get("status", {}).get("dumps")

        assert len(await until(dumped, client)) == 1
        await client.delete(SECRETS, "login", NAMESPACE)

        async def replaced() -> bool:
            return await uri(client) not in ("", first)

        await until(replaced, client)
        await gone(client)
    with password_server.connect() as admin:
        roles = admin.execute("SELECT rolname FROM pg_roles WHERE rolname ~ '^(our|steelyard)'").fetchall()
        assert roles == []


async def test_a_dump_under_way_ends_with_the_platform(password_server: PostgresServer, tmp_path: Path) -> None:
    holding = (
        "SELECT application_name, query FROM pg_stat_activity WHERE datname = 'ourslow' AND wait_event_type = 'Lock'"
    )
    with password_server.database("ourslow"), password_server.connect("ourslow") as blocker:
        blocker.execute("CREATE TABLE held (id int)")
        with blocker.transaction():
            blocker.execute("LOCK TABLE held")
            async with platform(tmp_path, password_server) as client:
                await create(client, BACKUPS, "nightly", {"database": "ourslow", "keep": 2, "trigger": "now"})

                async def is_waiting() -> bool:
                    with password_server.connect() as admin:
                        return admin.execute(holding).rowcount == 1

                await until(is_waiting, client)
                # The controllers are at it in this very moment, and do not begin with another one.
                await client.patch(BACKUPS, "nightly", {"metadata": {"annotations": {"looked": "at"}}})
            # pg_dump has asked the server to cancel and has ended; the server does so in its own time.
            with password_server.connect() as admin:
                left = admin.execute(holding).fetchall()
                for _ in range(400):
                    if not left:
                        break
                    await asyncio.sleep(0.05)
                    left = admin.execute(holding).fetchall()
                assert left == []
        files = [path for path in (tmp_path / "data").rglob("*") if path.name.endswith((".new", ".dump"))]
        assert files == []
