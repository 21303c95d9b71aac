"""The provider inside a running platform: objects that wait for each other, drift that is noticed, servers that go."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from steelyard import app, settings
from steelyard.api.crossplane import DATABASES, EXTERNAL_NAME, GRANTS, PROVIDER_CONFIGS, ROLES
from steelyard.installation.datadir import DataDir
from steelyard.kube import errors, objects
from steelyard.kube.client.interface import Client
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS, Resource
from steelyard.kube.runtime import clock, conditions
from steelyard.providers.postgres import configs, drift, unit
from steelyard.providers.postgres.embedded.server import EmbeddedServer
from steelyard.settings.postgresservers import Embedded
from tests.postgresserver import PostgresServer
from tests.providers.postgres import provided
from tests.providers.postgres.provided import each_programs

KINDS: Final = (ROLES, DATABASES, GRANTS)
_DEADLINE: Final = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    folder = next(each_programs()).values[0]
    assert isinstance(folder, Path)
    with provided.running(folder) as started:
        yield started


@contextlib.asynccontextmanager
async def _platform(folder: Path, file: str) -> AsyncGenerator[Client]:
    options = app.Options(DataDir(folder / "data"), "127.0.0.1", 0, settings.parse(file), providers=(unit.PROVIDER,))
    async with app.started(options) as running:
        yield running.client


def _file(server: PostgresServer) -> str:
    return f"postgresql: {{dsn: 'postgresql://postgres@127.0.0.1:{server.port}/postgres?sslmode=disable'}}\n"


async def _make(client: Client, name: str, config: str = "postgres-provider") -> None:
    """In the worst order: each before what it needs."""

    def one(resource: Resource, called: str, parameters: Object, external: str, **more: Any) -> Object:
        metadata: Object = {"name": called, "annotations": {EXTERNAL_NAME: external}}
        spec: Object = {"forProvider": parameters, "providerConfigRef": {"name": config}, **more}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}

    secret = {"namespace": "crossplane-system", "name": f"{name}-login"}
    owner = f"{name}_owner"
    access: Object = {"role": name, "database": name, "privileges": ["ALL"], "revokePublicOnDb": True}
    await client.create(GRANTS, one(GRANTS, f"{name}-access", access, ""))
    await client.create(GRANTS, one(GRANTS, f"{name}-member", {"role": name, "memberOf": owner}, ""))
    await client.create(DATABASES, one(DATABASES, name, {"owner": owner, "template": "template0"}, name))
    login: Object = {"privileges": {"login": True}, "connectionLimit": 5}
    await client.create(ROLES, one(ROLES, name, login, name, writeConnectionSecretToRef=secret))
    await client.create(ROLES, one(ROLES, f"{name}-owner", {"privileges": {"login": False}}, owner))


async def _all(client: Client) -> list[Object]:
    return [obj for kind in KINDS for obj in (await client.list(kind)).items]


async def _until(reached: Callable[[], Awaitable[bool]], what: str, client: Client) -> None:
    for _ in range(int(_DEADLINE / 0.05)):
        if await reached():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what}: {[(obj['kind'], obj.get('status')) for obj in await _all(client)]}")


async def _ready(client: Client) -> None:
    async def reached() -> bool:
        found = await _all(client)
        return all(conditions.is_true(each, "Ready") and conditions.is_true(each, "Synced") for each in found)

    await _until(reached, "everything is ready", client)


async def _gone(client: Client) -> None:
    for kind in reversed(KINDS):
        for obj in (await client.list(kind)).items:
            await client.delete(kind, objects.name(obj))

    async def reached() -> bool:
        return not await _all(client)

    await _until(reached, "everything is gone", client)


async def _at_rest(client: Client) -> list[str]:
    """The versions that stay for a while."""
    before: list[str] = []
    while (found := await _versions(client)) != before:
        before = found
        await asyncio.sleep(1.5)
    return found


async def _versions(client: Client) -> list[str]:
    listed = [*(await _all(client)), *(await client.list(PROVIDER_CONFIGS)).items, *(await client.list(SECRETS)).items]
    return sorted(objects.resource_version(each) for each in listed)


async def test_what_is_made_in_any_order_is_ready_and_then_nothing_is_written(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "INTERVAL", 0.3)
    async with _platform(tmp_path, _file(server)) as client:
        for number in range(3):
            await _make(client, f"shop{number}")
        await _ready(client)
        for each in await _all(client):
            # Who came too early waited without a word, and never failed.
            assert not conditions.message_of(each, "Synced")
        before = await _at_rest(client)
        await asyncio.sleep(2)
        assert await _versions(client) == before, "an idle platform writes nothing"
        config = await client.get(PROVIDER_CONFIGS, "postgres-provider")
        assert objects.at(config, "status", "users") == 15
        assert objects.annotations(config)[configs.SERVER_VERSION].split(".")[0].isdecimal()

        with server.connect() as connection:
            connection.execute("ALTER ROLE shop1 CONNECTION LIMIT -1")
            connection.execute("ALTER ROLE shop1 PASSWORD 'guessed'")
            connection.execute("GRANT CONNECT ON DATABASE shop2 TO PUBLIC")
            connection.execute("REVOKE shop0_owner FROM shop0")
            connection.execute("ALTER DATABASE shop0 OWNER TO postgres")
        query = (
            "SELECT (SELECT rolconnlimit FROM pg_roles WHERE rolname = 'shop1'), "
            "has_database_privilege('public', 'shop2', 'CONNECT'), pg_has_role('shop0', 'shop0_owner', 'MEMBER'), "
            "(SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'shop0')"
        )

        async def is_back() -> bool:
            with server.connect() as connection:
                return connection.execute(query).fetchone() == (5, False, True, "shop0_owner")

        await _until(is_back, "what was changed by hand is put back", client)
        secret = await client.get(SECRETS, "shop1-login", "crossplane-system")
        password = base64.b64decode(secret["data"]["password"]).decode()

        async def fits() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                server_place: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "dbname": "shop1"}
                psycopg.connect(**server_place, user="shop1", password=password, connect_timeout=10).close()
                return True
            return False

        await _until(fits, "the password is put back", client)
        await _gone(client)


async def test_a_server_that_was_away_is_found_again_by_all(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "INTERVAL", 0.3)
    async with _platform(tmp_path, _file(server)) as client:
        await _make(client, "before")
        await _ready(client)
        server.stop()
        await _make(client, "during")

        async def is_told() -> bool:
            found = await client.get(ROLES, "during")
            return "cannot be reached" in conditions.message_of(found, "Synced")

        await _until(is_told, "it is told", client)
        server.start()
        await _ready(client)
        await _gone(client)


async def test_two_servers_of_the_platforms_own_know_nothing_of_each_other(tmp_path: Path) -> None:
    with provided.folder() as root:
        file = f"""\
postgresql:
  embedded: {{directory: {root}/first}}
  servers:
  - {{providerConfig: postgres-payments, namespaces: [payments], embedded: {{directory: {root}/second}}}}
"""
        async with _platform(tmp_path, file) as client:
            assert not (root / "first").exists(), "nothing is started before somebody needs it"
            await _make(client, "shop")
            await _make(client, "ledger", "postgres-payments")
            await _ready(client)
            names: dict[str, list[str]] = {}
            for secret in ("postgres-admin-creds", "postgres-payments-admin-creds"):
                data = (await client.get(SECRETS, secret, "crossplane-system"))["data"]
                found = {key: base64.b64decode(value).decode() for key, value in data.items()}
                place: dict[str, Any] = {"host": found["endpoint"], "port": found["port"], "dbname": "postgres"}
                with psycopg.connect(**place, user=found["username"], password=found["password"]) as session:
                    rows = session.execute("SELECT datname FROM pg_database WHERE NOT datistemplate ORDER BY 1")
                    names[secret] = [name for (name,) in rows.fetchall()]
            assert names == {
                "postgres-admin-creds": ["postgres", "shop"],
                "postgres-payments-admin-creds": ["ledger", "postgres"],
            }
            await _gone(client)
        assert not list(root.glob("*/data/postmaster.pid")), "they end with the platform"


@contextlib.asynccontextmanager
async def _with_tls(root: Path) -> AsyncGenerator[EmbeddedServer]:
    """A server as somebody else runs it: with a password for its administrator and an authority of its own."""
    own = EmbeddedServer("theirs", Embedded(directory=f"{root}/theirs"), root / "folder", root, clock.SYSTEM)
    try:
        await own.ensure()
        yield own
    finally:
        await own.stop()


@pytest.mark.parametrize("source", ["file", "secret"])
async def test_a_server_that_the_platform_file_names_is_reached_by_password_and_authority(
    tmp_path: Path, source: str
) -> None:
    with provided.folder() as root:
        async with _with_tls(root) as theirs:
            if not theirs.has_tls:
                pytest.skip("the programs here have no TLS")
            (tmp_path / "ca.crt").write_bytes(theirs.authority)
            (tmp_path / "password").write_text(theirs.password() + "\n")
            given = f"{{file: {tmp_path}/password}}"
            if source == "secret":
                given = "{secret: {namespace: default, name: admin, key: word}}"
            dsn = f"postgresql://{theirs.username}@127.0.0.1:{theirs.port}/postgres"
            file = f"postgresql: {{dsn: '{dsn}', ca: {tmp_path}/ca.crt, password: {given}}}\n"
            async with _platform(tmp_path, file) as client:
                await _make(client, "shop")
                if source == "secret":

                    async def is_told() -> bool:
                        found = await client.get(ROLES, "shop")
                        return "postgres-admin-creds" in conditions.message_of(found, "Synced")

                    await _until(is_told, "what is missing is told", client)
                    secret: Object = {"metadata": {"name": "admin", "namespace": "default"}}
                    await client.create(SECRETS, {**secret, "stringData": {"word": theirs.password()}})
                await _ready(client)
                config = await client.get(PROVIDER_CONFIGS, "postgres-provider")
                assert config["spec"]["sslMode"] == "verify-full"
                await _gone(client)


async def test_a_config_that_is_in_use_is_not_deleted_before_its_objects(
    server: PostgresServer, tmp_path: Path
) -> None:
    async with _platform(tmp_path, _file(server)) as client:
        by_hand = await client.get(PROVIDER_CONFIGS, "postgres-provider")
        other: Object = {
            "apiVersion": by_hand["apiVersion"],
            "kind": by_hand["kind"],
            "metadata": {"name": "by-hand"},
            "spec": by_hand["spec"],
        }
        await client.create(PROVIDER_CONFIGS, other)
        await _make(client, "shop", "by-hand")
        await _ready(client)

        async def is_in_use() -> bool:
            return bool(objects.at(await client.get(PROVIDER_CONFIGS, "by-hand"), "status", "users"))

        await _until(is_in_use, "it is known who uses it", client)
        await client.delete(PROVIDER_CONFIGS, "by-hand")
        assert objects.is_being_deleted(await client.get(PROVIDER_CONFIGS, "by-hand"))
        await _gone(client)

        async def is_gone() -> bool:
            try:
                await client.get(PROVIDER_CONFIGS, "by-hand")
            except errors.NotFound:
                return True
            return False

        await _until(is_gone, "it goes after them", client)
