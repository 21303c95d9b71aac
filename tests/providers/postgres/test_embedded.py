"""A server that the platform runs itself, from the host's programs and from the wheel's."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from steelyard.kube.runtime import clock
from steelyard.providers.postgres.embedded import account, configuration, layout, programs
from steelyard.providers.postgres.embedded.layout import Record
from steelyard.providers.postgres.embedded.programs import Programs
from steelyard.providers.postgres.embedded.server import EmbeddedServer
from steelyard.providers.postgres.problems import Away, Broken, Missing, Problem, Refused
from steelyard.settings.postgresservers import Admission, Embedded, Listening
from tests.providers.postgres import provided
from tests.providers.postgres.provided import each_programs


@pytest.fixture(scope="module", params=each_programs())
def made(request: pytest.FixtureRequest) -> Iterator[tuple[Path, Path]]:
    """A place for a server, and programs."""
    with provided.folder() as root:
        yield root, request.param


def _server(made: tuple[Path, Path], **settings: Any) -> EmbeddedServer:
    root, folder = made
    wanted = Embedded(binaries=str(folder), directory=str(root / "server"), **settings)
    return EmbeddedServer("postgres-provider", wanted, root / "folder", root, clock.SYSTEM)


@contextlib.asynccontextmanager
async def _running(made: tuple[Path, Path], **settings: Any) -> AsyncGenerator[EmbeddedServer]:
    server = _server(made, **settings)
    try:
        await server.ensure()
        yield server
    finally:
        await server.stop()


def _connect(server: EmbeddedServer, **more: Any) -> psycopg.Connection[Any]:
    given: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "dbname": "postgres", "connect_timeout": 10}
    given |= {"user": server.username, "password": server.password(), **more}
    return psycopg.connect(**given, autocommit=True)


async def _again(server: EmbeddedServer) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Away):
                await server.ensure()
                return
            await asyncio.sleep(0.1)


async def test_a_server_is_private_is_kept_running_is_adopted_and_is_stopped(made: tuple[Path, Path]) -> None:
    root, folder = made
    async with _running(made) as server:
        assert server.service().how == "running"
        assert server.check() is None
        assert (root / "server" / "data").stat().st_mode & 0o777 == 0o700
        assert (root / "folder" / "admin.password").stat().st_mode & 0o777 == 0o600
        with _connect(server) as session:
            session.execute("CREATE TABLE kept AS SELECT 1 AS x")
            listening = session.execute("SELECT current_setting('listen_addresses')").fetchone()
            assert listening == ("127.0.0.1",)
        with pytest.raises(psycopg.OperationalError, match=r"password|SCRAM"):
            _connect(server, password="guessed")
        if server.has_tls:
            authority = root / "authority.crt"
            authority.write_bytes(server.authority)
            _connect(server, sslmode="verify-full", sslrootcert=str(authority)).close()
        assert server.programs == folder

        # Killed, it recovers by itself, and what was committed is there.
        before = server.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        for _ in range(6000):
            if server.service().how != "running":
                break
            await asyncio.sleep(0.01)
        await _again(server)
        assert server.pid != before
        with _connect(server) as session:
            assert session.execute("SELECT x FROM kept").fetchone() == (1,)

        # A platform that was killed left it running: the next one adopts it.
        heir = _server(made)
        await heir.ensure()
        assert heir.pid == server.pid
        with _connect(heir) as session:
            assert session.execute("SELECT x FROM kept").fetchone() == (1,)
        await heir.stop()
    assert not (root / "server" / "data" / "postmaster.pid").exists()


async def test_the_port_and_the_data_stay_over_a_restart(made: tuple[Path, Path]) -> None:
    async with _running(made) as server:
        port = server.port
    root, _ = made
    # A file of a process that is gone, whose number is another's by now.
    (root / "server" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n{root}/server/data\n1\n{port}\n")
    async with _running(made, max_connections=77) as server:
        assert server.port == port
        with _connect(server) as session:
            assert session.execute("SELECT current_setting('max_connections')").fetchone() == ("77",)


async def test_databases_that_are_gone_are_told_of_and_not_made_anew(made: tuple[Path, Path]) -> None:
    root, _ = made
    async with _running(made):
        pass
    data, aside = root / "server" / "data", root / "server" / "aside"
    shutil.move(data, aside)
    server = _server(made)
    try:
        with pytest.raises(Broken, match="are gone"):
            await server.ensure()
        assert server.service().how == "down"
        assert "are gone" in str(server.check())
        assert not data.exists()
    finally:
        await server.stop()
        shutil.move(aside, data)


async def test_another_version_does_not_touch_them(made: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root, folder = made
    async with _running(made):
        pass
    other = Programs(Path("/elsewhere"), 99, "99.1", "elsewhere")

    def look(_folder: Path, _origin: str) -> Programs:
        return other

    monkeypatch.setattr(programs, "_look", look)
    server = _server((root, folder))
    try:
        with pytest.raises(Missing, match=r"were made by PostgreSQL \d+, and there is 99.1"):
            await server.ensure()
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _from(address: str, server: EmbeddedServer) -> AsyncGenerator[int]:
    """A port behind which connections come to the server from an address."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.2", server.port, local_addr=(address, 0))
        await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with proxy:
        yield int(proxy.sockets[0].getsockname()[1])


async def test_a_server_can_be_reached_from_networks_only_with_tls_and_as_the_roles_named(
    made: tuple[Path, Path],
) -> None:
    networks = (Admission(network="127.0.0.3/32", roles=("app",)),)
    server = _server(made, listen=Listening(address="127.0.0.2", networks=networks))

    async def comes(address: str, **given: Any) -> None:
        async with _from(address, server) as port:
            connection = await asyncio.to_thread(_connect, server, **given, port=port)
            connection.close()

    try:
        if any(each.is_wheel for each in provided.all_programs() if each.folder == made[1]):
            with pytest.raises(Broken, match="needs TLS"):
                await server.ensure()
            return
        await server.ensure()
        with _connect(server) as session:
            session.execute("CREATE ROLE app LOGIN PASSWORD 'x'; CREATE ROLE other LOGIN PASSWORD 'x'")
            session.execute("GRANT CONNECT ON DATABASE postgres TO app, other")
        app, other = {"user": "app", "password": "x"}, {"user": "other", "password": "x"}
        await comes("127.0.0.3", **app, sslmode="require")
        for address, given in (
            ("127.0.0.3", {**app, "sslmode": "disable"}),
            ("127.0.0.4", {**app, "sslmode": "require"}),
            ("127.0.0.3", {**other, "sslmode": "require"}),
            ("127.0.0.3", {"sslmode": "require"}),
        ):
            with pytest.raises(psycopg.OperationalError, match=r"no pg_hba.conf entry|reject"):
                await comes(address, **given)
    finally:
        await server.stop()


async def test_who_waits_is_told_why_it_does_not_start(tmp_path: Path) -> None:
    settings = Embedded(binaries=str(tmp_path))
    server = EmbeddedServer("postgres-provider", settings, tmp_path / "folder", tmp_path, clock.SYSTEM)
    try:
        with pytest.raises(Problem, match="has no initdb and postgres"):
            await server.ensure()
    finally:
        await server.stop()


def test_a_directory_that_its_user_cannot_enter_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    somebody = account.Account("somebody", 64000, 64000, is_another=True)
    with pytest.raises(Refused, match="may not enter"):
        layout.directory(str(closed / "server"), tmp_path, tmp_path, somebody)
    assert layout.directory(None, closed / "postgres-provider", tmp_path, somebody).is_relative_to(layout.elsewhere())
    me = account.Account("me", os.getuid(), os.getgid(), is_another=False)
    assert layout.directory(None, closed / "postgres-provider", tmp_path, me) == closed / "postgres-provider" / "server"


def test_values_are_quoted_in_the_servers_files() -> None:
    record = Record(Path("/srv/it's here"), 5432, 15)
    text = configuration.server_conf(Embedded(), record, tls=True)
    assert "log_directory = '/srv/it''s here/log'" in text
    assert configuration.certificate_hosts(Embedded()) == ["localhost", "127.0.0.1", "::1"]


def test_the_administrator_comes_only_from_this_machine() -> None:
    everywhere = Listening(address="0.0.0.0", networks=(Admission(network="10.0.0.0/8"),))
    lines = configuration.access(Embedded(listen=everywhere), tls=True).splitlines()
    assert lines.index("host all steelyard all reject") < lines.index("hostssl all all 10.0.0.0/8 scram-sha-256")
    assert not [line for line in lines if "trust" in line]


async def test_a_certificate_is_made_anew_before_it_ends(made: tuple[Path, Path]) -> None:
    root, _ = made
    async with _running(made) as server:
        if not server.has_tls:
            return
        certificate = root / "server" / "tls" / "server.crt"
        first = certificate.read_bytes()

    class Later(clock.SystemClock):
        def now(self) -> datetime.datetime:
            return super().now() + datetime.timedelta(days=300)

    late = EmbeddedServer(
        "postgres-provider",
        Embedded(binaries=str(made[1]), directory=str(root / "server")),
        root / "folder",
        root,
        Later(),
    )
    try:
        await late.ensure()
        assert certificate.read_bytes() != first
    finally:
        await late.stop()
        # The other tests have the same server, and this one is valid from next year on.
        certificate.unlink()
