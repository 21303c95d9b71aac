"""A database on a server that both platforms know goes to another API and comes back: the server notices nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
import pytest

from steelyard.api import postgresql, state
from steelyard.api.crossplane import DATABASES, ROLES
from steelyard.kube import objects
from steelyard.kube.objects import Object
from steelyard.kube.resources import SECRETS
from steelyard.moving import preparing
from steelyard.moving.carrying import Manner, Mover
from steelyard.moving.preparing import CannotMove
from tests import postgresserver
from tests.moving import worlds
from tests.moving.worlds import Side
from tests.postgresserver import PostgresServer

CLAIMS: Final = postgresql.resource("steelyard.dev")
_SECRET: Final = "shop-connection"
_ELSEWHERE: Final = "127.0.0.2"
"""Where both platforms reach it. What is at 127.0.0.1 stays with its machine."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgresserver.running(listen_addresses=f"127.0.0.1, {_ELSEWHERE}") as started:
        yield started


def _file(server: PostgresServer, at: str = _ELSEWHERE) -> str:
    dsn = f"postgresql://postgres@{at}:{server.port}/postgres?sslmode=disable"
    return f"postgresql: {{dsn: '{dsn}', sslMode: disable}}\n"


def _claim(**parameters: object) -> Object:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "parameters": {"environment": "dev", "enableBackup": False, **parameters},
            "writeConnectionSecretToRef": {"name": _SECRET},
        },
    }


async def _move(source: Side, target: Side) -> None:
    prepared = await preparing.prepare(source.mover, target.mover, "there", ["default"], leaves_behind=False)
    record = await preparing.begin(source.mover, prepared)
    await Mover(source.mover, target.mover, record, Manner(terms=worlds.PATIENT)).run()


async def _is_ready(side: Side) -> None:
    await worlds.eventually(
        lambda: side.client.get(CLAIMS, "shop", "default"), lambda it: state.of(it).word == state.READY
    )


async def _login(side: Side) -> dict[str, str]:
    data = (await side.client.get(SECRETS, _SECRET, "default"))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def _on_the_server(server: PostgresServer) -> list[tuple[object, ...]]:
    """Databases and roles as the server has them, passwords and rights included: whatever was made anew differs."""
    with server.connect() as connection:
        databases = connection.execute("SELECT oid, datname, datdba, datacl::text FROM pg_database ORDER BY oid")
        roles = connection.execute("SELECT oid, rolname, rolpassword, rolconnlimit FROM pg_authid ORDER BY oid")
        members = connection.execute("SELECT roleid, member, admin_option FROM pg_auth_members ORDER BY 1, 2")
        return [*databases.fetchall(), *roles.fetchall(), *members.fetchall()]


def _notes(login: dict[str, str], *statements: str) -> list[tuple[object, ...]]:
    with psycopg.connect(login["uri"], autocommit=True, connect_timeout=10) as connection:
        for each in statements:
            connection.execute(each.encode())
        return connection.execute("SELECT body FROM notes").fetchall()


async def test_a_database_goes_there_and_back_and_its_server_notices_nothing(
    server: PostgresServer, tmp_path: Path
) -> None:
    before = _on_the_server(server)
    async with (
        worlds.side(tmp_path / "here", platform=_file(server)) as here,
        worlds.side(tmp_path / "there", platform=_file(server)) as there,
    ):
        await here.client.create(CLAIMS, _claim())
        await _is_ready(here)
        login = await _login(here)
        _notes(login, "CREATE TABLE notes (body text)", "INSERT INTO notes VALUES ('milk')")
        made = _on_the_server(server)
        for source, target in ((here, there), (there, here)):
            await _move(source, target)
            assert not (await source.client.list(CLAIMS)).items
            assert not (await source.client.list(ROLES)).items
            await _is_ready(target)
            assert await _login(target) == login
            assert _on_the_server(server) == made
            assert _notes(login) == [("milk",)]

        await here.client.patch(CLAIMS, "shop", {"spec": {"parameters": {"size": "medium"}}}, "default")
        await worlds.eventually(
            lambda: here.client.get(CLAIMS, "shop", "default"),
            lambda it: objects.at(it, "status", "parameters", "size") == "medium" and state.of(it).word == state.READY,
        )
        assert _notes(await _login(here)) == [("milk",)]
        await here.client.delete(CLAIMS, "shop", "default")
        await worlds.eventually(lambda: here.client.list(CLAIMS), lambda listed: not listed.items)
        assert not (await here.client.list(DATABASES)).items
    assert _on_the_server(server) == before


@pytest.mark.parametrize(
    ("here", "there", "told"),
    [
        ("127.0.0.1", "127.0.0.1", "on a server that only its own machine reaches (127.0.0.1:{port})"),
        (_ELSEWHERE, "127.0.0.3", "leads to 127.0.0.2:{port} here, and to 127.0.0.3:{port} at the target"),
    ],
)
async def test_a_database_stays_where_the_target_would_not_find_its_server(
    server: PostgresServer, tmp_path: Path, here: str, there: str, told: str
) -> None:
    async with (
        worlds.side(tmp_path / "here", platform=_file(server, here)) as source,
        worlds.side(tmp_path / "there", platform=_file(server, there)) as target,
    ):
        await source.client.create(CLAIMS, _claim())
        await _is_ready(source)
        with pytest.raises(CannotMove) as refused:
            await _move(source, target)
        assert told.format(port=server.port) in str(refused.value)
        await source.client.delete(CLAIMS, "shop", "default")
        await worlds.eventually(lambda: source.client.list(CLAIMS), lambda listed: not listed.items)
